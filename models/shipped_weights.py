"""Weights that ship by name: in the package, or as a download at the first use."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from filelock import FileLock

from sim2cam.data.cache import get_cache_folder
from sim2cam.errors import BackendError, InputError, UsageError, suggest_name
from sim2cam.files import convert_write_errors, write_atomic
from sim2cam.version import __version__

SHIPPED_WEIGHTS = Path(__file__).with_name("weights")

_SUFFIX = ".safetensors"
_DOWNLOADS = {
    "lmo": (10_737_718, "665f78d188b392ba9c82e7f11e0866641160f0d602d2a60065f9e9eeb1eb9c78"),
}
"""Size in bytes and SHA-256 of weights files that the wheel lacks; the wheel has their cards."""


def resolve_weights(name_or_path: Path) -> Path:
    """Return the weights file of a path, or of a shipped name, which may be downloaded.

    Raises:
        UsageError: if no shipped weights have the name.
        BackendError: if weights that the package lacks cannot be downloaded.
    """
    if name_or_path.suffix or name_or_path.parent != Path() or name_or_path.exists():
        return name_or_path
    shipped = list_shipped_weights()
    if name_or_path.name not in shipped:
        hint = suggest_name(name_or_path.name, shipped)
        raise UsageError(f"no file or shipped weights '{name_or_path}'. {hint}")
    return locate_shipped_weights(name_or_path.name)


def list_shipped_weights() -> list[str]:
    """Return the names of the weights that ship."""
    files = {path.stem for path in SHIPPED_WEIGHTS.glob(f"*{_SUFFIX}")}
    return sorted(files | _DOWNLOADS.keys())


def locate_shipped_weights(name: str) -> Path:
    """Return the weights file of a shipped name; download it to the cache if the package lacks it.

    Raises:
        BackendError: if the file cannot be downloaded, or has another size or digest.
        OutputError: if the cache is not writable.
    """
    packaged = SHIPPED_WEIGHTS / f"{name}{_SUFFIX}"
    return packaged if packaged.is_file() else _download_weights(packaged)


def _download_weights(packaged: Path) -> Path:
    from sim2cam.data.public.download import Source, download

    size, sha256 = _DOWNLOADS[packaged.stem]
    path = get_cache_folder() / "weights" / sha256 / packaged.name
    with convert_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    card = packaged.with_suffix(".json").read_bytes()
    with FileLock(path.with_suffix(".lock")):  # processes of one training ask at the same time
        try:
            download(Source(_make_url(packaged.name), size, sha256, size), path)
        except InputError as error:
            raise BackendError(
                f"the weights '{packaged.stem}' ({size / 1e6:.1f} MB) are not part of the package and cannot be "
                f"downloaded: {error} Connect to the network, or copy the file from another computer to {path}."
            ) from error
        if not path.with_suffix(".json").is_file():
            write_atomic(path.with_suffix(".json"), card)
    return path


def _make_url(file_name: str) -> str:
    """Return the URL of a weights file of this version, in the repository that the package names."""
    entries = metadata.metadata("sim2cam").get_all("Project-URL", ())
    urls = dict(entry.split(", ", 1) for entry in entries)
    return f"{urls['Repository']}/raw/v{__version__}/models/weights/{file_name}"
