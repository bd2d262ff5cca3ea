"""Downloads: bounded, resumed where they broke off, and compared with what is known of them."""

from __future__ import annotations

import hashlib
import http.client
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from sim2cam.errors import InputError
from sim2cam.files import convert_write_errors

STALL_S = 30.0
"""A server that says nothing for so long is given up."""
RATE_WINDOW_S, MIN_BYTES_PER_S = 60.0, 1000
"""So is one that sends fewer bytes a second than this for so long."""

_CHUNK_BYTES = 1 << 16
_RESUME_HINT = "Run the same command again to go on from there."

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Source:
    """A file to download.

    Attributes:
        url: where it is, https.
        max_bytes: it may have.
        sha256: of it, where that is known beforehand.
        size: how many bytes it has, where that is known.
    """

    url: str
    max_bytes: int
    sha256: str | None = None
    size: int | None = None


class _RateMonitor:
    """How fast a server sends."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._window_start, self._received = time.monotonic(), 0

    def update(self, received: int) -> None:
        """Give up a server whose last bytes took too long.

        Args:
            received: how many bytes came now.
        """
        self._received += received
        if (passed := time.monotonic() - self._window_start) < RATE_WINDOW_S:
            return
        if self._received < MIN_BYTES_PER_S * passed:
            raise InputError(
                self._url,
                f"sent less than {MIN_BYTES_PER_S} bytes a second for {RATE_WINDOW_S:g} s. {_RESUME_HINT}",
            )
        self._window_start, self._received = time.monotonic(), 0


class _SameSchemeRedirectHandler(HTTPRedirectHandler):
    """Follows redirects from https to https alone, so that nothing is read from elsewhere."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        if urlsplit(newurl).scheme != urlsplit(req.full_url).scheme:
            raise HTTPError(req.full_url, code, msg, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(source: Source, path: Path, progress: Progress | None = None) -> str:
    """Return the SHA-256 of a file after it was downloaded, or was found to be there.

    What broke off lies beside it as ``.part`` and is gone on with, if the server still has the same.

    Args:
        source: what is downloaded.
        path: where it is written.
        progress: is told how many bytes of how many are there.

    Raises:
        InputError: the server does not give it or is too slow, it is larger than allowed, or of another
            size or digest.
        OutputError: it cannot be written.
    """
    part = path.with_name(f"{path.name}.part")
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        _receive(source, part, progress or (lambda *_: None))
        part.replace(path)
        _locate_etag(part).unlink(missing_ok=True)
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    size = path.stat().st_size
    if source.size not in (None, size):
        path.unlink()
        raise InputError(
            source.url,
            f"has {size} bytes, not {source.size}. It was damaged or exchanged. Fetch it again.",
        )
    if source.sha256 not in (None, found):
        path.unlink()
        raise InputError(
            source.url,
            f"has the SHA-256 {found}, not {source.sha256}. It was damaged or exchanged. Fetch it again.",
        )
    return found


def _receive(source: Source, partial_path: Path, progress: Progress) -> None:
    tag = _locate_etag(partial_path)
    start = partial_path.stat().st_size if partial_path.is_file() and tag.is_file() else 0
    headers = {"User-Agent": "sim2cam", "Accept-Encoding": "identity"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": tag.read_text()}
    try:
        with _build_opener().open(Request(source.url, headers=headers), timeout=STALL_S) as answer:  # noqa: S310
            if answer.status != http.client.PARTIAL_CONTENT:
                start = 0
            elif not answer.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                raise InputError(
                    source.url, "sent another range than was asked for. Fetch it again."
                )
            _append_response(source, answer, partial_path, start, progress)
    except HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            partial_path.unlink()
            _receive(source, partial_path, progress)
        elif error.code // 100 == 3:
            kind = urlsplit(source.url).scheme
            problem = f"redirects in circles, or to what is not {kind}. That is not followed."
            raise InputError(source.url, problem) from error
        else:
            problem = f"the server says {error.code} ({error.reason}). Try again later."
            raise InputError(source.url, problem) from error
    except (OSError, http.client.HTTPException) as error:
        raise _build_connection_error(source, error) from error


def _append_response(
    source: Source, response: Any, partial_path: Path, start: int, progress: Progress
) -> None:
    """Write what a server sends behind what is there already."""
    left = response.headers.get("Content-Length", "")
    total = start + int(left) if left.isdecimal() else None
    if total is not None and total > source.max_bytes:
        _reject_size(source, partial_path)
    tag = response.headers.get("ETag", "")
    _locate_etag(partial_path).unlink(missing_ok=True)
    if tag.startswith('"'):  # a weak one does not promise the same bytes
        _locate_etag(partial_path).write_text(tag)
    done, pace = start, _RateMonitor(source.url)
    with convert_write_errors(partial_path), partial_path.open("ab" if start else "wb") as file:
        while chunk := _read_chunk(source, response):
            done += len(chunk)
            if done > source.max_bytes:
                break
            file.write(chunk)
            pace.update(len(chunk))
            progress(done, total or source.max_bytes)
    if done > source.max_bytes:
        _reject_size(source, partial_path)
    if total is not None and done < total:
        raise InputError(source.url, f"broke off after {done} of {total} bytes. {_RESUME_HINT}")


def _read_chunk(source: Source, response: Any) -> bytes:
    try:
        return bytes(response.read1(_CHUNK_BYTES))
    except (OSError, http.client.HTTPException) as error:
        raise _build_connection_error(
            source, error
        ) from error  # an OSError would look like one of writing


def _build_connection_error(source: Source, error: Exception) -> InputError:
    if isinstance(error, TimeoutError):
        return InputError(source.url, f"sent nothing for {STALL_S:g} s. {_RESUME_HINT}")
    reason = getattr(error, "reason", error)
    return InputError(source.url, f"cannot be reached ({reason}). {_RESUME_HINT}")


def _reject_size(source: Source, partial_path: Path) -> None:
    partial_path.unlink(missing_ok=True)
    problem = f"is larger than {source.max_bytes} bytes, which it should not be. It was exchanged."
    raise InputError(source.url, problem)


def _locate_etag(partial_path: Path) -> Path:
    return partial_path.with_name(f"{partial_path.name}.tag")


def _build_opener() -> OpenerDirector:
    return build_opener(_SameSchemeRedirectHandler)
