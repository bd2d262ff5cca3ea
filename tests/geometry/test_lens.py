import math

import pytest
from pydantic import TypeAdapter, ValidationError

from sim2cam.errors import LensError
from sim2cam.geometry.lens import (
    BrownConrady,
    KannalaBrandt,
    Lens,
    RadialTable,
    Rational,
    ThinPrism,
)
from tests.support.errors import error_text

ADAPTER: TypeAdapter[Lens] = TypeAdapter(Lens)
MATRIX = (500.0, 501.0, 319.5, 239.5)
LENSES = [
    BrownConrady(*MATRIX, 0.1, -1 / 3, 1e-17),
    Rational(*MATRIX, 0.1, k6=0.2),
    ThinPrism(*MATRIX, s4=-0.3),
    KannalaBrandt(*MATRIX, k4=1e-5),
    RadialTable(319.5, 239.5, (0.0, 0.5, 1.0), (0.0, 200.0, 1e3 / 3)),
]


@pytest.mark.parametrize("lens", LENSES, ids=lambda lens: lens.kind)
def test_json_brings_back_an_equal_lens(lens):
    text = ADAPTER.dump_json(lens)
    back = ADAPTER.validate_json(text)
    assert back == lens
    assert type(back) is type(lens)
    assert f'"kind":"{lens.kind}"' in text.decode()
    assert hash(back) == hash(lens)


def test_a_lens_without_a_kind_is_that_of_data_sets_before_there_were_kinds():
    table = {"fx_px": 500.0, "fy_px": 501.0, "cx_px": 319.5, "cy_px": 239.5, "k1": 0.1}
    assert ADAPTER.validate_python(table) == BrownConrady(*MATRIX, k1=0.1)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"kind": "omni"}, "Input tag 'omni' found using _get_kind() does not match any of the"),
        ({"fx_px": 0.0}, "fx_px of a lens is 0.0. It must be above 0."),
        ({"fy_px": -3.0}, "fy_px of a lens is -3.0. It must be above 0."),
        ({"k1": "much"}, "Input should be a valid number"),
        ({"k6": math.inf}, "k6 of a lens is inf. It must be finite."),
    ],
)
def test_what_is_no_lens_is_refused(change, text):
    table = {"kind": "rational", "fx_px": 5.0, "fy_px": 5.0, "cx_px": 1.0, "cy_px": 2.0} | change
    assert text in error_text(ADAPTER.validate_python, table, error=ValidationError)


def test_numbers_that_no_lens_has_are_refused_in_python_too():
    with pytest.raises(LensError, match=r"^cx_px of a lens is nan. It must be finite.$"):
        BrownConrady(500.0, 500.0, math.nan, 240.0)


def test_depth_is_along_the_axis_where_a_plane_holds_the_picture():
    along = {lens.kind: lens.depth_along for lens in LENSES}
    assert along == {
        "brown_conrady": "axis", "rational": "axis", "thin_prism": "axis",
        "kannala_brandt": "ray", "radial_table": "ray",
    }  # fmt: skip
