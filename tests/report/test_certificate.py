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
from sim2cam.metrics.verdict import Finding
from sim2cam.report.certificate import (
    count_causes,
    summarize_certificate,
    write_certificate_page,
)
from sim2cam.report.certificate_measures import MEASURE_TEXTS
from tests.support.browser import HOSTILE_NAME, check_layout, requires_chromium


def make_certificate(name, *, failed=None, retained=3):
    checks = {m: LimitCheck(0.5, "pass") for m in MEASURES}
    checks["edge_recall"] = LimitCheck(None, "not measured", "<i>no labels</i>")
    if failed:
        checks[failed] = LimitCheck(7.25, "fail")
    return ImageCertificate(name, checks, {"task": DetectorAgreement(4, retained, 0, 0)})


@pytest.fixture
def paths(tmp_path):
    write_bytes(tmp_path / "a.png", encode_png(np.full((8, 8, 3), 90, np.uint8)))
    return dict.fromkeys(("000000", "<b>1"), (tmp_path / "a.png", tmp_path / "a.png"))


def make_dataset_certificate(*images):
    return DatasetCertificate(CertificateLimits(), {"task": "0123456789abcdef"}, images)


def test_the_page_shows_measures_and_accepted_and_rejected_images(tmp_path, read_page, paths):
    certificate = make_dataset_certificate(
        make_certificate("000000"), make_certificate("<b>1", failed="grid_artefact_levels")
    )
    write_certificate_page(certificate, paths, tmp_path / "p.html")
    page = read_page(tmp_path / "p.html")
    text = " ".join(page.text.split())
    assert "Certificate: failed" in text
    assert "1 of 2 images pass; their labels moved by at most 0.5 px." in text
    assert "rejected images 50.0 % (95 % interval 9.5–90.5 %)" in text
    assert "checkerboard patterns: 7.25, limit at most 0.5" in text
    assert "edge_recall <i>no labels</i>" in text
    assert "detection recall, task detector 0123456789ab 75.0 %" in text
    assert len(page.all("img")) == 4
    assert not page.all("i") + page.all("b")
    assert all(address.startswith("data:") for address in page.addresses())


def test_the_verdict_counts_causes_and_says_what_to_do():
    certificate = make_dataset_certificate(
        make_certificate("0"),
        make_certificate("1", failed="seam_step_levels"),
        make_certificate("2", failed="edge_recall"),
        make_certificate("3", failed="edge_recall"),
    )
    findings = summarize_certificate(certificate).findings
    assert count_causes(certificate) == {"edge_recall": 2, "seam_step_levels": 1}
    assert findings[0] == Finding(
        "1 of 4 images pass; their labels moved by at most 0.5 px. The dataset breaks a limit of its certificate.",
        "problem",
    )
    texts = [finding.text for finding in findings]
    assert any(
        "3 images were rejected: 2 for lost outlines of objects, 1 for seams" in t for t in texts
    )
    steps = [finding for finding in findings if finding.severity == "next"]
    assert steps[0].text == (
        "To avoid lost outlines of objects: Raise structure_weight, or lower local_bound."
    )
    assert "adapt train" in steps[-1].action  # and no training of a detector, as the dataset failed


def test_a_certified_dataset_leads_to_training():
    certificate = make_dataset_certificate(make_certificate("0", retained=4))
    first, step = summarize_certificate(certificate).findings
    assert first.severity == "good"
    assert step.action == "sim2cam train RECIPE --data RENDERS ADAPTED --out DETECTOR"


def test_an_image_with_two_causes_is_shown_once(tmp_path, read_page, paths):
    image = make_certificate("000000", failed="seam_step_levels")
    both = ImageCertificate(
        "000000", {**image.checks, "colour_shift": LimitCheck(9.0, "fail")}, image.agreements
    )
    write_certificate_page(make_dataset_certificate(both), paths, tmp_path / "p.html")
    page = read_page(tmp_path / "p.html")
    assert len(page.all("img")) == 2
    assert "Changed colours of objects: 1 image " in page.text
    assert "Seams: 1 image " in page.text


def test_every_measure_has_a_description():
    assert tuple(MEASURE_TEXTS) == MEASURES


@requires_chromium
def test_the_page_fits_a_narrow_screen(tmp_path, paths):
    images = [make_certificate(HOSTILE_NAME, failed=name) for name in MEASURES]
    pairs = {HOSTILE_NAME: paths["000000"]}
    page = write_certificate_page(make_dataset_certificate(*images), pairs, tmp_path / "p.html")
    check_layout(page, 390)
