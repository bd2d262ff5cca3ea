"""Domain gaps of an experiment: against held-out real images, and by image-formation stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import fields_to_json
from sim2cam.metrics.coverage import Coverage
from sim2cam.metrics.two_sample import DomainGap, TwoSampleDistance


@dataclass(frozen=True, eq=False)
class HeldOutGap:
    """Domain gap between renders and held-out real images."""

    gap: DomainGap
    coverage: Coverage
    images: tuple[NDArray[np.uint8], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the measures as JSON values."""
        return {**self.gap.to_json(), "coverage": self.coverage.to_json()}


@dataclass(frozen=True)
class StageGap:
    """Domain gap after a stage of image formation.

    Attributes:
        stage: last applied stage; ``raw render`` before the first.
        aspects: sliced Wasserstein distances of colour, structure and detail features.
        isp_gaps: classifier AUC over the ISP features of each stage, where enough images have them.
    """

    stage: str
    gap: DomainGap
    aspects: Mapping[str, TwoSampleDistance]
    isp_gaps: Mapping[str, TwoSampleDistance]

    def to_json(self) -> dict[str, Any]:
        """Return the gap as JSON values."""
        values = fields_to_json(self)
        return {"stage": self.stage, **values.pop("gap"), **values}
