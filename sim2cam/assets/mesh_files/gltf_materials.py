"""Materials of glTF: base colours and their images, as sRGB."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.assets.mesh_files.gltf_data import GltfData
from sim2cam.assets.mesh_files.raw_mesh import warn, warn_unused
from sim2cam.assets.mesh_files.submesh import Submesh
from sim2cam.surfaces.textures import encode_srgb

Floats = NDArray[np.float64]

_SPECULAR_GLOSSINESS = "KHR_materials_pbrSpecularGlossiness"
_TRANSFORM = "KHR_texture_transform"
_TRANSPARENT_MODES = ("KHR_materials_transmission", "KHR_materials_diffuse_transmission")
_SOURCES = ("EXT_texture_webp",)
_REPEAT = 10497
_CLAMP = 0.01  # beyond an image's edge that shows nothing of its repetition


@dataclass(frozen=True, eq=False)
class BaseColor:
    """The base colour of a material.

    Attributes:
        factor: linear (3,).
        image: as Pillow opened it, its factor multiplied into it; None without.
        uv_set: number of the texture coordinates.
        matrix: (2, 3) of texture coordinates as the file has them to those of the image.
        repeats: whether the image is repeated beyond its edges.
        name: of the image, for warnings.
    """

    factor: Floats
    image: Any = None
    uv_set: int = 0
    matrix: Floats | None = None
    repeats: bool = True
    name: str = ""


class GltfMaterials:
    """The materials of a glTF file; each image is read once."""

    def __init__(self, data: GltfData, *, colored: bool) -> None:
        self._data, self._colored = data, colored
        self._base_colors: dict[int, BaseColor] = {}
        self._images: dict[int, Any] = {}
        self._used_images: set[int] = set()
        self._warned: set[str] = set()

    def warn(self, flaw: str) -> None:
        """Warn of a flaw once."""
        if flaw not in self._warned:
            self._warned.add(flaw)
            warn(self._data.files.path, flaw)

    def apply(self, solid: Submesh, primitive: dict[str, Any], paint: Floats | None) -> Submesh:
        """Return a mesh with the colours of a primitive.

        Args:
            solid: the mesh.
            primitive: of the file.
            paint: linear colours (n, 3) of its vertices; None without.
        """
        if not self._colored:
            return solid
        index = primitive.get("material")
        skin = BaseColor(np.ones(3)) if index is None else self._get_base_color(index)
        uvs = self._read_uvs(skin, primitive) if skin.image is not None else None
        if uvs is not None:
            if paint is not None and paint.min(initial=1.0) < 1:
                self.warn("has colours of vertices over its pictures. They are left out.")
            if len(uvs) != len(solid.vertices):
                raise self._data.error("a primitive has fewer texture coordinates than vertices.")
            return replace(solid, uvs=uvs, image=skin.image)
        if paint is not None:
            return replace(solid, vertex_colors=encode_srgb(paint * skin.factor))
        if index is None:
            return solid
        red, green, blue = encode_srgb(skin.factor).tolist()
        return replace(solid, color=(red, green, blue))

    def report_unused(self) -> None:
        """Warn of images that nothing is drawn with."""
        count = len(self._data.get_list("images")) if self._colored else 0
        names = [
            self._get_image_name(index) for index in range(count) if index not in self._used_images
        ]
        if names:
            self.warn(warn_unused(names))

    def _get_base_color(self, index: int) -> BaseColor:
        material = self._data.get_item("materials", index)
        if index not in self._base_colors:
            self._base_colors[index] = self._read_base_color(material, index)
        return self._base_colors[index]

    def _read_base_color(self, material: dict[str, Any], index: int) -> BaseColor:
        extensions = material.get("extensions") or {}
        if material.get("alphaMode") in ("BLEND", "MASK") or any(
            n in extensions for n in _TRANSPARENT_MODES
        ):
            self.warn("has materials that let light through. They are drawn opaque.")
        shading, names = material.get("pbrMetallicRoughness") or {}, ("baseColorFactor", "baseColorTexture")  # fmt: skip
        if _SPECULAR_GLOSSINESS in extensions:
            shading, names = (
                extensions[_SPECULAR_GLOSSINESS] or {},
                ("diffuseFactor", "diffuseTexture"),
            )
        factor = _to_srgb(shading.get(names[0], [1.0] * 4))
        if factor is None:
            raise self._data.error(f"materials[{index}]: '{names[0]}' is no four numbers.")
        skin = BaseColor(factor)
        return self._add_texture(skin, shading[names[1]]) if names[1] in shading else skin

    def _add_texture(self, skin: BaseColor, reference: Any) -> BaseColor:
        """Return a base colour with its image, if that can be read."""
        if not isinstance(reference, dict):
            raise self._data.error("a texture of its materials is no object.")
        texture = self._data.get_item("textures", reference.get("index"))
        source = self._get_source(texture)
        image = None if source is None else self._get_image(source)
        if image is None:
            return skin
        if skin.factor.min() < 1:
            image = _multiply_image(image, skin.factor, self._data.files.path)
        moved = (reference.get("extensions") or {}).get(_TRANSFORM)
        number, matrix = reference.get("texCoord", 0), None
        if isinstance(moved, dict):
            number, matrix = moved.get("texCoord", number), _is_uv_transform(moved)
            if matrix is None:
                raise self._data.error(f"'{_TRANSFORM}' of a texture holds no finite numbers.")
        name = self._get_image_name(source or 0)
        repeats = self._get_wrapping(texture)
        return BaseColor(skin.factor, image, number, matrix, repeats, name)

    def _get_source(self, texture: dict[str, Any]) -> int | None:
        """Return the image of a texture; None, with a warning, if only one of a kind that is not read."""
        extensions = texture.get("extensions") or {}
        for name in _SOURCES:
            if name in extensions:
                return self._check_index(extensions[name].get("source"))
        if "source" in texture:
            return self._check_index(texture["source"])
        if extensions:
            self.warn(f"an image of it is left out: {next(iter(extensions))} is not read.")
        return None

    def _check_index(self, index: Any) -> int:
        self._data.get_item("images", index)
        return int(index)

    def _get_image(self, index: int) -> Any:
        self._used_images.add(index)  # or named below
        if index not in self._images:
            image, where = self._data.get_item("images", index), f"images[{index}]"
            uri, files = image.get("uri"), self._data.files
            data: bytes | None
            if "bufferView" in image:
                data, _ = self._data.read_view(image["bufferView"])
            elif isinstance(uri, str) and uri[:5].lower() == "data:":
                data = self._data.decode_data_uri(uri, where)
            elif isinstance(uri, str):
                data = files.read(self._data.get_file_name(uri))
            else:
                raise self._data.error(f"{where} has neither data nor a file.")
            found = (
                None
                if data is None
                else files.decode_image(data, f"'{self._get_image_name(index)}'")
            )
            self._images[index] = found
        return self._images[index]

    def _get_image_name(self, index: int) -> str:
        image = self._data.get_item("images", index)
        uri = image.get("uri")
        is_file = isinstance(uri, str) and uri[:5].lower() != "data:"
        return str(uri if is_file else image.get("name") or f"images[{index}]")[:60]

    def _get_wrapping(self, texture: dict[str, Any]) -> bool:
        if "sampler" not in texture:
            return True
        sampler = self._data.get_item("samplers", texture["sampler"])
        return all(sampler.get(f"wrap{way}", _REPEAT) == _REPEAT for way in "ST")

    def _read_uvs(self, skin: BaseColor, primitive: dict[str, Any]) -> Floats | None:
        """Return the texture coordinates (n, 2) of a primitive, v upwards; None without."""
        name = f"TEXCOORD_{skin.uv_set}"
        if name not in primitive["attributes"]:
            self.warn(f"its image '{skin.name}' is left out where faces have no {name}.")
            return None
        values = self._data.read_accessor(primitive["attributes"][name])
        if values.shape[1] != 2:
            raise self._data.error(f"{name} is no VEC2.")
        uvs = values.astype(np.float64)
        if skin.matrix is not None:
            uvs = uvs @ skin.matrix[:, :2].T + skin.matrix[:, 2]
        if not skin.repeats and not ((uvs > -_CLAMP) & (uvs < 1 + _CLAMP)).all():
            self.warn(
                f"its image '{skin.name}' is repeated beyond its edges, where it should not be."
            )
        return np.stack([uvs[:, 0], 1.0 - uvs[:, 1]], axis=1)


def _multiply_image(image: Any, factor: Floats, path: Path) -> Any:
    """Return an image with a linear factor (3,) multiplied into it."""
    from PIL import Image

    rgb = images.shrink_image(image, images.MAX_TEXTURE_PX, path)
    steps = encode_srgb(np.outer(factor, images.SRGB_TO_LINEAR))
    shown = [table[rgb[..., channel]] for channel, table in enumerate(steps)]
    return Image.fromarray(np.stack(shown, axis=2))


def _to_srgb(values: Any) -> Floats | None:
    try:
        factor = np.array(values, np.float64)
    except (TypeError, ValueError):
        return None
    return np.nan_to_num(factor[:3], nan=1.0).clip(0, 1) if factor.shape == (4,) else None


def _is_uv_transform(transform: dict[str, Any]) -> Floats | None:
    """Return the matrix (2, 3) of a texture's transform; None where it holds no numbers."""
    try:
        (x, y), (width, height) = transform.get("offset", (0, 0)), transform.get("scale", (1, 1))
        cos, sin = (
            np.cos(float(transform.get("rotation", 0))),
            np.sin(float(transform.get("rotation", 0))),
        )
        matrix = np.array(
            [[cos * width, sin * height, x], [-sin * width, cos * height, y]], np.float64
        )
    except (TypeError, ValueError):
        return None
    return matrix if np.isfinite(matrix).all() else None
