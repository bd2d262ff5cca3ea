"""Materials of what was drawn."""

from __future__ import annotations

import colorsys

from sim2cam.randomize.sampling import Draw
from sim2cam.scene.image_facts import NO_PICTURE, PictureFacts
from sim2cam.scene.material import Color, Material, Texture, Wear

WEAR = ("dust", "scratches", "stains", "fingerprints", "edges")
FINISH = ("material", "relief", *WEAR)
"""Factors that decide over more than colours and shine."""

_PICTURE_M = 0.3


def material_of(drawn: Draw, path: str, first: Color | None = None) -> Material:
    """Returns the material of a surface's group; ``first`` takes the place of its first colour."""
    return Material(
        _pictured(drawn, path) or _patterned(drawn, path, first),
        drawn.number(f"{path}/roughness"),
        drawn.number(f"{path}/specular"),
        drawn.number_or(f"{path}/metallic", 0.0),
        drawn.number_or(f"{path}/emission", 0.0),
        drawn.number_or(f"{path}/relief", 0.0) or None,
        _wear(drawn, path),
    )


def _patterned(drawn: Draw, path: str, first: Color | None) -> Texture:
    return Texture(
        drawn.text(f"{path}/family"),  # type: ignore[arg-type]
        first or color_of(drawn, path, ""),
        color_of(drawn, path, "second_"),
        drawn.number(f"{path}/scale_m"),
        drawn.number(f"{path}/contrast"),
        drawn.number(f"{path}/sharpness"),
        drawn.count(f"{path}/seed"),
    )


def _pictured(drawn: Draw, path: str) -> Texture | None:
    """Returns the texture of the picture that was drawn; None where that is none."""
    facts = picture_of(drawn, path)
    if facts is None:
        return None
    width = facts.width_m or drawn.number_or(f"{path}/picture_m", _PICTURE_M)
    return Texture("plain", facts.color, facts.color, width, 0.0, 0.0, 0, facts.file)


def picture_of(drawn: Draw, path: str) -> PictureFacts | None:
    """Returns what is known of the picture that a group drew; None where that is none."""
    return drawn.pictures.get(str(drawn.values.get(f"{path}/picture", NO_PICTURE)))


def _wear(drawn: Draw, path: str) -> Wear | None:
    amounts = {name: drawn.number_or(f"{path}/{name}", 0.0) for name in WEAR}
    if not any(amounts.values()):
        return None
    return Wear(**amounts, seed=drawn.count(f"{path}/seed"))


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


def shown_color(linear: Color) -> Color:
    """Returns sRGB, 0 to 1, of linear RGB by IEC 61966-2-1."""
    r, g, b = (12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in linear)
    return r, g, b
