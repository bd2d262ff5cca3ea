"""Weights that ship with sim2cam, by name."""

from __future__ import annotations

from pathlib import Path

from sim2cam.errors import UsageError, suggest_name

WEIGHTS_FOLDER = Path(__file__).with_name("weights")


def resolve_weights(name_or_path: Path) -> Path:
    """Return the weights file of a path, or of a shipped name.

    Raises:
        UsageError: if no shipped weights have the name.
    """
    if name_or_path.suffix or name_or_path.parent != Path() or name_or_path.exists():
        return name_or_path
    shipped = {path.stem: path for path in WEIGHTS_FOLDER.glob("*.safetensors")}
    if name_or_path.name not in shipped:
        hint = suggest_name(name_or_path.name, shipped)
        raise UsageError(f"no file or shipped weights '{name_or_path}'. {hint}")
    return shipped[name_or_path.name]
