"""Lens models and their discrimination by kind in files.

``project`` and ``unproject`` of all lenses agree with OpenCV; see ``geometry.central_lens`` for conventions.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Tag

from sim2cam.geometry.fisheye import KannalaBrandt, RadialTable
from sim2cam.geometry.perspective import BrownConrady, Rational, ThinPrism

__all__ = ["BrownConrady", "KannalaBrandt", "Lens", "RadialTable", "Rational", "ThinPrism"]


def _get_kind(lens: object) -> object:
    """Return the kind of a lens or its table; old datasets without kinds have ``BrownConrady`` lenses."""
    if isinstance(lens, dict):
        return lens.get("kind", BrownConrady.kind)
    return getattr(lens, "kind", None)


Lens = Annotated[
    Annotated[BrownConrady, Tag("brown_conrady")]
    | Annotated[Rational, Tag("rational")]
    | Annotated[ThinPrism, Tag("thin_prism")]
    | Annotated[KannalaBrandt, Tag("kannala_brandt")]
    | Annotated[RadialTable, Tag("radial_table")],
    Discriminator(_get_kind),
]
"""Any lens; a pinhole is ``BrownConrady`` without coefficients."""
