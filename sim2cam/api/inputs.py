"""Images that callers pass: paths, PIL images, numpy arrays and torch tensors, as RGB arrays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import UsageError
from sim2cam.images import encode_png, read_rgb

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

    ImageInput = str | Path | Image.Image | NDArray[Any] | Tensor

_SCALES = {"uint8": 1.0, "uint16": 1 / 257}
_CHANNELS = (1, 3, 4)


def load_rgb(image: ImageInput) -> NDArray[np.uint8]:
    """Return an image as RGB uint8 (H, W, 3).

    Integers are uint8 (0 to 255) or uint16 (0 to 65535), floats are 0 to 1. Grey values become RGB; alpha is
    composited over white.

    Args:
        image: Path, PIL image, array (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), or tensor (H, W), (1, H, W),
            (3, H, W) or (4, H, W).

    Raises:
        InputError: If a file is missing or damaged.
        UsageError: If the type, shape or value range is not supported.
    """
    if isinstance(image, (str, Path)):
        return read_rgb(Path(image))
    if isinstance(image, np.ndarray):
        return _convert_array(image)
    if hasattr(image, "detach"):
        values = image.detach().cpu()
        values = values.float() if values.is_floating_point() else values
        return _convert_array(
            np.moveaxis(values.numpy(), 0, -1) if values.ndim == 3 else values.numpy()
        )
    if hasattr(image, "getexif"):
        return _convert_pil(image)
    raise UsageError(
        f"cannot read an image from {type(image).__name__}. Pass a path, a PIL image, a numpy array or a "
        "torch tensor."
    )


def _convert_array(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.ndim != 3 or pixels.shape[2] not in _CHANNELS or not pixels.size:
        raise UsageError(
            f"an image has shape {pixels.shape}. Allowed: (H, W), (H, W, 1), (H, W, 3) and (H, W, 4) for "
            "arrays, channels first for tensors."
        )
    levels = _to_levels(pixels)
    if levels.shape[2] == 4:
        alpha = levels[..., 3:] / 255
        levels = levels[..., :3] * alpha + 255 * (1 - alpha)
    rgb = np.broadcast_to(levels, (*levels.shape[:2], 3))
    return np.ascontiguousarray(rgb.round().astype(np.uint8))


def _to_levels(pixels: NDArray[Any]) -> NDArray[np.float64]:
    """Return pixel values from 0 to 255."""
    if pixels.dtype.name in _SCALES:
        return np.asarray(pixels * _SCALES[pixels.dtype.name], np.float64)
    if not np.issubdtype(pixels.dtype, np.floating):
        raise UsageError(
            f"an image has values of {pixels.dtype}. Allowed: uint8, uint16 and floats."
        )
    if not (pixels.min() >= 0 and pixels.max() <= 1):  # also refuses NaN
        raise UsageError(
            f"a floating-point image has values from {pixels.min():.4g} to {pixels.max():.4g}. Scale them to "
            "0 to 1, or pass uint8."
        )
    return np.asarray(pixels, np.float64) * 255


def _convert_pil(image: Image.Image) -> NDArray[np.uint8]:
    from PIL import ImageOps

    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I"):
        return _convert_array(np.asarray(upright).clip(0, 65535).astype(np.uint16))
    if upright.mode == "F":
        return _convert_array(np.asarray(upright))
    if upright.mode not in {"L", "RGB", "RGBA"}:
        upright = upright.convert("RGBA" if upright.has_transparency_data else "RGB")
    return _convert_array(np.asarray(upright))


def encode_html_image(rgb: NDArray[np.uint8]) -> str:
    """Return an HTML image element with the pixels (H, W, 3) as an embedded PNG."""
    import base64

    data = base64.b64encode(encode_png(rgb)).decode()
    return f'<img src="data:image/png;base64,{data}" style="max-width: 100%">'
