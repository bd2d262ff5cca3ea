"""The picture at the top of the README: a render, its translation, and detections on a photo.

    SIM2CAM_REAL=PATH python docs/hero.py [WORK]

Renders the recipe ``dice``, trains a translator on the renders and on unlabelled photos, and detects dice
in a development photo with the shipped weights. Takes less than ten minutes of two cores. The photos are those
of ``sim2cam fetch dice`` (BSD-3-Clause, github.com/nell-byler/dice_detection). Writes
``docs/hero.jpg``; the folder WORK keeps the renders and the translator.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

import sim2cam
from sim2cam.files import write_bytes
from sim2cam.images import encode_jpeg

FILE = Path(__file__).parent / "hero.jpg"
COUNT, SEED, STEPS = 60, 0, 600
SAMPLE = "000032"
PHOTO, CORNER, CROP = "train/IMG_20191208_111352.jpg", (0.34, 0.15), 0.6
"""Development photo, the upper left corner (x, y) of its crop, and the side of the crop, as shares of the photo."""
SIDE_PX, CAPTION_PX, GAP_PX = 420, 34, 8
CAPTIONS = (
    "Render, labels from the same pass",
    "Translated toward the photos",
    "Detections on a real photo",
)
QUALITY = 70


def main(work: Path) -> None:
    """Render, translate, detect and write the picture."""
    photos = Path(os.environ["SIM2CAM_REAL"]) / "dice"
    sim = sim2cam.Recipe("dice").render(work / "sim", count=COUNT, seed=SEED, overwrite=True)
    adapted = sim2cam.adapt(
        sim, real=photos / "style.json", out=work / "adapted", steps=STEPS, overwrite=True
    )
    detections = sim2cam.load("dice").predict(photos / PHOTO).plot()
    left, top, side = (round(share * detections.shape[1]) for share in (*CORNER, CROP))
    crop = detections[top : top + side, left : left + side]
    panels = [*(_find_frame(dataset, SAMPLE) for dataset in (sim, adapted)), crop]
    write_bytes(FILE, encode_jpeg(_arrange(panels), QUALITY))
    print(f"{FILE}: {FILE.stat().st_size / 1024:.0f} KiB")


def _find_frame(dataset: sim2cam.Dataset, name: str) -> NDArray[np.uint8]:
    return next(frame.rgb for frame in dataset if frame.name == name)


def _arrange(panels: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Return the panels side by side, each under its caption."""
    width = len(panels) * (SIDE_PX + GAP_PX) - GAP_PX
    sheet = Image.new("RGB", (width, SIDE_PX + CAPTION_PX), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(18)
    for number, (panel, caption) in enumerate(zip(panels, CAPTIONS, strict=True)):
        left = number * (SIDE_PX + GAP_PX)
        resized = cv2.resize(panel, (SIDE_PX, SIDE_PX), interpolation=cv2.INTER_AREA)
        sheet.paste(Image.fromarray(resized), (left, CAPTION_PX))
        pen.text((left + 4, 7), f"{number + 1}  {caption}", "black", font)
    return np.asarray(sheet)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else folder))
