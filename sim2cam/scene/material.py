"""Surfaces as specs; render turns them into pixels. Colours are linear RGB reflectance, 0 to 1."""

from __future__ import annotations

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
    """A procedural colour pattern between two colours, or a picture.

    Attributes:
        family: the kind of pattern.
        color_a, color_b: the two colours.
        scale_m: size of the largest feature in metres.
        contrast: 0 shows ``color_a`` alone, 1 the full way to ``color_b``.
        sharpness: 0 soft transitions, 1 hard edges.
        seed: which of the family's patterns.
        image: takes the place of the pattern, as wide as ``scale_m``; ``color_a`` is then its mean.
            Beside each copy lies a mirrored one.
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
    """What use has left on a surface; each number is 0 for nothing to 1 for much.

    Attributes:
        dust: a grey film in drifts, matt, also on metal.
        scratches: fine bright lines, mostly one way.
        stains: patches of what was spilt, darker and smoother.
        fingerprints: greasy prints, seen on what shines.
        seed: where they are.
        edges: rubbed pale and matt at its edges; of dice, boards, cards, tins, cartons and sheets,
            whose pictures tell where edges are.
    """

    dust: float = 0.0
    scratches: float = 0.0
    stains: float = 0.0
    fingerprints: float = 0.0
    seed: int = 0
    edges: float = 0.0


@dataclass(frozen=True)
class Material:
    """How a surface answers to light: a dielectric or metal with GGX roughness.

    Attributes:
        texture: its colour.
        roughness: 0.05 (mirror-like) to 1 (matt).
        specular: reflectance at normal incidence, 0.02 to 0.08 for dielectrics.
        metallic: 0 dielectric, 1 metal (then the colour tints the reflection).
        emission: radiance that it sends out by itself, over its colour. What it sheds on others is
            left out: put a light where that matters.
        relief: height of the texture's pattern over its scale; None for a smooth surface.
        wear: what use has left on it. Twisty cubes show neither relief nor wear: their facelets share
            texels, and would look alike. Meshes on whose own picture parts share texels are refused
            with either.
    """

    texture: Texture
    roughness: float
    specular: float = 0.04
    metallic: float = 0.0
    emission: float = 0.0
    relief: float | None = None
    wear: Wear | None = None
