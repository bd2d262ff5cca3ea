"""Fetching of public datasets: download, unpack, arrange and move into place."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from sim2cam.data.parsing import convert_validation_errors, read_json
from sim2cam.data.public.archive import unpack
from sim2cam.data.public.catalogue import PublicDataset
from sim2cam.data.public.checksums import verify_checksums
from sim2cam.data.public.download import download
from sim2cam.data.writer import write_json
from sim2cam.errors import InputError
from sim2cam.files import convert_write_errors
from sim2cam.progress import Progress, Stages, ignore_progress

_MAX_BYTES = 1_000_000
_DIGESTS_ADAPTER: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


@dataclass(frozen=True)
class FetchResult:
    """Result of a fetch."""

    folder: Path
    digests: dict[str, str]
    new_urls: tuple[str, ...]
    verified_count: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "folder": str(self.folder),
            "digests": self.digests,
            "new_urls": list(self.new_urls),
            "verified_count": self.verified_count,
        }


def fetch(
    dataset: PublicDataset,
    root: Path,
    *,
    overwrite: bool = False,
    progress: Stages = lambda _: ignore_progress,
) -> FetchResult:
    """Fetch a dataset into a folder, atomically.

    The digests of the archives are recorded in ``NAME.fetched.json``. If an archive differs from its record or
    expected digest, nothing is changed. If an arranged file differs from its checksum, the downloads are removed.

    Raises:
        InputError: If a file is not available or differs from its digest.
        OutputError: If the folder is not writable.
    """
    folder, record = root / dataset.name, root / f"{dataset.name}.fetched.json"
    if folder.is_dir() and not overwrite:
        return FetchResult(folder, {}, ())
    recorded_digests = _read_digests(record)
    work = root / f".{dataset.name}.part"
    with convert_write_errors(work):
        work.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(work / "unpacked", ignore_errors=True)
        shutil.rmtree(work / "whole", ignore_errors=True)
    digests: dict[str, str] = {}
    for source, subfolder in dataset.archives:
        name = source.url.rsplit("/", 1)[-1]
        archive = work / name
        digest = download(source, archive, _count_megabytes(progress(f"{name}, MB")))
        if recorded_digests.get(source.url, digest) != digest:
            archive.unlink()
            raise InputError(
                source.url,
                f"has the SHA-256 {digest}, but had {recorded_digests[source.url]} at the last fetch. To accept the "
                f"change, remove {record}.",
            )
        digests[source.url] = digest
        try:
            unpack(archive, work / "unpacked" / subfolder)
        except InputError:
            archive.unlink()  # forces a new download
            raise
    verified_count = _arrange_files(dataset, work)
    with convert_write_errors(folder):
        if folder.is_dir():
            folder.rename(work / "old")
        (work / "whole").rename(folder)
        shutil.rmtree(work)
    write_json(record, digests)
    urls_with_digest = {source.url for source, _ in dataset.archives if source.sha256}
    new_urls = tuple(
        url for url in digests if url not in recorded_digests and url not in urls_with_digest
    )
    return FetchResult(folder, digests, new_urls, verified_count)


def _count_megabytes(progress: Progress) -> Progress:
    def count(done: int, total: int, /, detail: str = "") -> None:
        progress(done // 1_000_000, -(-total // 1_000_000))

    return count


def _arrange_files(dataset: PublicDataset, work_dir: Path) -> int:
    """Arrange the unpacked files and return the number of verified files.

    The downloads are removed if a check fails, so that the next fetch starts over.
    """
    try:
        dataset.arrange(work_dir / "unpacked", work_dir / "whole")
        return (
            0
            if dataset.checksum_list is None
            else verify_checksums(work_dir / "whole", dataset.checksum_list)
        )
    except InputError:
        shutil.rmtree(work_dir)
        raise


def _read_digests(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    with convert_validation_errors(path, "Remove the file."):
        return _DIGESTS_ADAPTER.validate_python(read_json(path, _MAX_BYTES, "list of digests"))
