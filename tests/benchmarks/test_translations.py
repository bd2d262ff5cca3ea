"""Results of transfers with few accepted images."""

from pathlib import Path

import pytest
import translations

from sim2cam.adapt.certificate.certificate import DatasetCertificate, ImageCertificate, LimitCheck
from sim2cam.adapt.certificate.limits import CertificateLimits


@pytest.mark.parametrize("kept", [0, 9])
def test_a_transfer_that_spoils_pictures_is_a_row_too(monkeypatch, kept):
    pictures = tuple(
        ImageCertificate(
            f"{i:06d}", {"grid_artefact_levels": LimitCheck(1.0, "pass" if i < kept else "fail")}
        )
        for i in range(20)
    )
    made = DatasetCertificate(CertificateLimits(), {}, pictures)
    monkeypatch.setattr(translations, "apply_transfer", lambda *_, **__: made)
    row = translations.measure(Path("poor"), None, None, Path("out"))
    assert (row["name"], row["decision"], row["kept"]) == ("poor", "failed", kept)
    assert row["rejection_rate"]["value"] == 1 - kept / 20
    assert row["from"] is None
    assert row["why"] == f"{kept} images passed; at least 10 are needed."
