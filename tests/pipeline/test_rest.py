"""Rest poses of shipped recipes do not depend on the time step of the simulation."""

from contextlib import contextmanager

import numpy as np
import pytest

from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.sampling import sample_factors
from sim2cam.render.physics import simulation, trajectory, world
from sim2cam.render.physics.simulation import DEFAULT_REST, simulate
from sim2cam.render.physics.trajectory import STEP_S


def rests_of(recipe, count):
    """Return rest positions (n, 3) in metres of each scene's first candidate; None without rest."""
    found = []
    for index in range(count):
        draft = recipe.compose_scene(sample_factors(recipe.domain, 77, index, views=1))
        scene, certificate = simulate(draft, None, recipe.render.rest or DEFAULT_REST)
        places = [body.pose.position_m for body in scene.bodies if not body.is_fixed]
        at_rest = certificate.rejection is None
        found.append(np.array(places).reshape(-1, 3) if at_rest else None)
    return found


@contextmanager
def halved_steps():
    with pytest.MonkeyPatch.context() as patch:
        for module in (trajectory, simulation, world):
            patch.setattr(module, "STEP_S", STEP_S / 2)
        for name in ("_STEPS_PER_CHECK", "_RELEASE_STEPS"):  # the same duration
            patch.setattr(simulation, name, 2 * getattr(simulation, name))
        yield


@contextmanager
def doubled_iterations():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "_SOLVER_ITERATIONS", 2 * world._SOLVER_ITERATIONS)
        yield


def centers_of(places):
    """Return mean height and mean distance from the table centre of all bodies, in metres."""
    x, y, z = np.concatenate(places).T
    return z.mean(), np.hypot(x, y).mean()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dice", "cubes"])
def test_piles_rest_alike_in_finer_simulation(name):
    """Compare averages only, because single trajectories are chaotic."""
    recipe = load_recipe(name)
    shipped = rests_of(recipe, 300)
    for finer in (halved_steps, doubled_iterations):
        with finer():
            other = rests_of(recipe, 300)
        both = [
            (one, two)
            for one, two in zip(shipped, other, strict=True)
            if one is not None and two is not None
        ]
        assert len(both) > 150
        first, second = zip(*both, strict=True)
        assert centers_of(second) == pytest.approx(centers_of(first), rel=0.02)
