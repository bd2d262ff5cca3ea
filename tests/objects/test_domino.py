import numpy as np
import pytest

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Pose
from sim2cam.objects.domino import Domino
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.domain_checks import list_label_classes
from sim2cam.scene.material import Texture
from sim2cam.scene.symmetry import HALF_TURN, NO_SYMMETRIES

WHITE = Texture("plain", (0.8, 0.8, 0.8), (0.8, 0.8, 0.8), 0.01, 0.0, 0.0, 0)
FACE_UP, FACE_DOWN = Pose(), Pose((0.0, 1.0, 0.0, 0.0))


def make_domino(*pips):
    return Domino(pips, (0.024, 0.048, 0.008), 0.002, 0.002, 0.006, (0.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("pips", "category", "symmetries"),
    [((5, 2), "2-5", NO_SYMMETRIES), ((3, 3), "3-3", HALF_TURN), ((0, 6), "0-6", NO_SYMMETRIES)],
)
def test_category_and_symmetries(pips, category, symmetries):
    domino = make_domino(*pips)
    assert domino.get_category(FACE_UP) == category
    assert domino.get_category(FACE_DOWN) == "back"
    assert domino.get_symmetries() == symmetries


@pytest.mark.parametrize("pips", [(a, b) for a in range(7) for b in range(0, 7, 2)])
def test_ink_area_of_each_half(pips):
    domino = make_domino(*pips)
    coverage = domino.make_print().coverage
    texel_m2 = np.prod(domino.size_m[:2]) / coverage.size
    middle = len(coverage) // 2
    for half, count in zip((coverage[: middle - 8], coverage[middle + 8 :]), pips, strict=True):
        expected_m2 = count * np.pi * domino.pip_radius_m**2
        assert half.sum() * texel_m2 == pytest.approx(expected_m2, rel=0.03)


def test_ink_is_on_the_front_only_and_turns_with_the_domino():
    colors, _ = make_domino(1, 4).render_maps(WHITE)
    front, back = np.hsplit(colors, 2)
    assert front.min() == 0
    assert back.min() > 200
    turned, _ = make_domino(4, 1).render_maps(WHITE)
    assert np.abs(np.hsplit(turned, 2)[0][::-1, ::-1].astype(int) - front).max() <= 160  # rounding
    assert np.abs(np.hsplit(turned, 2)[0][::-1, ::-1].astype(int) - front).mean() < 2


def test_recipe_derives_its_categories():
    recipe = load_recipe("dominoes")
    pairs = {f"{a}-{b}" for b in range(7) for a in range(b + 1)}
    assert set(recipe.categories) == {*pairs, "back"}
    classes = {one.name: one for one in list_label_classes(recipe.domain)}
    assert classes["double domino"].categories == tuple(f"{n}-{n}" for n in range(7))
    assert classes["double domino"].symmetries == HALF_TURN


def test_bad_pips_are_refused():
    with pytest.raises(SpecError, match="Allowed: 0 to 6"):
        make_domino(3, 7)
