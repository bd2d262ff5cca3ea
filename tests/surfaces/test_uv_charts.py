"""Where the texels of a mesh's picture lie: against planes, and against cubes unfolded by hand."""

import re
from dataclasses import replace

import numpy as np
import pytest
import trimesh

from sim2cam.assets.finish import check_unshared_texels, compute_file_maps
from sim2cam.errors import InputError, RecipeError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from sim2cam.objects.card import Card
from sim2cam.objects.carton import Carton
from sim2cam.objects.sheet import Sheet
from sim2cam.objects.tin import Tin
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.render.meshes.texture_set import build_texture_set
from sim2cam.render.renderer import Stage
from sim2cam.scene.light import Environment, Lamp
from sim2cam.scene.material import Material, Texture, Wear
from sim2cam.scene.package_label import PackageLabel
from sim2cam.scene.shape import MeshFile
from sim2cam.surfaces.textures import make_level_sampler
from sim2cam.surfaces.uv_charts import PlanarTexels, map_mesh_texels

SIDE_M = 0.1
FBM = Texture("fbm", (0.5, 0.5, 0.5), (0.4, 0.4, 0.4), 0.02, 0.5, 0.0, 3)
LABEL = PackageLabel("beans", 3, (0.6, 0.1, 0.1), (0.9, 0.9, 0.9), (0.1, 0.1, 0.6))


def cube(make, *, shared=0, turned=False):
    """A cube with a tile for each side, the first few of which lie on one; turned and mirrored anyhow."""
    box = build_mesh(make.box((SIDE_M,) * 3))
    uvs, tangents = np.zeros_like(box.uvs), box.tangents.copy()
    for part in range(6):
        on_it = box.parts == part + 1
        within = box.uvs[on_it] / SIDE_M + 0.5
        if turned and part % 2:
            within = np.column_stack([within[:, 1], 1 - within[:, 0]])  # u grows as v did
            tangents[on_it] = np.cross(box.normals[on_it], box.tangents[on_it])
        if turned and part > 3:
            within[:, 1] = 1 - within[:, 1]
        tile = 0 if part < shared else part
        uvs[on_it] = (0.05 + 0.9 * within + [tile % 3, tile // 3]) / [3, 2]
    return replace(box, uvs=uvs, tangents=tangents)


@pytest.mark.parametrize("turned", [False, True])
def test_texels_lie_where_the_mesh_has_them_and_slopes_are_along_its_tangents(make, turned):
    """A height that grows along a vector has its parts along tangent and bitangent as slopes."""
    mesh, shape = cube(make, turned=turned), (200, 300)
    charts = map_mesh_texels(mesh, shape)
    assert charts.overlap_fraction == 0
    assert charts.area_m2 == pytest.approx(6 * SIDE_M**2)
    grows = np.array([0.3, -0.5, 0.7])
    slopes = charts.compute_slopes(charts.positions_m @ grows)
    for part in range(6):
        on_it = mesh.parts == part + 1
        u, v = (mesh.uvs[on_it].mean(axis=0) * shape[::-1]).astype(int)
        middle = mesh.vertices_m[on_it].mean(axis=0)
        assert charts.positions_m[v, u] == pytest.approx(middle, abs=2e-3)
        normal, tangent = (getattr(mesh, name)[on_it][0] for name in ("normals", "tangents"))
        expected = [grows @ tangent, grows @ np.cross(normal, tangent)]
        assert slopes[v - 20 : v + 20, u - 20 : u + 20] == pytest.approx(
            np.broadcast_to(expected, (40, 40, 2)), abs=1e-3
        )


def test_no_slope_reaches_from_chart_to_chart(make):
    charts = map_mesh_texels(cube(make), (200, 300))
    slopes = charts.compute_slopes(charts.positions_m @ [0.3, -0.5, 0.7])
    assert np.abs(slopes).max() < 0.3 + 0.5 + 0.7


@pytest.mark.parametrize(("sides", "share"), [(2, 1 / 5), (6, 1.0)])
def test_shared_texels_are_counted(make, sides, share):
    assert map_mesh_texels(cube(make, shared=sides), (200, 300)).overlap_fraction == pytest.approx(
        share, abs=0.03
    )


def test_a_fine_mesh_with_a_seam_shares_nothing(make):
    """Faces smaller than a few texels, which touch one another."""
    mesh = build_mesh(make.sphere(0.05))
    around = mesh.uvs / mesh.uvs.max(axis=0)
    assert map_mesh_texels(replace(mesh, uvs=around), (48, 64)).overlap_fraction == 0


@pytest.fixture
def crate(make, tmp_path):
    def written(shared=0):
        mesh = cube(make, shared=shared)
        lines = [f"v {x} {y} {z}" for x, y, z in mesh.vertices_m]
        lines += [f"vt {u} {v}" for u, v in mesh.uvs]
        lines += ["mtllib crate.mtl", "usemtl skin"]
        lines += ["f " + " ".join(f"{n + 1}/{n + 1}" for n in face) for face in mesh.faces]
        folder = tmp_path / f"crate-{shared}"
        folder.mkdir()
        (folder / "crate.obj").write_text("\n".join(lines) + "\n")
        (folder / "crate.mtl").write_text("newmtl skin\nmap_Kd crate.png\n")
        write_bytes(folder / "crate.png", encode_png(np.full((128, 192, 3), 90, np.uint8)))
        return MeshFile(str(folder / "crate.obj"), "crate")

    return written


def test_relief_and_wear_lie_on_an_image_from_a_file(make, crate):
    body = make.body("crate", crate(), (0.0, 0.0, 0.1), make.WHITE)
    plain = build_texture_set(body)
    assert plain.roughness_metallic is None
    look = Material(FBM, 0.4, relief=0.1, wear=Wear(dust=0.8, scratches=0.5, fingerprints=0.8))
    worn = build_texture_set(replace(body, material=look))
    assert worn.colors.shape == (256, 384, 3)  # small pictures grow, for wear to have its texels
    assert (worn.colors != plain.colors[0, 0]).any(axis=-1).mean() > 0.5
    assert worn.roughness_metallic[..., 0].std() > 5
    assert worn.normals[..., :2].std() > 3


def test_wear_runs_on_from_side_to_side(crate):
    """At an edge of the cube, texels of both sides are worn alike, wherever they are in the picture."""
    asset = crate()
    found = compute_file_maps(asset, Material(FBM, 0.4, wear=Wear(dust=0.9)))
    from sim2cam.assets.mesh import read_mesh_file

    places = map_mesh_texels(read_mesh_file(asset).mesh, found.roughness.shape).positions_m
    half = SIDE_M / 2
    right, top = (np.abs(places[..., axis] - half) < 1e-4 for axis in (0, 2))
    ends = []
    for on_it, other in ((right, 2), (top, 0)):
        near = on_it & (np.abs(places[..., other] - half) < 0.003)
        order = np.argsort(places[near][:, 1])
        ends.append((places[near][order, 1], found.colors[near][order, 0]))
    line = np.linspace(-0.8 * half, 0.8 * half, 50)
    values = [np.interp(line, y, color) for y, color in ends]
    assert np.corrcoef(*values)[0, 1] > 0.8


def test_what_shares_texels_is_refused_with_its_reason(make, crate):
    asset = crate(shared=6)
    body = make.body("crate", asset, (0.0, 0.0, 0.1), make.WHITE)
    assert build_texture_set(body).roughness_metallic is None  # as long as it is new and smooth
    message = (
        "crate.obj: parts of the mesh share 100% of the texels of its texture, so relief and wear would "
        "repeat. Unwrap it without overlaps, or remove material, relief and wear."
    )
    for refused in (
        lambda: check_unshared_texels(asset),
        lambda: build_texture_set(replace(body, material=Material(FBM, 0.4, wear=Wear(dust=0.5)))),
    ):
        with pytest.raises(InputError, match=re.escape(message).replace("100%", r"\d+%")):
            refused()
    check_unshared_texels(crate())


def test_recipes_refuse_it_when_they_are_loaded(crate, tmp_path):
    crate(shared=6)
    path = tmp_path / "mine.toml"
    text = 'base = "objects"\nname = "mine"\n[assets]\nfolder = "crate-6"\n'
    path.write_text(text)
    load_recipe(str(path))
    path.write_text(text + "[domain.object_surface]\ndust = 0.5\n")
    with pytest.raises(InputError, match="of the texels of its texture, so relief and wear"):
        load_recipe(str(path))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("[domain.twisty_surface]\nrelief = 0.1", "'domain.twisty_surface.relief': facelets share texels, so the finish would repeat. Remove it."),
        ("[domain.twisty_surface]\nmaterial = 'wood'", "'domain.twisty_surface.material': facelets share texels, so the finish would repeat. Remove it."),
        ("[domain.table]\nedges = 0.1", "'domain.table.edges': the surface has no separate sides with edges. Remove it."),
    ],
)  # fmt: skip
def test_surfaces_that_cannot_show_it_are_refused(tmp_path, lines, message):
    path = tmp_path / "r.toml"
    path.write_text(f"base = 'twisty'\n{lines}\n")
    with pytest.raises(RecipeError, match=re.escape(message)):
        load_recipe(str(path))


ATLASED = {
    "card": Card("10H", (0.06, 0.06, 0.001), 0.003, (0.1, 0.1, 0.5)),
    "sheet": Sheet((0.06, 0.06, 0.0005), replace(LABEL, text="")),
    "carton": Carton((0.06, 0.06, 0.03), replace(LABEL, text=""), "beans"),
}


@pytest.mark.parametrize("way", [0, 1])
@pytest.mark.parametrize("kind", ATLASED)
def test_relief_is_bright_where_it_faces_the_lamp(egl, make, kind, way):
    """Heights are looked up on the body as it lies; which way rows and tangents run decides nothing."""
    look = Material(replace(FBM, contrast=0.0), 1.0, 0.0, relief=0.4)
    body = replace(make.body(kind, ATLASED[kind], (0.0, 0.0, 0.0)), material=look)
    lamp = Lamp((0.9 * (way == 0), 0.9 * (way == 1), 0.44), 0.005, (3.0, 3.0, 3.0))
    light = Environment((0.0,) * 3, (0.0,) * 3, (lamp,))
    lens = {"width": 101, "height": 101, "focal_px": 1600.0, "cx_px": 50.0, "cy_px": 50.0}
    view = make.view(make.camera((0.0, -1e-6, 2.0), **lens))
    pictures = []
    for material in (look, replace(look, relief=None)):
        drawn = (make.ground(), replace(body, material=material))
        stage = Stage(replace(make.scene(), bodies=drawn, environment=light), egl)
        pictures.append(stage.render(view, ("radiance",))["radiance"].mean(axis=-1))
    raised, flat = (picture[12:-12, 12:-12] for picture in pictures)
    rays, eye = make.rays(view)
    top = build_mesh(body.asset).vertices_m[:, 2].max()
    x, y = np.moveaxis((eye + rays * ((top - eye[2]) / rays[..., 2:]))[12:-12, 12:-12, :2], -1, 0)
    height = make_level_sampler(look.texture)(
        (x + 0.03, 0.03 - y, np.zeros(1))
    )  # from the upper left corner
    rows_up = -np.gradient(height, axis=0), np.gradient(height, axis=1)
    faces_lamp = -rows_up[1 - way]
    ratio = raised / np.maximum(flat, 1e-6)
    assert np.corrcoef(faces_lamp.ravel(), ratio.ravel())[0, 1] > 0.4


def test_a_tin_is_raised_where_it_is_bare(make):
    tin = make.body("tin", Tin(0.037, 0.11, LABEL, "beans"), (0.0, 0.0, 0.1))
    look = Material(replace(FBM, family="brushed"), 0.3, metallic=1.0, relief=0.01)
    normals = build_texture_set(replace(tin, material=look)).normals.astype(int)
    assert np.ptp(normals[384:, :128, :2]) > 10
    assert np.ptp(normals[:384]) < 255  # smooth, but for how bytes round
    assert np.ptp(normals[:384, :, :2]) <= 1


def test_planes_are_as_they_were():
    plane = PlanarTexels((3, 4), (0.1, 0.2))
    assert plane.area_m2 == pytest.approx(0.24)
    at, right, up = plane.find_nearby(np.array([0.5, 0.5]), 0.11)
    assert np.indices(plane.shape)[1][at].shape == (1, 2)
    assert right == pytest.approx([-0.05, 0.05])
    assert up == pytest.approx(np.array([[0.0]]))


def test_faces_that_lie_on_one_texel_count_as_shared(make):
    """As on meshes whose picture is a palette."""
    mesh = cube(make)
    uvs = np.where((mesh.parts < 4)[:, None], 0.5, mesh.uvs)
    assert map_mesh_texels(replace(mesh, uvs=uvs), (64, 96)).overlap_fraction == pytest.approx(0.5)
    assert (
        map_mesh_texels(replace(mesh, uvs=np.full_like(mesh.uvs, 0.5)), (1, 1)).overlap_fraction
        == 1.0
    )


def test_colors_of_vertices_wear_too(make, tmp_path):
    block = trimesh.creation.box((0.05, 0.04, 0.03))
    block.visual.vertex_colors = np.tile([200, 30, 30, 255], (8, 1))
    block.export(tmp_path / "block.ply")
    asset = MeshFile(str(tmp_path / "block.ply"), "block")
    check_unshared_texels(asset)
    body = make.body("block", asset, (0.0, 0.0, 0.1))
    worn = build_texture_set(replace(body, material=Material(FBM, 0.4, wear=Wear(dust=0.9))))
    assert max(worn.colors.shape) == 256
    assert worn.roughness_metallic[..., 0].std() > 5
