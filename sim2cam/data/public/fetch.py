"""Fetching: downloaded, unpacked, arranged, and only then where it is looked for."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sim2cam.data.parsing import format_validation_error, read_json
from sim2cam.data.public.archive import unpack
from sim2cam.data.public.catalogue import PublicDataset
from sim2cam.data.public.checksums import verify_checksums
from sim2cam.data.public.download import Progress, download
from sim2cam.data.writer import write_json
from sim2cam.errors import InputError
from sim2cam.files import convert_write_errors

_MAX_BYTES = 1_000_000
_DIGESTS_ADAPTER: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


@dataclass(frozen=True)
class FetchResult:
    """A data set that is there.

    Attributes:
        folder: where it lies.
        digests: SHA-256 of each file that it was made of, by its address; empty when nothing was
            fetched, as it was there already.
        new_urls: addresses whose digest was not known before.
        verified_count: how many of its files were compared with what is known of them.
    """

    folder: Path
    digests: dict[str, str]
    new_urls: tuple[str, ...]
    verified_count: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
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
    progress: Callable[[str], Progress] | None = None,
) -> FetchResult:
    """Return a data set after bringing it into a folder, whole or not at all.

    The digests of what it is made of are kept beside it, in ``NAME.fetched.json``. Where one differs
    from then, or from one that is known beforehand, nothing is changed; where one of its files does, what was
    downloaded is removed too.

    Args:
        dataset: one of ``PUBLIC_DATASETS``.
        root: of all data sets.
        overwrite: fetch what is there already, and put it in place of that.
        progress: returns what is told of the bytes of a file, by its name.

    Raises:
        InputError: a file cannot be had, or is not what it should be.
        OutputError: the folder cannot be written.
    """
    folder, record = root / dataset.name, root / f"{dataset.name}.fetched.json"
    if folder.is_dir() and not overwrite:
        return FetchResult(folder, {}, ())
    known = _read_digests(record)
    work = root / f".{dataset.name}.part"
    with convert_write_errors(work):
        work.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(work / "unpacked", ignore_errors=True)
        shutil.rmtree(work / "whole", ignore_errors=True)
    digests: dict[str, str] = {}
    for source, into in dataset.archives:
        name = source.url.rsplit("/", 1)[-1]
        archive = work / name
        digest = download(source, archive, progress(f"{name}, bytes") if progress else None)
        if known.get(source.url, digest) != digest:
            archive.unlink()
            raise InputError(
                source.url,
                f"has the SHA-256 {digest}, but had {known[source.url]} when it was fetched before. If "
                f"that change is wanted, remove {record}.",
            )
        digests[source.url] = digest
        try:
            unpack(archive, work / "unpacked" / into)
        except InputError:
            archive.unlink()  # or it would be found again, as broken, the next time
            raise
    checked = _arrange_files(dataset, work)
    with convert_write_errors(folder):
        if folder.is_dir():
            folder.rename(work / "old")
        (work / "whole").rename(folder)
        shutil.rmtree(work)
    write_json(record, digests)
    given = {source.url for source, _ in dataset.archives if source.sha256}
    new = tuple(url for url in digests if url not in known and url not in given)
    return FetchResult(folder, digests, new, checked)


def _arrange_files(dataset: PublicDataset, work_dir: Path) -> int:
    """Return how many files of a data set are those that are known, after arranging what was unpacked.

    What was downloaded is removed where it is not what it should be, or it would be found again.
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
    """Return the digests of the first fetch by address; none before it."""
    if not path.is_file():
        return {}
    try:
        return _DIGESTS_ADAPTER.validate_python(read_json(path, _MAX_BYTES, "list of digests"))
    except ValidationError as error:
        raise InputError(path, f"{format_validation_error(error)}. Remove the file.") from error
