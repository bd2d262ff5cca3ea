"""Recipe files, by path or by the name of a shipped recipe."""

from __future__ import annotations

from pathlib import Path

from sim2cam.data.parsing import is_file
from sim2cam.errors import UsageError, suggest_closest, suggest_name

FOLDER = Path(__file__).parents[1] / "recipes"


def find_recipe(name_or_path: str, pattern: str = "*.toml") -> Path:
    """Return the file of a recipe.

    Args:
        name_or_path: Shipped name or path.
        pattern: Shipped files that are candidates.

    Raises:
        UsageError: If the recipe does not exist.
    """
    path = Path(name_or_path)
    if path.suffix == ".toml":
        if is_file(path):
            return path
        raise UsageError(f"{path}: no such recipe file. {_suggest_file(path)}".rstrip())
    if path.suffix and (hint := _suggest_file(path)):
        raise UsageError(f"{path}: no such recipe file. {hint}")
    shipped = {p.stem: p for p in FOLDER.glob(pattern)}
    if name_or_path not in shipped:
        raise UsageError(
            f"no recipe '{name_or_path}'. {suggest_name(name_or_path, shipped)}; or give a .toml file."
        )
    return shipped[name_or_path]


def _suggest_file(path: Path) -> str:
    return suggest_closest(path.name, (file.name for file in path.parent.glob("*.toml")))
