"""Photos with EXIF orientation and a bright box."""

import numpy as np
from PIL import Image

from sim2cam.images import read_rgb

_ORIENTATION = 0x0112


def save(path, *, size=(40, 30), box=None, orientation=1):
    """Save a black image of (width, height) as stored, with a white box x0, y0, x1, y1."""
    pixels = np.zeros((size[1], size[0], 3), np.uint8)
    if box is not None:
        x0, y0, x1, y1 = box
        pixels[y0:y1, x0:x1] = 255
    exif = Image.Exif()
    exif[_ORIENTATION] = orientation
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, exif=exif)


def planted_box(path):
    """Return the box of the bright pixels of the upright image."""
    rows, columns = np.nonzero(read_rgb(path)[:, :, 0] > 200)
    edges = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
    return tuple(int(edge) for edge in edges)
