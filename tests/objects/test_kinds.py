"""What holds for every solid: closed meshes within their bounds, colliders that fit, labels that agree."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from solids import EXAMPLES, compute_volume, is_inside_collider, list_edges

from sim2cam.geometry.boxes import compute_box_corners
from sim2cam.objects.kind import ObjectKind, list_kinds
from sim2cam.objects.primitives import Ground
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.domain_checks import list_label_classes
from sim2cam.randomize.sampling import sample_factors
from sim2cam.randomize.scene_builder import build_scene
from sim2cam.scene.scene import Scene
from sim2cam.surfaces.mesh import Mesh
from sim2cam.surfaces.threads import THREAD_DEPTH

RECIPES = {
    "die": "dice", "block": "cubes", "board": "chessboard", "card": "cards", "domino": "dominoes",
    "twisty": "twisty", "tin": "groceries", "carton": "groceries", "bolt": "fasteners", "nut": "fasteners",
    "ball": "robocup", "robot": "robocup",
}  # fmt: skip
KINDS = list(list_kinds())
VOLUME_TOLERANCES = {"die": 0.25, "twisty": 0.07, "block": 0.15, "tin": 0.17}
"""How much rounding and sunk ends may take; 4 % otherwise."""


@functools.cache
def sample_scene(kind):
    """A scene of a shipped recipe with an object of a kind, and the recipe's domain."""
    domain = load_recipe(RECIPES[kind]).domain
    for index in range(20):
        scene = build_scene(sample_factors(domain, 1, index, views=1), domain, 64, 64)
        if any(body.asset.kind == kind for body in scene.bodies):
            return scene, domain
    raise AssertionError(f"recipe {RECIPES[kind]} shows no {kind}")


def list_objects(kind):
    return [body for body in sample_scene(kind)[0].bodies if body.asset.kind == kind]


@pytest.fixture(params=[*EXAMPLES, *(f"sampled {kind}" for kind in KINDS)])
def solid(request):
    """An example, or the first object that a recipe samples of a kind."""
    name = request.param
    return EXAMPLES[name] if name in EXAMPLES else list_objects(name.split()[1])[0].asset


@functools.cache
def mesh_of(solid) -> Mesh:
    return solid.build_mesh()


def has_turned_layer(solid):
    return solid.kind == "twisty" and solid.turned_rad != 0


def test_meshes_are_closed_and_face_outwards(solid):
    mesh = mesh_of(solid)
    edges = list_edges(mesh)
    codes, opposite = (edges @ scale for scale in ([1 << 32, 1], [1, 1 << 32]))
    assert np.array_equal(np.sort(codes), np.sort(opposite))
    assert compute_volume(mesh) > 0


def test_volumes_are_those_of_meshes(solid):
    if isinstance(solid, ObjectKind):
        tolerance = VOLUME_TOLERANCES.get(solid.kind, 0.04)
        assert compute_volume(mesh_of(solid)) == pytest.approx(solid.volume_m3, rel=tolerance)


def check_vectors(mesh):
    """Check that vertices have unit normals and tangents, on the side of their triangles."""
    n = len(mesh.vertices_m)
    assert mesh.faces.min() == 0
    assert mesh.faces.max() < n
    assert mesh.uvs.shape == (n, 2)
    for vectors in (mesh.normals, mesh.tangents):
        assert vectors.shape == (n, 3)
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    corners = mesh.vertices_m[mesh.faces]
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    along = np.einsum("ij,ikj->ik", across, mesh.normals[mesh.faces])
    assert (along[np.linalg.norm(across, axis=1) > 1e-12] > 0).all()


def test_normals_and_tangents_are_unit_vectors_on_the_side_of_their_triangles(solid):
    check_vectors(mesh_of(solid))


def test_the_ground_is_a_square(make):
    mesh = mesh_of(Ground(2.0))
    check_vectors(mesh)
    assert np.ptp(mesh.vertices_m, axis=0).tolist() == [2.0, 2.0, 0.0]
    assert Ground(2.0).get_keypoints() == {}


def test_meshes_fill_their_bounds(solid):
    points, (low, high) = mesh_of(solid).vertices_m, np.array(solid.bounds_m)
    assert (points >= low - 1e-9).all()
    assert (points <= high + 1e-9).all()
    distances = np.linalg.norm(points - solid.center_m, axis=1)
    assert distances.max() <= solid.bounding_radius_m + 1e-9
    slack = 1e-9
    if has_turned_layer(solid):
        slack = 0.2 * solid.cubelet_m  # its corners are round
    elif solid.kind == "tubes":
        slack = 1e-5  # a polygon of 16 sides
    assert np.allclose(np.ptp(points, axis=0), high - low, atol=slack)
    assert np.allclose(high - low, solid.size_m)


def test_colliders_stay_within_the_bounds_and_hold_the_mesh(solid):
    low, high = np.array(solid.bounds_m)
    for part in solid.build_collider():
        half = np.array(part.size_m) / 2
        half[2] += half[0] * (part.geometry == "capsule")
        corners = part.pose.apply(compute_box_corners(-half, half))
        if part.geometry == "box":
            assert (corners >= low - 1e-9).all()
            assert (corners <= high + 1e-9).all()
        assert (np.abs(part.pose.position_m - np.array(solid.center_m)) <= high - low).all()
    mesh = mesh_of(solid)
    points = mesh.vertices_m
    if solid.kind == "nut":  # its collider has a hexagonal hole
        points = points[np.hypot(points[:, 0], points[:, 1]) >= solid.diameter_m / np.sqrt(3)]
    assert is_inside_collider(points, solid).all()


def test_keypoints_lie_on_or_within_the_bounds(solid):
    points = solid.get_keypoints()
    low, high = np.array(solid.bounds_m)
    for point in points.values():
        assert (np.array(point) >= low - 1e-9).all()
        assert (np.array(point) <= high + 1e-9).all()
    assert len(set(points.values())) == len(points)
    assert solid.get_keypoint_normals().keys() == points.keys()


@pytest.mark.parametrize(
    "name", ["die", "mirrored die", "block", "carton", "box", "tin", "cylinder", "card"]
)
def test_keypoints_are_the_centres_of_the_sides_they_name(name):
    mesh, points = mesh_of(EXAMPLES[name]), EXAMPLES[name].get_keypoints()
    for index, (side, point) in enumerate(points.items(), 1):
        part = {"front": 1, "back": 2}.get(side, int(side) if "die" in name else index)
        vertices = mesh.vertices_m[mesh.parts == part]
        middle = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
        assert np.allclose(middle[np.array(point) == 0], 0)
        direction = np.array(point) / np.linalg.norm(point)
        for reach in (vertices @ direction, mesh.vertices_m @ direction):
            assert reach.max() == pytest.approx(np.linalg.norm(point))


def compute_supports(points, directions):
    """Distance (n,) to which points reach in each direction: equal for equal convex hulls."""
    return (points @ directions.T).max(axis=0)


def test_symmetries_leave_the_hull_and_no_other_rotation_does(solid):
    symmetries = [solid.get_symmetries()]
    if isinstance(solid, ObjectKind) and not has_turned_layer(solid):
        symmetries.append(solid.shape_symmetries)
    points, rng = mesh_of(solid).vertices_m, np.random.default_rng(0)
    directions = rng.normal(size=(300, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    before, slack = compute_supports(points, directions), 0.01 * solid.bounding_radius_m
    if solid.kind == "bolt":
        slack = THREAD_DEPTH * solid.pitch_m  # the thread ends somewhere at the tip
    for group in symmetries:
        rotations = [Rotation.from_quat(q, scalar_first=True) for q in group.rotations_wxyz]
        rotations += [Rotation.from_rotvec(np.multiply(a, t)) for a in group.axes for t in (0.3, 2)]
        for rotation in rotations:
            after = compute_supports(rotation.apply(points), directions)
            assert np.abs(after - before).max() < slack
    other = Rotation.from_euler("xyz", (0.4, 0.5, 0.3))
    change = np.abs(compute_supports(other.apply(points), directions) - before).max()
    assert bool(change > slack) is (solid.kind not in ("sphere", "ball"))


@pytest.mark.parametrize("kind", KINDS)
def test_objects_are_in_a_label_class_with_their_symmetries(kind):
    classes = list_label_classes(sample_scene(kind)[1])
    for body in list_objects(kind):
        own = [entry for entry in classes if body.get_category() in entry.categories]
        assert own
        if body.asset.get_hidden_category(body.pose) is None:
            assert body.asset.get_symmetries() in [entry.symmetries for entry in own]


@pytest.mark.parametrize("kind", KINDS)
def test_scenes_of_recipes_return_from_json(kind):
    scene, _ = sample_scene(kind)
    assert Scene.from_json(scene.to_json()) == scene


def test_a_category_of_a_body_replaces_that_of_its_shape(make):
    body = make.body("block", EXAMPLES["block"], (0.0, 0.0, 0.1))
    assert (body.get_category(), replace(body, category="x").get_category()) == ("red", "x")
