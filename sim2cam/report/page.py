"""Rendering of self-contained HTML pages from templates, with all values escaped."""

from __future__ import annotations

import base64
import hashlib
import math
from pathlib import Path
from typing import Any

import cv2
import jinja2
import numpy as np

from sim2cam import images
from sim2cam.files import write_atomic
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.report.values import Rgb

JPEG_QUALITY = 82
UNDEFINED = "–"


def write_page(path: Path, template: str, **values: Any) -> Path:
    """Render a template to a file and return its path.

    Raises:
        OutputError: If the file cannot be written.
    """
    environment = _create_environment()
    # Content-Security-Policy allows this script only, whatever names are on the page.
    script = environment.get_template("gallery.js").render()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment.get_template(template).render(**values, script_digest=f"sha256-{digest}")
    write_atomic(path, page.encode(errors="backslashreplace"))
    return path


def encode_thumbnail(rgb: Rgb, max_side_px: int) -> bytes:
    """Encode an image as JPEG, scaled down to a maximum side."""
    height, width = rgb.shape[:2]
    scale = max_side_px / max(height, width)
    if scale < 1:
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        rgb = np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
    return images.encode_jpeg(rgb, JPEG_QUALITY)


def encode_data_uri(jpeg: bytes) -> str:
    """Return a JPEG file as a data URI."""
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"


def format_number(value: float, digits: int = 3) -> str:
    """Format a number; a dash if it is not finite."""
    return f"{value:.{digits}f}" if math.isfinite(value) else UNDEFINED


def format_signed(value: float) -> str:
    """Format a difference with its sign; a dash if it is not finite."""
    return f"{value:+.3f}" if math.isfinite(value) else UNDEFINED


def format_interval(estimate: Estimate) -> str:
    """Format a 95 % interval; a dash if it is not finite."""
    low, high = estimate.ci95
    return f"{low:.3f}–{high:.3f}" if math.isfinite(low + high) else UNDEFINED


def format_duration(seconds: float) -> str:
    """Format a duration: ``7.2 s``, ``1 min 05 s``, ``2 h 03 min``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _create_environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sim2cam.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": format_number,
        "signed": format_signed,
        "interval": format_interval,
        "duration": format_duration,
    }
    return environment
