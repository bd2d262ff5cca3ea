import re

import pytest

from sim2cam.errors import RecipeError
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.distributions import Choice, Constant, Uniform
from sim2cam.randomize.domain_checks import RecipeNames, check_domain
from sim2cam.randomize.factors import SurfaceFactors
from sim2cam.randomize.material_families import OWN_MATERIAL, expand_families, load_families
from sim2cam.randomize.sampling import sample_factors
from sim2cam.randomize.scene_builder import build_scene
from sim2cam.scene.parameters import list_parameters


@pytest.fixture(scope="module")
def domain():
    return load_recipe("dice").domain


def with_table(domain, **factors):
    given = {k: v if hasattr(v, "sample") else Constant(v) for k, v in factors.items()}
    return expand_families(
        domain.replace_factors({f"table/{name}": value for name, value in given.items()})
    )


@pytest.mark.parametrize("name", load_families())
def test_every_family_draws_what_its_factors_may_be(domain, name):
    assert load_families()[name].keys() <= list_parameters(SurfaceFactors).keys()
    check_domain(with_table(domain, material=name), RecipeNames(categories=tuple("123456")))


def test_a_domain_without_materials_stays_as_it_is(domain):
    assert expand_families(domain) == domain


@pytest.mark.parametrize("index", range(3))
def test_own_is_drawn_as_without_families(domain, index):
    mixed = with_table(domain, material=Choice((OWN_MATERIAL, "paper", "brushed_metal")))
    plain, other = (sample_factors(d, 0, index, views=1).values for d in (domain, mixed))
    found = {path for path, value in plain.items() if other[path] != value}
    if other["table/material"] == OWN_MATERIAL:
        assert not found
    else:
        assert found
        assert all(path.startswith("table/") for path in found)


def test_a_surface_follows_its_own_material_thing_by_thing(domain):
    domain = expand_families(
        domain.replace_factors(
            {
                "distractor_surface/material": Choice(("rubber", "polished_metal")),
                "layout/distractor_count": Constant(12),
            }
        )
    )
    drawn = sample_factors(domain, 0, 0, views=1)
    bodies = [
        body
        for body in build_scene(drawn, domain, 64, 64).bodies
        if body.name.startswith("distractor")
    ]
    metals = set()
    for number, body in enumerate(bodies):
        is_metal = drawn.get_str(f"distractor_surface/{number}/material") == "polished_metal"
        assert body.material.metallic == is_metal
        assert (body.material.roughness <= 0.22) == is_metal
        metals.add(is_metal)
    assert metals == {True, False}


def test_wear_comes_with_any_material(domain):
    worn = with_table(domain, material="wood", dust=0.3, scratches=Uniform(0.1, 0.2))
    drawn = sample_factors(worn, 0, 0, views=1)
    table = build_scene(drawn, domain, 64, 64).bodies[0].material
    assert table.wear.dust == 0.3
    assert 0.1 <= table.wear.scratches <= 0.2
    assert table.wear.seed == drawn.get_int("table/seed")
    assert table.wear.stains == 0


def test_what_glows_is_drawn(domain):
    drawn = sample_factors(with_table(domain, emission=2.5), 0, 0, views=1)
    assert build_scene(drawn, domain, 64, 64).bodies[0].material.emission == 2.5


BAD = [
    ("[domain.table]\nmaterial = 'glass'", "'domain.table.material' cannot be 'glass'. Surfaces cannot be transparent. Allowed: brushed_metal, cloth, own, "),
    ("[domain.mat]\nmaterial = 'translucent'", "'domain.mat.material' cannot be 'translucent'. Surfaces cannot be transparent. "),
    ("[domain.table]\nmaterial = 'wodo'", "'domain.table.material' cannot be 'wodo'. Did you mean 'wood'? Allowed: "),
    ("[domain.table]\ndust = 2", "'domain.table.dust' cannot be 2. Allowed: numbers from 0 to 1."),
    ("[domain.mat]\nedges = 0.1", "'domain.mat.edges': the surface has no separate sides with edges. Remove it."),
    ("[domain.table]\npicture = 'oak.jpg'", "'domain.table.picture' cannot be 'oak.jpg'. Allowed: none."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message for _, message in BAD])
def test_what_cannot_be_is_refused(tmp_path, text, message):
    path = tmp_path / "r.toml"
    path.write_text(f"base = 'dice'\n{text}\n")
    with pytest.raises(RecipeError, match=re.escape(message)):
        load_recipe(str(path))
