"""Materials of glTF: base colours and base colour textures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.assets.mesh_files.gltf_data import GltfData
from sim2cam.assets.mesh_files.raw_mesh import format_unused_images
from sim2cam.assets.mesh_files.submesh import Submesh
from sim2cam.surfaces.textures import encode_srgb

Floats = NDArray[np.float64]

_SPECULAR_GLOSSINESS = "KHR_materials_pbrSpecularGlossiness"
_TRANSFORM = "KHR_texture_transform"
_TRANSPARENT_MODES = ("KHR_materials_transmission", "KHR_materials_diffuse_transmission")
_SOURCES = ("EXT_texture_webp",)
_REPEAT = 10497
_CLAMP = 0.01  # distance beyond an image's edge without visible repetition


@dataclass(frozen=True, eq=False)
class BaseColor:
    """Base colour of a material.

    Attributes:
        factor: Linear RGB (3,).
        image: Pillow image, multiplied by the factor; None without.
        uv_set: Number of the texture coordinate set.
        matrix: Transform (2, 3) of texture coordinates; None without.
        repeats: Whether the image repeats beyond its edges.
        name: Name of the image, for warnings.
    """

    factor: Floats
    image: Any = None
    uv_set: int = 0
    matrix: Floats | None = None
    repeats: bool = True
    name: str = ""


class GltfMaterials:
    """Materials of a glTF file; each image is read once."""

    def __init__(self, data: GltfData, *, colored: bool) -> None:
        self._data, self._colored = data, colored
        self._base_colors: dict[int, BaseColor] = {}
        self._images: dict[int, Any] = {}
        self._used_images: set[int] = set()

    def apply(
        self, solid: Submesh, primitive: dict[str, Any], vertex_colors: Floats | None
    ) -> Submesh:
        """Add the colours of a primitive to a submesh; vertex colours (n, 3) are linear."""
        if not self._colored:
            return solid
        index = primitive.get("material")
        base_color = BaseColor(np.ones(3)) if index is None else self._get_base_color(index)
        uvs = self._read_uvs(base_color, primitive) if base_color.image is not None else None
        if uvs is not None:
            if vertex_colors is not None and vertex_colors.min(initial=1.0) < 1:
                self._data.files.warn_once("vertex colours of textured meshes are ignored.")
            if len(uvs) != len(solid.vertices):
                raise self._data.error(
                    "a primitive must have one texture coordinate for each vertex."
                )
            return replace(solid, uvs=uvs, image=base_color.image)
        if vertex_colors is not None:
            return replace(solid, vertex_colors=encode_srgb(vertex_colors * base_color.factor))
        if index is None:
            return solid
        red, green, blue = encode_srgb(base_color.factor).tolist()
        return replace(solid, color=(red, green, blue))

    def report_unused(self) -> None:
        """Warn about unused images."""
        count = len(self._data.get_list("images")) if self._colored else 0
        names = [
            self._get_image_name(index) for index in range(count) if index not in self._used_images
        ]
        if names:
            self._data.files.warn_once(format_unused_images(names))

    def _get_base_color(self, index: int) -> BaseColor:
        material = self._data.get_item("materials", index)
        if index not in self._base_colors:
            self._base_colors[index] = self._read_base_color(material, index)
        return self._base_colors[index]

    def _read_base_color(self, material: dict[str, Any], index: int) -> BaseColor:
        extensions = material.get("extensions") or {}
        if material.get("alphaMode") in ("BLEND", "MASK") or any(
            name in extensions for name in _TRANSPARENT_MODES
        ):
            self._data.files.warn_once("has transparent materials. They are rendered opaque.")
        shading, names = (
            material.get("pbrMetallicRoughness"),
            ("baseColorFactor", "baseColorTexture"),
        )
        if _SPECULAR_GLOSSINESS in extensions:
            shading, names = extensions[_SPECULAR_GLOSSINESS], ("diffuseFactor", "diffuseTexture")
        shading = shading or {}
        factor = _parse_factor(shading.get(names[0], [1.0] * 4))
        if factor is None:
            raise self._data.error(f"materials[{index}]: '{names[0]}' must be four numbers.")
        base_color = BaseColor(factor)
        return (
            self._add_texture(base_color, shading[names[1]]) if names[1] in shading else base_color
        )

    def _add_texture(self, base_color: BaseColor, reference: Any) -> BaseColor:
        """Add the texture to a base colour, if it can be read."""
        if not isinstance(reference, dict):
            raise self._data.error("a texture of a material must be an object.")
        texture = self._data.get_item("textures", reference.get("index"))
        source = self._get_source(texture)
        image = None if source is None else self._get_image(source)
        if image is None:
            return base_color
        if base_color.factor.min() < 1:
            image = _multiply_image(image, base_color.factor, self._data.files.path)
        transform = (reference.get("extensions") or {}).get(_TRANSFORM)
        uv_set, matrix = reference.get("texCoord", 0), None
        if isinstance(transform, dict):
            uv_set, matrix = transform.get("texCoord", uv_set), _read_uv_transform(transform)
            if matrix is None:
                raise self._data.error(f"'{_TRANSFORM}' of a texture must hold finite numbers.")
        name = self._get_image_name(source or 0)
        repeats = self._get_wrapping(texture)
        return BaseColor(base_color.factor, image, uv_set, matrix, repeats, name)

    def _get_source(self, texture: dict[str, Any]) -> int | None:
        """Return the image index of a texture; warn and return None if the format is not supported."""
        extensions = texture.get("extensions") or {}
        for name in _SOURCES:
            if name in extensions:
                return self._check_index(extensions[name].get("source"))
        if "source" in texture:
            return self._check_index(texture["source"])
        if extensions:
            self._data.files.warn_once(
                f"an image is ignored: {next(iter(extensions))} is not supported."
            )
        return None

    def _check_index(self, index: Any) -> int:
        self._data.get_item("images", index)
        return int(index)

    def _get_image(self, index: int) -> Any:
        self._used_images.add(index)
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
                raise self._data.error(f"{where} has neither data nor a URI.")
            name = f"'{self._get_image_name(index)}'"
            self._images[index] = None if data is None else files.decode_image(data, name)
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
        return all(sampler.get(f"wrap{axis}", _REPEAT) == _REPEAT for axis in "ST")

    def _read_uvs(self, base_color: BaseColor, primitive: dict[str, Any]) -> Floats | None:
        """Return the texture coordinates (n, 2) of a primitive, v up; None without."""
        name = f"TEXCOORD_{base_color.uv_set}"
        if name not in primitive["attributes"]:
            self._data.files.warn_once(
                f"image '{base_color.name}' is ignored where faces have no {name}."
            )
            return None
        values = self._data.read_accessor(primitive["attributes"][name])
        if values.shape[1] != 2:
            raise self._data.error(f"{name} must be VEC2.")
        uvs = values.astype(np.float64)
        if base_color.matrix is not None:
            uvs = uvs @ base_color.matrix[:, :2].T + base_color.matrix[:, 2]
        if not base_color.repeats and not ((uvs > -_CLAMP) & (uvs < 1 + _CLAMP)).all():
            self._data.files.warn_once(
                f"image '{base_color.name}' is repeated although its sampler clamps."
            )
        return np.stack([uvs[:, 0], 1.0 - uvs[:, 1]], axis=1)


def _multiply_image(image: Any, factor: Floats, path: Path) -> Any:
    """Multiply an image by a linear factor (3,)."""
    from PIL import Image

    rgb = images.shrink_image(image, images.MAX_TEXTURE_PX, path)
    tables = encode_srgb(np.outer(factor, images.SRGB_TO_LINEAR))
    channels = [table[rgb[..., channel]] for channel, table in enumerate(tables)]
    return Image.fromarray(np.stack(channels, axis=2))


def _parse_factor(values: Any) -> Floats | None:
    try:
        factor = np.array(values, np.float64)
    except (TypeError, ValueError):
        return None
    return np.nan_to_num(factor[:3], nan=1.0).clip(0, 1) if factor.shape == (4,) else None


def _read_uv_transform(transform: dict[str, Any]) -> Floats | None:
    """Return the matrix (2, 3) of a texture transform; None if it is invalid."""
    try:
        (x, y), (width, height) = transform.get("offset", (0, 0)), transform.get("scale", (1, 1))
        angle = float(transform.get("rotation", 0))
        cos, sin = np.cos(angle), np.sin(angle)
        matrix = np.array(
            [[cos * width, sin * height, x], [-sin * width, cos * height, y]], np.float64
        )
    except (TypeError, ValueError):
        return None
    return matrix if np.isfinite(matrix).all() else None
