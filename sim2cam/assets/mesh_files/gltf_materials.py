"""Materials of glTF: base colours and their images, as sRGB."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.assets.mesh_files.gltf_data import GltfData
from sim2cam.assets.mesh_files.raw_mesh import unused, warn
from sim2cam.assets.mesh_files.submesh import Solid
from sim2cam.surfaces.textures import encode_srgb

Floats = NDArray[np.float64]

_GLOSSY = "KHR_materials_pbrSpecularGlossiness"
_MOVED = "KHR_texture_transform"
_CLEAR = ("KHR_materials_transmission", "KHR_materials_diffuse_transmission")
_SOURCES = ("EXT_texture_webp",)
_REPEAT = 10497
_EDGE = 0.01  # beyond an image's edge that shows nothing of its repetition


@dataclass(frozen=True, eq=False)
class Skin:
    """The base colour of a material.

    Attributes:
        factor: linear (3,).
        image: as Pillow opened it, its factor multiplied into it; None without.
        set: number of the texture coordinates.
        matrix: (2, 3) of texture coordinates as the file has them to those of the image.
        repeats: whether the image is repeated beyond its edges.
        name: of the image, for warnings.
    """

    factor: Floats
    image: Any = None
    set: int = 0
    matrix: Floats | None = None
    repeats: bool = True
    name: str = ""


class Materials:
    """The materials of a glTF file; each image is read once."""

    def __init__(self, data: GltfData, *, colored: bool) -> None:
        self._data, self._colored = data, colored
        self._skins: dict[int, Skin] = {}
        self._images: dict[int, Any] = {}
        self._drawn: set[int] = set()
        self._warned: set[str] = set()

    def warn(self, flaw: str) -> None:
        """Warn of a flaw once."""
        if flaw not in self._warned:
            self._warned.add(flaw)
            warn(self._data.files.path, flaw)

    def put_on(self, solid: Solid, primitive: dict[str, Any], paint: Floats | None) -> Solid:
        """Return a mesh with the colours of a primitive.

        Args:
            solid: the mesh.
            primitive: of the file.
            paint: linear colours (n, 3) of its vertices; None without.
        """
        if not self._colored:
            return solid
        index = primitive.get("material")
        skin = Skin(np.ones(3)) if index is None else self._skin(index)
        uvs = self._uvs(skin, primitive) if skin.image is not None else None
        if uvs is not None:
            if paint is not None and paint.min(initial=1.0) < 1:
                self.warn("has colours of vertices over its pictures. They are left out.")
            if len(uvs) != len(solid.vertices):
                raise self._data.wrong("a primitive has fewer texture coordinates than vertices.")
            return replace(solid, uvs=uvs, image=skin.image)
        if paint is not None:
            return replace(solid, paint=encode_srgb(paint * skin.factor))
        if index is None:
            return solid
        red, green, blue = encode_srgb(skin.factor).tolist()
        return replace(solid, color=(red, green, blue))

    def warn_of_others(self) -> None:
        """Warn of images that nothing is drawn with."""
        count = len(self._data.rows("images")) if self._colored else 0
        names = [self._name(index) for index in range(count) if index not in self._drawn]
        if names:
            self.warn(unused(names))

    def _skin(self, index: int) -> Skin:
        material = self._data.row("materials", index)
        if index not in self._skins:
            self._skins[index] = self._read(material, index)
        return self._skins[index]

    def _read(self, material: dict[str, Any], index: int) -> Skin:
        extensions = material.get("extensions") or {}
        if material.get("alphaMode") in ("BLEND", "MASK") or any(n in extensions for n in _CLEAR):
            self.warn("has materials that let light through. They are drawn opaque.")
        shading, names = material.get("pbrMetallicRoughness") or {}, ("baseColorFactor", "baseColorTexture")  # fmt: skip
        if _GLOSSY in extensions:
            shading, names = extensions[_GLOSSY] or {}, ("diffuseFactor", "diffuseTexture")
        factor = _factor(shading.get(names[0], [1.0] * 4))
        if factor is None:
            raise self._data.wrong(f"materials[{index}]: '{names[0]}' is no four numbers.")
        skin = Skin(factor)
        return self._textured(skin, shading[names[1]]) if names[1] in shading else skin

    def _textured(self, skin: Skin, reference: Any) -> Skin:
        """Return a base colour with its image, if that can be read."""
        if not isinstance(reference, dict):
            raise self._data.wrong("a texture of its materials is no object.")
        texture = self._data.row("textures", reference.get("index"))
        source = self._source(texture)
        image = None if source is None else self._image(source)
        if image is None:
            return skin
        if skin.factor.min() < 1:
            image = _dimmed(image, skin.factor, self._data.files.path)
        moved = (reference.get("extensions") or {}).get(_MOVED)
        number, matrix = reference.get("texCoord", 0), None
        if isinstance(moved, dict):
            number, matrix = moved.get("texCoord", number), _moves(moved)
            if matrix is None:
                raise self._data.wrong(f"'{_MOVED}' of a texture holds no finite numbers.")
        name = self._name(source or 0)
        repeats = self._repeats(texture)
        return Skin(skin.factor, image, number, matrix, repeats, name)

    def _source(self, texture: dict[str, Any]) -> int | None:
        """Return the image of a texture; None, with a warning, if only one of a kind that is not read."""
        extensions = texture.get("extensions") or {}
        for name in _SOURCES:
            if name in extensions:
                return self._index(extensions[name].get("source"))
        if "source" in texture:
            return self._index(texture["source"])
        if extensions:
            self.warn(f"an image of it is left out: {next(iter(extensions))} is not read.")
        return None

    def _index(self, index: Any) -> int:
        self._data.row("images", index)
        return int(index)

    def _image(self, index: int) -> Any:
        self._drawn.add(index)  # or named below
        if index not in self._images:
            image, where = self._data.row("images", index), f"images[{index}]"
            uri, files = image.get("uri"), self._data.files
            data: bytes | None
            if "bufferView" in image:
                data, _ = self._data.view(image["bufferView"])
            elif isinstance(uri, str) and uri[:5].lower() == "data:":
                data = self._data.data_uri(uri, where)
            elif isinstance(uri, str):
                data = files.read(self._data.file_name(uri))
            else:
                raise self._data.wrong(f"{where} has neither data nor a file.")
            found = None if data is None else files.decoded(data, f"'{self._name(index)}'")
            self._images[index] = found
        return self._images[index]

    def _name(self, index: int) -> str:
        image = self._data.row("images", index)
        uri = image.get("uri")
        is_file = isinstance(uri, str) and uri[:5].lower() != "data:"
        return str(uri if is_file else image.get("name") or f"images[{index}]")[:60]

    def _repeats(self, texture: dict[str, Any]) -> bool:
        if "sampler" not in texture:
            return True
        sampler = self._data.row("samplers", texture["sampler"])
        return all(sampler.get(f"wrap{way}", _REPEAT) == _REPEAT for way in "ST")

    def _uvs(self, skin: Skin, primitive: dict[str, Any]) -> Floats | None:
        """Return the texture coordinates (n, 2) of a primitive, v upwards; None without."""
        name = f"TEXCOORD_{skin.set}"
        if name not in primitive["attributes"]:
            self.warn(f"its image '{skin.name}' is left out where faces have no {name}.")
            return None
        values = self._data.accessor(primitive["attributes"][name])
        if values.shape[1] != 2:
            raise self._data.wrong(f"{name} is no VEC2.")
        uvs = values.astype(np.float64)
        if skin.matrix is not None:
            uvs = uvs @ skin.matrix[:, :2].T + skin.matrix[:, 2]
        if not skin.repeats and not ((uvs > -_EDGE) & (uvs < 1 + _EDGE)).all():
            self.warn(
                f"its image '{skin.name}' is repeated beyond its edges, where it should not be."
            )
        return np.stack([uvs[:, 0], 1.0 - uvs[:, 1]], axis=1)


def _dimmed(image: Any, factor: Floats, path: Path) -> Any:
    """Return an image with a linear factor (3,) multiplied into it."""
    from PIL import Image

    rgb = images.shrink_image(image, images.MAX_TEXTURE_PX, path)
    steps = encode_srgb(np.outer(factor, images.SRGB_TO_LINEAR))
    shown = [table[rgb[..., channel]] for channel, table in enumerate(steps)]
    return Image.fromarray(np.stack(shown, axis=2))


def _factor(values: Any) -> Floats | None:
    try:
        factor = np.array(values, np.float64)
    except (TypeError, ValueError):
        return None
    return np.nan_to_num(factor[:3], nan=1.0).clip(0, 1) if factor.shape == (4,) else None


def _moves(transform: dict[str, Any]) -> Floats | None:
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
