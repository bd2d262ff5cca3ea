import math

import pytest

from sim2cam.adapt.certificate.limits import CertificateLimits


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"displacement_px": -1.0}, "displacement_px must be 0 to 255, not -1.0"),
        ({"added_levels": math.nan}, "added_levels must be 0 to 255, not nan"),
        ({"correlation": 1.5}, "correlation must be -1 to 1, not 1.5"),
        ({"rejected": 2.0}, "rejected must be 0 to 1, not 2.0"),
    ],
)
def test_impossible_limits_are_refused(values, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        CertificateLimits(**values)
