"""Networks whose outputs are given."""

import torch

from sim2cam.models.network.detector import STRIDE_PX


class Says(torch.nn.Module):
    """A network that says given maps, the same of every image or by its width, and of close-ups what a reader says,
    where it has one.
    """

    def __init__(self, maps, reader=None):
        super().__init__()
        self.maps, self.roi_network = maps, reader
        self.register_buffer("mean", torch.zeros(1, 3, 1, 1))

    def classify_crops(self, rgb):
        return self.roi_network(rgb)

    def predict_surfaces(self, features, categories):
        return self.roi_network.surface_head(features, categories)

    def extract_features(self, rgb):
        assert rgb.shape[2] % 32 == rgb.shape[3] % 32 == 0
        return rgb[..., ::STRIDE_PX, ::STRIDE_PX]

    def apply_heads(self, features, cells):
        rows, columns = cells
        maps = self.maps[columns * STRIDE_PX] if isinstance(self.maps, dict) else self.maps
        return maps.crop(slice(rows), slice(columns))
