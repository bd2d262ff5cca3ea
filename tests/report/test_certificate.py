"""The page of a certificate."""

import numpy as np
import pytest

from sim2cam.adapt.certificate.certificate import (
    MEASURES,
    DatasetCertificate,
    ImageCertificate,
    LimitCheck,
)
from sim2cam.adapt.certificate.detector_agreement import DetectorAgreement
from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from sim2cam.report.certificate import MEASURE_TITLES, write_certificate_page


def make_certificate(name, *, failed=None):
    checks = {m: LimitCheck(0.5, "pass") for m in MEASURES}
    checks["edge_recall"] = LimitCheck(None, "not measured", "<i>no labels</i>")
    if failed:
        checks[failed] = LimitCheck(7.25, "fail")
    return ImageCertificate(name, checks, {"task": DetectorAgreement(4, 3, 0, 0)})


@pytest.fixture
def paths(tmp_path):
    write_bytes(tmp_path / "a.png", encode_png(np.full((8, 8, 3), 90, np.uint8)))
    return dict.fromkeys(("000000", "<b>1"), (tmp_path / "a.png", tmp_path / "a.png"))


def test_the_page_shows_measures_and_accepted_and_rejected_images(tmp_path, read_page, paths):
    images = (make_certificate("000000"), make_certificate("<b>1", failed="grid_artefact_levels"))
    certificate = DatasetCertificate(CertificateLimits(), {"task": "0123456789abcdef"}, images)
    write_certificate_page(certificate, paths, tmp_path / "p.html")
    page = read_page(tmp_path / "p.html")
    text = " ".join(page.text.split())
    assert "Certificate: failed" in text
    assert "1 of 2 translated images accepted, 1 rejected (50.0 %" in text
    assert "grid artefacts, grey levels: 7.25, at most 0.5" in text
    assert "not measured in 2: <i>no labels</i>" in text
    assert "task (0123456789ab): 75.0 %" in text
    assert len(page.all("img")) == 4
    assert not page.all("i") + page.all("b")
    assert all(address.startswith("data:") for address in page.addresses())


def test_every_measure_has_a_title():
    assert tuple(MEASURE_TITLES) == MEASURES
