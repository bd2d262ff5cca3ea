"""Materials from sampled factors."""

from __future__ import annotations

import colorsys

from sim2cam.randomize.sampling import FactorValues
from sim2cam.scene.image_facts import NO_IMAGE, TextureImageInfo
from sim2cam.scene.material import Color, Material, Texture, Wear

WEAR_FACTORS = ("dust", "scratches", "stains", "fingerprints", "edges")
FINISH_FACTORS = ("material", "relief", *WEAR_FACTORS)
"""Factors beyond colour and gloss."""

_DEFAULT_IMAGE_WIDTH_M = 0.3


def make_material(factors: FactorValues, path: str, first_color: Color | None = None) -> Material:
    """Return the material of a surface group; ``first_color`` replaces its first colour."""
    return Material(
        _make_image_texture(factors, path) or _make_pattern_texture(factors, path, first_color),
        factors.get_float(f"{path}/roughness"),
        factors.get_float(f"{path}/specular"),
        factors.get_float_or(f"{path}/metallic", 0.0),
        factors.get_float_or(f"{path}/emission", 0.0),
        factors.get_float_or(f"{path}/relief", 0.0) or None,
        _make_wear(factors, path),
    )


def _make_pattern_texture(factors: FactorValues, path: str, first_color: Color | None) -> Texture:
    return Texture(
        factors.get_str(f"{path}/family"),  # type: ignore[arg-type]
        first_color or get_color(factors, path, ""),
        get_color(factors, path, "second_"),
        factors.get_float(f"{path}/scale_m"),
        factors.get_float(f"{path}/contrast"),
        factors.get_float(f"{path}/sharpness"),
        factors.get_int(f"{path}/seed"),
    )


def _make_image_texture(factors: FactorValues, path: str) -> Texture | None:
    """Return the texture of the sampled image; None without one."""
    facts = get_surface_image(factors, path)
    if facts is None:
        return None
    width = facts.width_m or factors.get_float_or(f"{path}/picture_m", _DEFAULT_IMAGE_WIDTH_M)
    return Texture("plain", facts.color, facts.color, width, 0.0, 0.0, 0, facts.file)


def get_surface_image(factors: FactorValues, path: str) -> TextureImageInfo | None:
    """Return the texture image that a group sampled; None without one."""
    return factors.surface_images.get(str(factors.values.get(f"{path}/picture", NO_IMAGE)))


def _make_wear(factors: FactorValues, path: str) -> Wear | None:
    amounts = {name: factors.get_float_or(f"{path}/{name}", 0.0) for name in WEAR_FACTORS}
    if not any(amounts.values()):
        return None
    return Wear(**amounts, seed=factors.get_int(f"{path}/seed"))


def get_color(factors: FactorValues, path: str, prefix: str) -> Color:
    """Return the linear RGB of a colour given as hue, saturation and value."""
    hue, saturation, value = (
        factors.get_float(f"{path}/{prefix}{name}") for name in ("hue", "saturation", "value")
    )
    return _srgb_to_linear(colorsys.hsv_to_rgb(hue % 1.0, saturation, value))


def _srgb_to_linear(srgb: tuple[float, float, float]) -> Color:
    """Return linear RGB from sRGB (IEC 61966-2-1)."""
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in srgb)
    return r, g, b


def linear_to_srgb(linear: Color) -> Color:
    """Return sRGB, 0 to 1, from linear RGB (IEC 61966-2-1)."""
    r, g, b = (12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in linear)
    return r, g, b
