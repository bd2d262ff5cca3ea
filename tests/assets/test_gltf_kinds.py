"""Every kind of data that glTF has: accessors, primitives, materials, images, extensions."""

import re

import numpy as np
import pytest
from gltf_files import COMPONENTS, CORNERS, FACES, PLACES, Maker, data_uri, image_file
from PIL import Image

from sim2cam.assets.mesh_files.reader import read_solids
from sim2cam.errors import InputError
from sim2cam.surfaces.textures import encode_srgb

BASE = {"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}
UPRIGHT = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]])


def same(solid, corners=CORNERS, faces=FACES):
    expected = (corners @ UPRIGHT.T)[faces]
    return np.allclose(solid.vertices[solid.faces], expected, atol=2e-4)


@pytest.mark.parametrize("glb", [False, True])
@pytest.mark.parametrize("stride", [0, 12, 16, 40])
def test_rows_may_lie_apart(tmp_path, glb, stride):
    maker = Maker()
    maker.primitive(position=maker.accessor(CORNERS, stride=stride))
    (solid,), said = maker.read(tmp_path, glb=glb)
    assert same(solid)
    assert said == []


@pytest.mark.parametrize("kind", ["u1", "u2", "u4"])
def test_indices_of_every_kind(tmp_path, kind):
    maker = Maker()
    maker.primitive(FACES.astype(f"<{kind}"))
    assert same(maker.read(tmp_path)[0][0])


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2"])
def test_quantized_positions_are_normalized_and_placed_by_their_node(tmp_path, kind):
    maker = Maker(
        extensionsRequired=["KHR_mesh_quantization"], nodes=[{"mesh": 0, "scale": [1, 1, 1]}]
    )
    whole = (CORNERS * np.iinfo(kind).max).astype(f"<{kind}")
    maker.primitive(position=maker.accessor(whole, normalized=True, stride=8))
    assert same(maker.read(tmp_path)[0][0])
    maker.json["accessors"][0]["normalized"] = False
    maker.json["nodes"][0]["scale"] = [1 / np.iinfo(kind).max] * 3
    assert same(maker.read(tmp_path)[0][0])


@pytest.mark.parametrize("kind", ["f4", "u1", "u2", "i1", "i2"])
def test_texture_coordinates_may_be_normalized(tmp_path, kind):
    maker = Maker()
    told = PLACES if kind == "f4" else (PLACES * np.iinfo(kind).max).astype(f"<{kind}")
    more = {} if kind == "f4" else {"normalized": True, "stride": 4}
    maker.primitive(attributes={"TEXCOORD_0": maker.accessor(told, **more)})
    maker.material(BASE, image_file("red"))
    (solid,), _ = maker.read(tmp_path)
    assert np.allclose(solid.uvs, np.stack([PLACES[:, 0], 1 - PLACES[:, 1]], axis=1))


@pytest.mark.parametrize("number", [0, 1, 3])
@pytest.mark.parametrize("by_transform", [False, True])
def test_uses_given_texture_coordinate_set(tmp_path, number, by_transform):
    maker = Maker()
    sets = {f"TEXCOORD_{n}": maker.accessor(PLACES * np.float32(n / 4)) for n in range(4)}
    maker.primitive(attributes=sets)
    told = {"index": 0, "texCoord": 0 if by_transform else number}
    if by_transform:
        told["extensions"] = {"KHR_texture_transform": {"texCoord": number}}
    maker.material({"pbrMetallicRoughness": {"baseColorTexture": told}}, image_file("red"))
    (solid,), _ = maker.read(tmp_path)
    assert solid.uvs[:, 0].max() == number / 4


def test_missing_texture_coordinate_set_is_reported(tmp_path):
    told = {"pbrMetallicRoughness": {"baseColorTexture": {"index": 0, "texCoord": 2}}}
    (solid,), said = (
        Maker().material(told, {"uri": data_uri(image_file("red")), "name": "wood"}).read(tmp_path)
    )
    assert solid.image is None
    assert said == ["image 'wood' is ignored where faces have no TEXCOORD_2."]


@pytest.mark.parametrize(
    ("moves", "places"),
    [
        ({"offset": [0.25, 0.5]}, [[0.25, 0.5], [1.25, 0.5], [0.25, 1.5], [1.25, 1.5]]),
        ({"scale": [2, 0.5]}, [[0, 0], [2, 0], [0, 0.5], [2, 0.5]]),
        ({"rotation": np.pi / 2}, [[0, 0], [0, -1], [1, 0], [1, -1]]),
        ({"rotation": np.pi / 2, "scale": [2, 1], "offset": [0, 2]}, [[0, 2], [0, 0], [1, 2], [1, 0]]),
    ],
)  # fmt: skip
def test_texture_transforms_move_the_coordinates(tmp_path, moves, places):
    texture = {"index": 0, "extensions": {"KHR_texture_transform": moves}}
    maker = Maker(extensionsRequired=["KHR_texture_transform"])
    maker.material({"pbrMetallicRoughness": {"baseColorTexture": texture}}, image_file("red"))
    (solid,), said = maker.read(tmp_path)
    assert np.allclose(np.stack([solid.uvs[:, 0], 1 - solid.uvs[:, 1]], axis=1), places)
    assert said == []


@pytest.mark.parametrize("has_base", [True, False])
@pytest.mark.parametrize("kind", ["u1", "u2", "u4"])
def test_sparse_accessors_are_filled(tmp_path, has_base, kind):
    maker = Maker()
    index = maker.accessor(CORNERS * (0 if has_base else 1))
    told = maker.json["accessors"][index]
    rows = np.array([1, 2, 3], f"<{kind}")
    told["sparse"] = {
        "count": 3,
        "indices": {"bufferView": maker.view(rows.tobytes()), "componentType": COMPONENTS[kind]},
        "values": {"bufferView": maker.view(CORNERS[1:].tobytes())},
    }
    if not has_base:
        del told["bufferView"]
    maker.primitive(position=index)
    assert same(maker.read(tmp_path)[0][0])


@pytest.mark.parametrize(
    ("mode", "order", "faces"),
    [
        (4, None, [[0, 1, 2]]),
        (5, [0, 1, 2, 3], [[0, 1, 2], [2, 1, 3]]),
        (6, [0, 1, 2, 3], [[0, 1, 2], [0, 2, 3]]),
        (4, [0, 1, 2, 3, 1], [[0, 1, 2]]),
    ],
)
def test_strips_fans_and_triangles_without_indices(tmp_path, mode, order, faces):
    maker = Maker()
    maker.primitive(None if order is None else np.array(order, "<u2"), mode=mode)
    for other in (0, 1, 3):  # points and lines
        maker.primitive(np.array([0, 1], "<u2"), mode=other)
    (solid,), _ = maker.read(tmp_path)
    assert same(solid, faces=np.array(faces))


def test_nodes_place_turn_and_mirror(tmp_path):
    matrix = np.diag([2.0, 1, 1, 1])
    matrix[:3, 3] = (0, 5, 0)
    maker = Maker(nodes=[
        {"children": [1, 2], "translation": [1, 0, 0]}, {"mesh": 0, "matrix": matrix.T.ravel().tolist()},
        {"mesh": 0, "scale": [-1, 1, 1], "rotation": [0, np.sqrt(0.5), 0, np.sqrt(0.5)]},
    ])  # fmt: skip
    maker.primitive()
    (first, second), _ = maker.read(tmp_path)
    assert same(first, CORNERS * (2, 1, 1) + (1, 5, 0))
    mirrored = CORNERS * (-1, 1, 1)
    turned = mirrored[:, [2, 1, 0]] * (1, 1, -1) + np.array([1, 0, 0])
    assert same(second, turned, FACES[:, ::-1])


@pytest.mark.parametrize("factor", [[1, 1, 1, 1], [0.5, 1.0, 0.25, 1]])
def test_colors_of_specular_glossiness_are_diffuse(tmp_path, factor):
    glossy = {"diffuseTexture": {"index": 1}, "diffuseFactor": factor}
    maker = Maker(extensionsUsed=["KHR_materials_pbrSpecularGlossiness"])
    maker.material(
        {"extensions": {"KHR_materials_pbrSpecularGlossiness": glossy}, "pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}},
        image_file("blue"), image_file((200, 100, 50)),
    )  # fmt: skip
    (solid,), said = maker.read(tmp_path)
    linear = ((np.array([200, 100, 50]) / 255 + 0.055) / 1.055) ** 2.4
    expected = encode_srgb(linear * factor[:3])
    assert np.abs(np.array(solid.image.convert("RGB"))[0, 0] - expected.astype(int)).max() <= 1
    assert said == ["images 'images[0]' are ignored: only colour images are supported."]


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "1", "I;16"])
def test_images_of_every_mode_keep_their_colour(tmp_path, mode):
    grey = {"LA": (100, 255), "RGBA": (100, 100, 100, 255), "1": 1, "I;16": 25700}
    (solid,), _ = Maker().material(BASE, image_file(grey.get(mode, 100), mode)).read(tmp_path)
    from sim2cam.images import shrink_image

    expected = {"1": 255, "P": Image.new("P", (1, 1), 100).convert("RGB").getpixel((0, 0))[0]}
    assert shrink_image(solid.image, 4, tmp_path)[0, 0, 0] == expected.get(mode, 100)


LEFT_OUT = {
    "has transparent materials. They are rendered opaque.": ({"alphaMode": "BLEND"}, [], {}),
    "image 'wood' has an unsupported format and is ignored.": (
        BASE, [{"uri": data_uri(b"\xabKTX 20\xbb" * 9), "name": "wood"}], {}),
    "file 'no file.png' is missing. It is ignored.": (
        BASE, [{"uri": "no%20file.png"}], {}),
    "an image is ignored: KHR_texture_basisu is not supported.": (
        BASE, [], {"textures": [{"extensions": {"KHR_texture_basisu": {"source": 0}}}]}),
    "images 'bump', 'images[2]' are ignored: only colour images are supported.": (
        BASE | {"normalTexture": {"index": 1}, "emissiveTexture": {"index": 2}},
        [image_file("red"), {"uri": data_uri(image_file("red")), "name": "bump"}, image_file("red")], {}),
    "image 'images[0]' is repeated although its sampler clamps.": (
        {"pbrMetallicRoughness": {"baseColorTexture": {"index": 0, "extensions": {"KHR_texture_transform": {"scale": [2, 2]}}}}},
        [image_file("red")], {"textures": [{"source": 0, "sampler": 0}], "samplers": [{"wrapS": 33071}]}),
}  # fmt: skip


@pytest.mark.parametrize("message", LEFT_OUT)
def test_ignored_image_is_reported(tmp_path, message):
    material, pictures, more = LEFT_OUT[message]
    maker = Maker()
    maker.json |= more
    _, said = maker.material(material, *pictures).read(tmp_path)
    assert said == [message]


def test_webp_takes_precedence_over_fallback(tmp_path):
    maker = Maker(textures=[{"source": 0, "extensions": {"EXT_texture_webp": {"source": 1}}}])
    maker.material(BASE, image_file("red"), image_file("blue", kind="webp"))
    (solid,), _ = maker.read(tmp_path)
    assert np.array(solid.image.convert("RGB"))[0, 0, 2] > 200


def test_reads_embedded_and_external_images(tmp_path):
    maker = Maker()
    maker.primitive(attributes={"TEXCOORD_0": maker.accessor(PLACES)})
    inside = {"bufferView": maker.view(image_file((1, 2, 3))), "mimeType": "image/png"}
    maker.material(BASE, inside)
    for glb in (False, True):
        assert maker.read(tmp_path, glb=glb)[0][0].image.getpixel((0, 0)) == (1, 2, 3)
    (tmp_path / "my t#.png").write_bytes(image_file((7, 8, 9)))
    (solid,), _ = Maker().material(BASE, {"uri": "my%20t%23.png"}).read(tmp_path)
    assert solid.image.getpixel((0, 0)) == (7, 8, 9)


def test_transmission_is_reported(tmp_path):
    told = {"extensions": {"KHR_materials_transmission": {"transmissionFactor": 0.9}}}
    _, said = Maker().material(told).read(tmp_path)
    assert said == ["has transparent materials. They are rendered opaque."]


@pytest.mark.parametrize("told", [{"skin": 0}, {"weights": [0.5]}])
def test_skins_and_morphs_are_reported(tmp_path, told):
    maker = Maker(nodes=[{"mesh": 0, **told}])
    maker.primitive()
    (solid,), said = maker.read(tmp_path)
    assert same(solid)
    assert said == ["skins and morph targets are ignored."]


REQUIRED = {
    "KHR_draco_mesh_compression": "KHR_draco_mesh_compression is not supported. Export without Draco compression.",
    "EXT_meshopt_compression": "EXT_meshopt_compression is not supported. Export without meshopt compression.",
    "KHR_texture_basisu": "KHR_texture_basisu is not supported. Export without KTX2 compression.",
    "EXT_mesh_gpu_instancing": "the required extension EXT_mesh_gpu_instancing is not supported. Export without it.",
    "ACME_secret": "the required extension ACME_secret is not supported. Export without it.",
}  # fmt: skip


@pytest.mark.parametrize("name", REQUIRED)
def test_unsupported_required_extension_raises(tmp_path, name):
    maker = Maker(extensionsRequired=[name])
    maker.primitive()
    with pytest.raises(InputError) as caught:
        maker.read(tmp_path)
    assert str(caught.value) == f"{tmp_path / 'a.gltf'}: {REQUIRED[name]}"


@pytest.mark.parametrize(
    "name", ["KHR_materials_unlit", "KHR_materials_ior", "KHR_lights_punctual"]
)
def test_harmless_required_extension_is_accepted(tmp_path, name):
    maker = Maker(extensionsRequired=[name])
    maker.primitive()
    assert same(maker.read(tmp_path)[0][0])


def test_compressed_data_without_fallback_raise(tmp_path):
    maker = Maker()
    primitive = maker.primitive(extensions={"KHR_draco_mesh_compression": {}})
    assert same(maker.read(tmp_path)[0][0])  # with one
    del maker.json["accessors"][primitive["attributes"]["POSITION"]]["bufferView"]
    with pytest.raises(InputError, match=r"KHR_draco_mesh_compression is not"):
        maker.read(tmp_path)
    maker = Maker()
    maker.primitive()
    maker.more_buffers = [{"byteLength": 48}]
    maker.json["bufferViews"][0] |= {"buffer": 1, "extensions": {"EXT_meshopt_compression": {}}}
    with pytest.raises(InputError, match=r"EXT_meshopt_compression is not"):
        maker.read(tmp_path)


BROKEN = {
    "not glTF 2.0: the file has version \"1.0\". Convert it to glTF 2.0.": lambda j: j["asset"].update(version="1.0"),
    "not glTF 2.0: the file has no version. Convert it to glTF 2.0.": lambda j: j.pop("asset"),
    "accessors[0] exceeds its bufferView of 48 bytes.": lambda j: j["accessors"][0].update(count=5),
    "accessors[0]: 'count' is -1, not a non-negative integer.": lambda j: j["accessors"][0].update(count=-1),
    "accessors[0] has too many elements (1000000000000).": lambda j: j["accessors"][0].update(count=10**12),
    "accessors[0] has the invalid type [1, \"VEC3\"].": lambda j: j["accessors"][0].update(componentType=1),
    "bufferViews[0] exceeds its buffer of 72 bytes.": lambda j: j["bufferViews"][0].update(byteOffset=60),
    "accessors[9] is missing (length 2).": lambda j: j["meshes"][0]["primitives"][0]["attributes"].update(POSITION=9),
    "meshes[7] is missing (length 1).": lambda j: j["nodes"][0].update(mesh=7),
    "materials[\"a\"] is missing (length 0).": lambda j: j["meshes"][0]["primitives"][0].update(material="a"),
    "nodes[0] has two parents; glTF nodes must form trees.": lambda j: j["nodes"][0].update(children=[0]),
    "nodes[0] has an invalid transform.": lambda j: j["nodes"][0].update(matrix=[1]),
    "nodes[0] has a transform that is not finite.": lambda j: j["nodes"][0].update(translation=[float("nan"), 0, 0]),
    "'nodes' must be a list of objects.": lambda j: j.update(nodes="all"),
    "POSITION must be VEC3.": lambda j: j["accessors"][0].update(type="VEC2"),
    "is not a valid GLTF file. Export it again.": lambda j: j["nodes"][0].update(extensions=3),
}  # fmt: skip


@pytest.mark.parametrize("message", BROKEN)
def test_errors_are_about_the_format(tmp_path, message):
    maker = Maker()
    maker.primitive()
    assert maker.read(tmp_path)[0]
    BROKEN[message](maker.json)
    with pytest.raises(InputError) as caught:
        maker.read(tmp_path)
    assert str(caught.value) == f"{tmp_path / 'a.gltf'}: {message}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{" * 10, "not glTF: the JSON is invalid ("),
        (b"[" * 100_000, "the JSON is nested too deeply."),
        (b"[]", "not glTF: the JSON must be an object."),
        (b"\xff{}", "the JSON is not UTF-8."),
    ],
)
def test_invalid_gltf_raises(tmp_path, data, message):
    (tmp_path / "a.gltf").write_bytes(data)
    with pytest.raises(InputError, match=f"^{re.escape(f'{tmp_path}/a.gltf: {message}')}"):
        read_solids(tmp_path / "a.gltf", 100)
