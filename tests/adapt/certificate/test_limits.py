import math

import pytest

from sim2cam.adapt.certificate.limits import CertificateLimits


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"object_shift_px": -1.0}, "object_shift_px must be 0 to 255, not -1.0"),
        ({"added_structure_levels": math.nan}, "added_structure_levels must be 0 to 255, not nan"),
        ({"structure_correlation": 1.5}, "structure_correlation must be -1 to 1, not 1.5"),
        ({"rejected_fraction": 2.0}, "rejected_fraction must be 0 to 1, not 2.0"),
    ],
)
def test_impossible_limits_are_refused(values, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        CertificateLimits(**values)
