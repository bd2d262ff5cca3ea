"""Materials from sampled factors."""

from __future__ import annotations

from sim2cam.randomize.factors import SurfaceFactors
from sim2cam.randomize.sampling import FactorValues
from sim2cam.scene.image_facts import NO_IMAGE, TextureImageInfo
from sim2cam.scene.material import Material, Texture, Wear, hsv_to_linear

WEAR_FACTORS = ("dust", "scratches", "stains", "fingerprints", "edges")
FINISH_FACTORS = ("material", "relief", *WEAR_FACTORS)
"""Factors beyond colour and gloss."""


def make_material(factors: FactorValues, path: str) -> Material:
    """Return the material of a surface group."""
    surface = factors.read(SurfaceFactors, path)
    return Material(
        _make_texture(surface, get_surface_image(factors, path)),
        surface.roughness,
        surface.specular,
        surface.metallic,
        surface.emission,
        surface.relief or None,
        _make_wear(surface),
    )


def _make_texture(surface: SurfaceFactors, image: TextureImageInfo | None) -> Texture:
    if image is not None:
        width_m = image.width_m or surface.picture_m
        return Texture("plain", image.color, image.color, width_m, 0.0, 0.0, 0, image.file)
    return Texture(
        surface.family,
        hsv_to_linear(surface.hue, surface.saturation, surface.value),
        hsv_to_linear(surface.second_hue, surface.second_saturation, surface.second_value),
        surface.scale_m,
        surface.contrast,
        surface.sharpness,
        surface.seed,
    )


def get_surface_image(factors: FactorValues, path: str) -> TextureImageInfo | None:
    """Return the texture image that a group sampled; None without one."""
    return factors.surface_images.get(str(factors.values.get(f"{path}/picture", NO_IMAGE)))


def _make_wear(surface: SurfaceFactors) -> Wear | None:
    amounts = {name: getattr(surface, name) for name in WEAR_FACTORS}
    return Wear(**amounts, seed=surface.seed) if any(amounts.values()) else None
