"""Small data for pages: pictures on disk, labels by hand, hostile names."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

import numpy as np
import pytest

from sim2cam import images
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.files import write_bytes
from sim2cam.metrics.ap_losses import ApLosses
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.calibration import ConfidenceCalibration, ReliabilityBin, ScoredDetections
from sim2cam.metrics.detection import Detection, DetectionMetrics
from sim2cam.metrics.error_analysis import ERROR_KINDS, CategoryErrors
from sim2cam.metrics.precision_recall import PrecisionRecall
from sim2cam.metrics.resampling import ResamplingUnits
from sim2cam.metrics.slices import Slice
from sim2cam.metrics.verdict import Finding, Verdict
from sim2cam.report.values import BenchReport, Example, Examples

HOSTILE = "<script>alert(1)</script>"


@dataclass
class Page(HTMLParser):
    """The tags and the visible text of a page."""

    source: str
    tags: list = field(default_factory=list)
    text: str = ""

    def __post_init__(self):
        super().__init__()
        self._hidden = False
        self.feed(self.source)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._hidden = tag in ("script", "style")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        self._hidden = False

    def handle_data(self, data):
        if not self._hidden:
            self.text += " ".join(data.split()) + " "

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]

    def addresses(self):
        names = ("src", "href", "srcset", "data", "action", "poster")
        return [a[n] for _, a in self.tags for n in names if n in a]


@pytest.fixture
def read_page():
    return lambda path: Page(path.read_text(encoding="utf-8"))


@pytest.fixture
def make_dataset(tmp_path):
    """Returns a function that writes pictures and returns labelled samples."""

    def make(labels, *, origin="sim", categories=("a", "b"), channels=(), size=(64, 48)):
        width, height = size
        rng = np.random.default_rng(0)
        samples = []
        for index, objects in enumerate(labels):
            place = tmp_path / "data" / f"{index:03d}"
            pixels = rng.integers(0, 255, (height, width, 3), np.uint8)
            write_bytes(place / "rgb.png", images.encode_png(pixels))
            files = {}
            if "ids" in channels:
                ids = np.zeros((height, width), np.uint16)
                for label in objects or ():
                    x0, y0, x1, y1 = (int(v) for v in label.box_xyxy)
                    ids[y0:y1, x0:x1] = label.instance_id
                files["ids"] = place / "ids.png"
                write_bytes(files["ids"], images.encode_png(ids))
            if "depth" in channels:
                steps = np.linspace(3000, 9000, width * height).reshape(height, width)
                files["depth"] = place / "depth.png"
                write_bytes(files["depth"], images.encode_png(steps.astype(np.uint16)))
            samples.append(
                Sample(
                    f"{index:03d}", place / "rgb.png", width, height, objects, origin,
                    scene_index=index, digest=f"{origin}{index}", channels=files,
                )
            )  # fmt: skip
        return Dataset(tmp_path / "data", categories, tuple(samples))

    return make


@pytest.fixture
def label():
    def make(category="a", box=(10.0, 10.0, 30.0, 25.0), **facts):
        return ObjectLabel(category, box, (box[2] - box[0]) * (box[3] - box[1]), **facts)

    return make


@pytest.fixture
def make_bench_report(label):
    """Returns a function that makes the content of a bench page, with a text for every name."""

    def make(text="t"):
        estimate = Estimate(0.5, (0.4, 0.6))
        rgb = np.full((30, 40, 3), 128, np.uint8)
        missed = Example(text, rgb, (label(text),), (Detection(text, (0.0, 0.0, 5.0, 5.0), 0.9),))
        curve = np.array([0.9, 0.4])
        units = ResamplingUnits(np.arange(1), "images")
        return BenchReport(
            title=f"weights on {text}",
            verdict=Verdict((Finding(f"Finds {text}.", "problem", f"sim2cam tune {text}"),)),
            score=DetectionMetrics(
                estimate, Estimate(0.842, (0.8, 0.88)), estimate, estimate, {text: estimate}, {text: estimate}, 50, 308,
                "50 images",
            ),
            calibration=ConfidenceCalibration(
                Estimate(0.041, (0.012, 0.067)), 0.03, (ReliabilityBin(0.5, 0.25, 8), ReliabilityBin(0.9, 0.75, 8))
            ),
            extra_metrics={f"AP of {text}": Estimate(0.123, (float("nan"), float("nan")))},
            ap_losses=ApLosses(0.842, {kind: 0.011 * n for n, kind in enumerate(ERROR_KINDS)}),
            category_errors=(CategoryErrors(text, 9, 4, {"b": 2, text: 1}, 1, 2, 5, 3, 7),),
            confusions=np.array([[4, 1, 4], [3, 0, 0]]),
            precision_recall=PrecisionRecall(curve, curve, curve[::-1], curve),
            detections=ScoredDetections(
                curve, np.array([True, False]), np.array([text, text]), np.zeros(2, np.int64), units
            ),
            sliced_ap50={"size, px": {"below 16": estimate, text: estimate}},
            slices=(Slice("size", text, 9, estimate, 0.333, 0.111, 0.222),),
            examples=Examples((), (missed,), 0.413),
        )  # fmt: skip

    return make
