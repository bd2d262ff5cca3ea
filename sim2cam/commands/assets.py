"""Commands for people with objects of their own: look at them, and begin a recipe."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from sim2cam.commands.options import OutputOptions, Overwrite, SkipInvalid, check_output_files
from sim2cam.errors import Sim2CamError, UsageError
from sim2cam.files import convert_write_errors, write_atomic

if TYPE_CHECKING:
    from sim2cam.assets.importer import Imported
    from sim2cam.pipeline.recipe import Recipe


@dataclass(frozen=True)
class Assets:
    """Check every mesh file of a folder, and draw all of them into one picture."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Folder of meshes (OBJ, PLY, STL, GLB, glTF, DAE) and models (URDF, SDF, MJCF), or of folders."""
    out: Path | None = None
    """The picture, a PNG; without it NAME-assets.png beside the folder."""
    unit: Literal["m", "cm", "mm", "in"] | None = None
    """Of the numbers of files that do not say themselves; guessed without it."""
    overwrite: Overwrite = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Print a table; fails if a file cannot be used."""
        from sim2cam import images
        from sim2cam.assets.folder import asset_names, unread_names
        from sim2cam.assets.importer import import_assets
        from sim2cam.assets.walk import lost_links
        from sim2cam.report.sheet import build_asset_sheet

        folder = self.folder.resolve()
        picture = self.out or folder.with_name(f"{folder.name}-assets.png")
        names = asset_names(folder)
        check_output_files(
            picture, overwrite=self.overwrite, inputs=[folder / name for name in names]
        )
        console = self.output.make_console()
        found = list(import_assets(folder, names, self.unit))
        if self.output.json:
            console.print_json({"assets": [asdict(one) for one in found]})
        else:
            console.print_text(_format_table(found))
        for one in found:
            for words in (*([one.problem] if one.problem else ()), *one.repairs):
                console.info(f"{one.name}: {words.removeprefix(f'{folder / one.name}: ')}")
        for name in unread_names(folder):
            console.info(f"{name}: a file of this kind cannot be read. Convert it to GLB.")
        for name in lost_links(folder):
            console.info(
                f"{name}: left out, a link that leads to no file, or back to a folder above."
            )
        usable = [one.facts for one in found if one.facts is not None]
        if usable:
            write_atomic(picture, images.encode_png(build_asset_sheet(usable)))
            console.info(f"picture: {picture}")
        if len(usable) < len(found):
            raise Sim2CamError(
                f"{self.folder}: {len(found) - len(usable)} of {len(found)} cannot be used."
            )


@dataclass(frozen=True)
class New:
    """Write a first recipe that throws your own objects."""

    name: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="NAME")]
    """Of the recipe; it goes to NAME.toml."""
    assets: Path
    """Folder of mesh files."""
    captures: Path | None = None
    """Photos, a folder or a COCO file; the pictures get their size."""
    overwrite: Overwrite = False
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Write the recipe, and says what to do next."""
        from sim2cam.assets.folder import asset_names
        from sim2cam.assets.importer import import_assets
        from sim2cam.data.real_images import read_real_images
        from sim2cam.pipeline.new_recipe import format_recipe

        path = self.name if self.name.suffix == ".toml" else Path(f"{self.name}.toml")
        folder = self.assets.resolve()
        names = asset_names(folder)
        for name in names:
            if (folder / name).with_suffix(".toml") == path.resolve():
                raise UsageError(
                    f"{path} is where what is known of {name} is written. Choose another name, or "
                    "write the recipe into another folder."
                )
        check_output_files(path, overwrite=self.overwrite)
        found = list(import_assets(folder, names))
        captures = None
        if self.captures is not None:
            captures = read_real_images(self.captures, skip_invalid=self.skip_invalid)
        recipe = _write_recipe(path, format_recipe(path.absolute(), folder, found, captures))
        console = self.output.make_console()
        console.info(
            f"recipe: {path} ({len(found)} objects in {len(recipe.categories)} categories)"
        )
        for one in found:
            assert one.facts is not None
            size = " x ".join(f"{1e3 * side:.3g}" for side in one.facts.size_m)
            console.info(f"  {one.name}: {size} mm{' (unit guessed)' if one.guessed_unit else ''}")
            for repair in one.repairs:
                console.info(f"    {repair}")
        console.info(f"next: sim2cam render {path} --preview")
        if self.output.json:
            console.print_json({"recipe": str(path), "categories": recipe.categories})


def _write_recipe(path: Path, text: str) -> Recipe:
    """Return the recipe of a text that is written to a file, where it can be loaded."""
    from sim2cam.pipeline.recipe import load_recipe

    draft = path.with_name(f".{path.name}")  # beside it, as folders are named from there
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


def _format_table(assets: list[Imported]) -> str:
    """Return one line for each asset; a unit that was guessed has a question mark."""
    rows = [
        ("asset", "category", "size, mm", "unit", "faces", "closed", "parts", "mass, kg", "licence")
    ]
    for one in assets:
        facts = one.facts
        if facts is None:
            rows.append((one.name, "-", "-", "-", "-", "-", "-", "-", "cannot be used"))
            continue
        rows.append(
            (
                one.name,
                facts.mesh.category,
                " x ".join(f"{1e3 * side:.4g}" for side in facts.size_m),
                f"{one.guessed_unit}?" if one.guessed_unit else _find_unit(facts.mesh.unit_m),
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
