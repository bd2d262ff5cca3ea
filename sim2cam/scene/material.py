"""Material and texture specifications with linear RGB reflectances, 0 to 1."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from typing import Literal, get_args

from sim2cam.scene.image_file import ImageFile

Color = tuple[float, float, float]

TextureFamily = Literal[
    "plain", "value", "perlin", "fbm", "worley", "marble", "wood", "speckle", "scratches", "stains",
    "checker", "gradient", "weave", "brushed",
]  # fmt: skip
TEXTURE_FAMILIES: tuple[str, ...] = get_args(TextureFamily)


@dataclass(frozen=True)
class Texture:
    """A procedural pattern of two colours, or an image.

    Attributes:
        family: Kind of pattern.
        color_a, color_b: The two colours.
        scale_m: Size of the largest feature in metres.
        contrast: 0 for ``color_a`` alone, 1 for the full range to ``color_b``.
        sharpness: 0 for soft transitions, 1 for hard edges.
        seed: Seed of the pattern.
        image: Image instead of the pattern, ``scale_m`` wide, tiled with mirroring; ``color_a`` is its mean.
    """

    family: TextureFamily
    color_a: Color
    color_b: Color
    scale_m: float
    contrast: float
    sharpness: float
    seed: int
    image: ImageFile | None = None


@dataclass(frozen=True)
class Wear:
    """Traces of use on a surface, each 0 (none) to 1 (strong).

    Attributes:
        dust: Uneven matt grey film.
        scratches: Fine bright lines, mostly in one direction.
        stains: Darker and smoother patches.
        fingerprints: Greasy prints, visible on glossy surfaces.
        seed: Seed of their positions.
        edges: Pale and matt edges; for dice, boards, cards, tins, cartons and sheets, whose textures locate
            edges.
    """

    dust: float = 0.0
    scratches: float = 0.0
    stains: float = 0.0
    fingerprints: float = 0.0
    seed: int = 0
    edges: float = 0.0


@dataclass(frozen=True)
class Material:
    """Reflectance of a surface: a dielectric or metal with GGX roughness.

    Attributes:
        texture: Its colour.
        roughness: 0.05 (mirror-like) to 1 (matt).
        specular: Reflectance at normal incidence, 0.02 to 0.08 for dielectrics.
        metallic: 0 dielectric, 1 metal, whose colour tints the reflection.
        emission: Emitted radiance over the colour. It does not light other bodies; add a light for that.
        relief: Height of the texture's pattern over its scale; None for a smooth surface.
        wear: Traces of use. Twisty cubes show neither relief nor wear, because their facelets share texels.
            Meshes with shared texels are refused with either.
    """

    texture: Texture
    roughness: float
    specular: float = 0.04
    metallic: float = 0.0
    emission: float = 0.0
    relief: float | None = None
    wear: Wear | None = None


def hsv_to_linear(hue: float, saturation: float, value: float) -> Color:
    """Return the linear RGB of an sRGB colour given as hue, saturation and value (IEC 61966-2-1)."""
    srgb = colorsys.hsv_to_rgb(hue % 1.0, saturation, value)
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in srgb)
    return r, g, b


def linear_to_srgb(linear: Color) -> Color:
    """Return sRGB, 0 to 1, from linear RGB (IEC 61966-2-1)."""
    r, g, b = (12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in linear)
    return r, g, b


def mix_colors(first: Color, second: Color, share: float) -> Color:
    """Return a linear blend of two colours."""
    r, g, b = ((1 - share) * a + share * b for a, b in zip(first, second, strict=True))
    return r, g, b
