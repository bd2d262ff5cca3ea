"""Materials of what was drawn."""

from __future__ import annotations

import colorsys

from sim2cam.randomize.draw import Draw
from sim2cam.scene.material import Color, Material, Texture


def material_of(drawn: Draw, path: str, first: Color | None = None) -> Material:
    """Returns the material of a surface's group; ``first`` takes the place of its first colour."""
    texture = Texture(
        drawn.text(f"{path}/family"),  # type: ignore[arg-type]
        first or color_of(drawn, path, ""),
        color_of(drawn, path, "second_"),
        drawn.number(f"{path}/scale_m"),
        drawn.number(f"{path}/contrast"),
        drawn.number(f"{path}/sharpness"),
        drawn.count(f"{path}/seed"),
    )
    return Material(
        texture,
        drawn.number(f"{path}/roughness"),
        drawn.number(f"{path}/specular"),
        drawn.number_or(f"{path}/metallic", 0.0),
    )


def color_of(drawn: Draw, path: str, prefix: str) -> Color:
    """Returns the linear RGB of a hue, a saturation and a value."""
    hue, saturation, value = (
        drawn.number(f"{path}/{prefix}{name}") for name in ("hue", "saturation", "value")
    )
    return _linear(colorsys.hsv_to_rgb(hue % 1.0, saturation, value))


def _linear(srgb: tuple[float, float, float]) -> Color:
    """Returns linear RGB of sRGB by IEC 61966-2-1."""
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in srgb)
    return r, g, b
