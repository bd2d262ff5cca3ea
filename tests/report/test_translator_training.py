"""The page of a translator training."""

import numpy as np
import pytest

from sim2cam.files import write_bytes
from sim2cam.images import encode_jpeg
from sim2cam.metrics.verdict import Finding, Verdict
from sim2cam.report.translator_training import write_samples_page
from sim2cam.report.values import Curves, Series

HOSTILE = "<script>alert(1)</script>"
STRIP = encode_jpeg(np.full((8, 32, 3), 90, np.uint8), 80)


@pytest.fixture
def strips(tmp_path):
    for step in (0, 50):
        write_bytes(tmp_path / f"{step}.jpg", STRIP)
    return {step: tmp_path / f"{step}.jpg" for step in (0, 50)}


def test_the_page_opens_with_the_selected_weights(tmp_path, read_page, strips):
    page = read_page(
        write_samples_page(
            tmp_path / "samples.html",
            strips=strips,
            captures=STRIP,
            curves=Curves("Training", "loss", (Series(HOSTILE, (0, 50), (1.0, 0.5)),)),
            verdict=Verdict(
                (Finding(HOSTILE, "warning"), Finding("Apply it.", "next", "sim2cam x"))
            ),
        )
    )
    assert [img["alt"] for img in page.all("img")] == ["renders", "step 50", "target images"]
    assert page.text.index(HOSTILE) < page.text.index("Sample images")
    assert "sim2cam x" in page.text
    assert len(page.all("svg")) == 1
    assert len(page.all("script")) == 1
