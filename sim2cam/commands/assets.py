"""Commands ``assets`` and ``new``: checks of mesh files and recipes for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from sim2cam.commands.options import (
    Argument,
    OutputOptions,
    Overwrite,
    SkipInvalid,
    check_inputs,
    check_output_files,
)
from sim2cam.commands.results import Result, format_command
from sim2cam.errors import UsageError
from sim2cam.files import convert_write_errors, write_atomic

if TYPE_CHECKING:
    from sim2cam.assets.importer import ImportedAsset
    from sim2cam.data.sample import Dataset
    from sim2cam.pipeline.recipe import Recipe


@dataclass(frozen=True)
class Assets:
    """Check mesh files and render an overview image."""

    folder: Annotated[Path, Argument("DIR")]
    """Folder, searched recursively, of meshes (OBJ, PLY, STL, GLB, glTF, DAE) and models (URDF, SDF, MJCF)."""
    out: Path | None = None
    """Overview image (PNG); default: NAME-assets.png next to the folder."""
    unit: Literal["m", "cm", "mm", "in"] | None = None
    """Length unit of files that do not define one; default: guessed."""
    overwrite: Overwrite = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> AssetsResult:
        """Check the files and write the overview image."""
        from sim2cam import images
        from sim2cam.assets.folder import list_assets, list_unreadable
        from sim2cam.assets.importer import import_assets
        from sim2cam.assets.walk import list_broken_links
        from sim2cam.report.sheet import build_asset_sheet

        folder = self.folder.resolve()
        sheet = self.out or folder.with_name(f"{folder.name}-assets.png")
        names = list_assets(folder)
        check_output_files(
            sheet, overwrite=self.overwrite, inputs=[folder / name for name in names]
        )
        assets = tuple(import_assets(folder, names, self.unit))
        notes = [
            f"{asset.name}: {message.removeprefix(f'{folder / asset.name}: ')}"
            for asset in assets
            for message in (*([asset.error] if asset.error else ()), *asset.repairs)
        ]
        for name in list_unreadable(folder):
            notes.append(f"{name}: unsupported file type. Convert it to GLB.")
        for name in list_broken_links(folder):
            notes.append(f"{name}: skipped; the link is broken or leads to a parent folder.")
        usable = [asset.info for asset in assets if asset.info is not None]
        if usable:
            write_atomic(sheet, images.encode_png(build_asset_sheet(usable)))
        return AssetsResult(self.folder, assets, tuple(notes), sheet if usable else None)


@dataclass(frozen=True)
class AssetsResult(Result):
    """Checked mesh files.

    Attributes:
        folder: Folder of the files.
        assets: Facts or error of each file.
        notes: Errors, repairs and skipped files.
        image: Overview image; None if no file is usable.
    """

    folder: Path
    assets: tuple[ImportedAsset, ...]
    notes: tuple[str, ...]
    image: Path | None

    def to_json(self) -> dict[str, Any]:
        """Return the assets."""
        return {"assets": [asdict(asset) for asset in self.assets]}

    def to_text(self) -> str:
        """Return one row per asset; guessed units have a question mark."""
        return _format_table(self.assets)

    def summary(self) -> str:
        """Return the notes and the path of the image."""
        return "\n".join([*self.notes, *([f"image: {self.image}"] if self.image else [])])

    @property
    def failure(self) -> str | None:
        """Why the command line exits with 1: unusable files."""
        unusable, total = sum(asset.info is None for asset in self.assets), len(self.assets)
        return f"{self.folder}: {unusable} of {total} cannot be used." if unusable else None

    @property
    def next_step(self) -> str:
        """Command that writes a recipe for the files."""
        return format_command("new", "NAME", "--assets", self.folder)


@dataclass(frozen=True)
class New:
    """Write a first recipe for your own objects."""

    name: Annotated[Path, Argument("NAME")]
    """Name of the recipe, written to NAME.toml."""
    assets: Path | None = None
    """Folder of mesh files."""
    kind: str | None = None
    """Kind of objects instead of meshes: ball, block, board, bolt, card, carton, die, domino, nut, robot, tin or twisty."""
    captures: Path | None = None
    """Real images (folder or COCO file) that set the image size."""
    overwrite: Overwrite = False
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> NewResult:
        """Write the recipe."""
        if (self.assets is None) == (self.kind is None):
            raise UsageError("give either --assets FOLDER or --kind KIND, such as --kind die.")
        check_inputs(self.assets, self.captures)

        from sim2cam.data.real_images import read_real_images
        from sim2cam.pipeline.new_recipe import format_kind_recipe

        path = self.name if self.name.suffix == ".toml" else Path(f"{self.name}.toml")
        check_output_files(path, overwrite=self.overwrite)
        captures = None
        if self.captures is not None:
            captures = read_real_images(self.captures, skip_invalid=self.skip_invalid)
        assets: tuple[ImportedAsset, ...] = ()
        if self.kind is not None:
            text = format_kind_recipe(path, self.kind, captures)
        else:
            assert self.assets is not None
            text, assets = _format_mesh_recipe(path, self.assets.resolve(), captures)
        return NewResult(path, _write_recipe(path, text).categories, assets)


def _format_mesh_recipe(
    path: Path, folder: Path, captures: Dataset | None
) -> tuple[str, tuple[ImportedAsset, ...]]:
    """Return the text of a recipe for the meshes of a folder, and the meshes."""
    from sim2cam.assets.folder import list_assets
    from sim2cam.assets.importer import import_assets
    from sim2cam.pipeline import new_recipe

    names = list_assets(folder)
    for name in names:
        if (folder / name).with_suffix(".toml") == path.resolve():
            raise UsageError(
                f"{path} is the properties file of {name}. Choose another name, or write the "
                "recipe to another folder."
            )
    assets = tuple(import_assets(folder, names))
    return new_recipe.format_recipe(path.absolute(), folder, assets, captures), assets


@dataclass(frozen=True)
class NewResult(Result):
    """New recipe; without meshes, its objects are of a kind."""

    recipe: Path
    categories: tuple[str, ...]
    assets: tuple[ImportedAsset, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the path of the recipe and its categories."""
        return {"recipe": str(self.recipe), "categories": self.categories}

    def summary(self) -> str:
        """Return the sizes and repairs of the assets."""
        objects, categories = len(self.assets), len(self.categories)
        category_count = f"{categories} {'category' if categories == 1 else 'categories'}"
        object_count = f"{objects} {'object' if objects == 1 else 'objects'} in " if objects else ""
        lines = [f"recipe: {self.recipe} ({object_count}{category_count})"]
        for asset in self.assets:
            assert asset.info is not None
            size = " x ".join(f"{1e3 * side:.3g}" for side in asset.info.size_m)
            guess = " (unit guessed)" if asset.guessed_unit else ""
            lines += [f"  {asset.name}: {size} mm{guess}"]
            lines += [f"    {repair}" for repair in asset.repairs]
        return "\n".join(lines)

    @property
    def next_step(self) -> str:
        """Command that shows scenes of the recipe."""
        return f"sim2cam render {self.recipe} --preview"


def _write_recipe(path: Path, text: str) -> Recipe:
    """Write the recipe if it loads without errors, and return it."""
    from sim2cam.pipeline.recipe import load_recipe

    draft = path.with_name(f".{path.name}")  # same folder, for relative paths
    with convert_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(text.encode())
    try:
        recipe = load_recipe(str(draft))
        with convert_write_errors(path):
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return recipe


def _format_table(assets: Sequence[ImportedAsset]) -> str:
    """Return one row per asset; guessed units have a question mark."""
    rows = [
        ("asset", "category", "size, mm", "unit", "faces", "closed", "parts", "mass, kg", "licence")
    ]
    for asset in assets:
        facts = asset.info
        if facts is None:
            rows.append((asset.name, "-", "-", "-", "-", "-", "-", "-", "cannot be used"))
            continue
        rows.append(
            (
                asset.name,
                facts.mesh.category,
                " x ".join(f"{1e3 * side:.4g}" for side in facts.size_m),
                f"{asset.guessed_unit}?" if asset.guessed_unit else _find_unit(facts.mesh.unit_m),
                str(facts.n_faces),
                "yes" if facts.is_watertight else "no",
                str(facts.n_convex_parts),
                f"{facts.mass_kg.low:.2g} to {facts.mass_kg.high:.2g}",
                facts.licence or "-",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _find_unit(metres: float) -> str:
    from sim2cam.scene.shape import METRES_PER_UNIT

    return next(name for name, length in METRES_PER_UNIT.items() if length == metres)
