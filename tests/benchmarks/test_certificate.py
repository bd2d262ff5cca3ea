"""Certificates reject harmful changes and accept camera changes of a small image."""

import numpy as np
import pytest
from certificate import (
    VERIFIER_MEASURES,
    cache_detections,
    score_change,
    select_subjects,
    write_sheet,
)
from saboteurs import BENIGN, SABOTEURS, Subject

from sim2cam.adapt.certificate.limits import CertificateLimits
from sim2cam.images import read_rgb
from sim2cam.metrics.detection import Detection
from tests.adapt.certificate.conftest import draw, labels_of


@pytest.fixture(scope="module")
def subject():
    rgb, ids = draw()
    return Subject(rgb, ids, labels_of(ids), ("thing", "other", "third"))


@pytest.mark.parametrize(("name", "change"), [*SABOTEURS.items(), *BENIGN.items()])
def test_changes_keep_size_and_depend_on_chance_alone(subject, name, change):
    first, second = (change(subject, np.random.default_rng(3)) for _ in range(2))
    assert first.shape == subject.rgb.shape
    assert first.dtype == np.uint8
    assert np.array_equal(first, second)
    assert np.array_equal(first, subject.rgb) == (name == "identity")


@pytest.mark.parametrize(("name", "change"), SABOTEURS.items())
def test_saboteurs_are_caught(subject, name, change):
    found = score_change(name, change, [subject] * 4, CertificateLimits(), {})
    assert found["failed"]["value"] == 1.0
    assert found["by"]


def test_a_negative_is_caught_without_an_object(subject):
    found = score_change("inverted", SABOTEURS["inverted"], [subject] * 4, CertificateLimits(), {})
    assert found["by"]["image_correlation"] == 4


def test_the_sheet_shows_each_saboteur_beside_the_render(subject, tmp_path):
    write_sheet(subject, tmp_path / "sheet.jpg")
    height, width = subject.rgb.shape[:2]
    rows, columns = -(-(1 + len(SABOTEURS)) // 3), 3
    sheet = read_rgb(tmp_path / "sheet.jpg")
    assert sheet.shape[1] == columns * width
    top = sheet.shape[0] // rows - height
    assert np.abs(sheet[top : top + height, :width].astype(int) - subject.rgb).mean() < 4
    assert np.abs(sheet[top : top + height, width : 2 * width].astype(int) - subject.rgb).mean() > 4


@pytest.mark.parametrize(("name", "change"), BENIGN.items())
def test_a_camera_passes(subject, name, change):
    found = score_change(name, change, [subject] * 4, CertificateLimits(), {})
    assert found["by"] == {}


def test_what_judges_say_is_told_from_what_is_measured(subject):
    asked = []

    def finds_it_in_the_render_alone(rgb):
        asked.append(rgb)
        sure = [Detection(label.category, label.box_xyxy, 0.9) for label in subject.objects]
        return sure if np.array_equal(rgb, subject.rgb) else []

    verifiers = {"task": cache_detections(finds_it_in_the_render_alone)}
    found = score_change("noise", BENIGN["noise"], [subject] * 4, CertificateLimits(), verifiers)
    assert found["failed"]["value"] == 1.0
    assert found["failed_without_verifiers"]["value"] == 0.0
    assert VERIFIER_MEASURES.issuperset(found["by"])
    assert len(asked) == 1 + 4


def test_pictures_without_a_large_object_are_left_out(tmp_path):
    from sim2cam.data.sample import Dataset

    assert select_subjects(Dataset(tmp_path, (), ()), 5) == []
