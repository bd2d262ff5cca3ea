"""Commands for people with objects of their own: look at them, and begin a recipe."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from sim2cam.cli.options import Talk
from sim2cam.errors import Sim2CamError

if TYPE_CHECKING:
    from sim2cam.render.asset_import import Imported


@dataclass(frozen=True)
class Assets:
    """Check every mesh file of a folder, and draw all of them into one picture."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """Folder of OBJ, PLY, STL, GLB and glTF files, and of folders of them."""
    out: Path | None = None
    """The picture, a PNG; without it NAME-assets.png beside the folder."""
    unit: Literal["m", "cm", "mm", "in"] | None = None
    """Of the numbers of files that do not say themselves; guessed without it."""
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Prints a table; fails if a file cannot be used."""
        from sim2cam import images
        from sim2cam.render.asset_files import asset_names
        from sim2cam.render.asset_import import import_assets
        from sim2cam.report.sheet import asset_sheet

        folder = self.folder.resolve()
        console = self.talk.console()
        found = list(import_assets(folder, asset_names(folder), self.unit))
        if self.talk.json:
            console.result({"assets": [asdict(one) for one in found]})
        else:
            console.table(_table(found))
        for one in found:
            for words in (*([one.problem] if one.problem else ()), *one.repairs):
                console.say(f"{one.name}: {words.removeprefix(f'{folder / one.name}: ')}")
        usable = [one.facts for one in found if one.facts is not None]
        if usable:
            picture = self.out or folder.with_name(f"{folder.name}-assets.png")
            images.write_bytes(picture, images.encode_png(asset_sheet(usable)))
            console.say(f"picture: {picture}")
        if len(usable) < len(found):
            raise Sim2CamError(f"{self.folder}: {len(found) - len(usable)} of {len(found)} cannot be used.")


def _table(found: list[Imported]) -> str:
    """Returns one line for each asset; a unit that was guessed has a question mark."""
    rows = [("asset", "category", "size, mm", "unit", "faces", "closed", "mass, kg", "licence")]
    for one in found:
        facts = one.facts
        if facts is None:
            rows.append((one.name, "-", "-", "-", "-", "-", "-", "cannot be used"))
            continue
        rows.append(
            (
                one.name,
                facts.mesh.category,
                " x ".join(f"{1e3 * side:.4g}" for side in facts.size_m),
                f"{one.guessed_unit}?" if one.guessed_unit else _unit(facts.mesh.unit_m),
                str(facts.faces),
                "yes" if facts.is_closed else "no",
                f"{facts.mass_kg.low:.2g} to {facts.mass_kg.high:.2g}",
                facts.licence or "-",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _unit(metres: float) -> str:
    from sim2cam.scene.asset import METRES

    return next(name for name, length in METRES.items() if length == metres)
