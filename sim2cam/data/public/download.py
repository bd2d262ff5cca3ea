"""Downloads with size limits, resumption and verification."""

from __future__ import annotations

import hashlib
import http.client
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from sim2cam.errors import InputError
from sim2cam.files import convert_write_errors
from sim2cam.progress import Progress, ignore_progress

STALL_S = 30.0
"""Timeout for a server that sends nothing."""
RATE_WINDOW_S = 60.0
MIN_BYTES_PER_S = 1000
"""Minimum rate, averaged over ``RATE_WINDOW_S``; slower downloads are aborted."""

_CHUNK_BYTES = 1 << 16
_RESUME_HINT = "Run the same command again to resume."


@dataclass(frozen=True)
class Source:
    """A file to download."""

    url: str
    max_bytes: int
    sha256: str | None = None
    size: int | None = None


class _RateMonitor:
    def __init__(self, url: str) -> None:
        self._url = url
        self._window_start, self._received = time.monotonic(), 0

    def update(self, received: int) -> None:
        """Raise InputError if the rate of the last window is too low."""
        self._received += received
        if (elapsed_s := time.monotonic() - self._window_start) < RATE_WINDOW_S:
            return
        if self._received < MIN_BYTES_PER_S * elapsed_s:
            raise InputError(
                self._url,
                f"sent less than {MIN_BYTES_PER_S} bytes a second for {RATE_WINDOW_S:g} s. {_RESUME_HINT}",
            )
        self._window_start, self._received = time.monotonic(), 0


class _SameSchemeRedirectHandler(HTTPRedirectHandler):
    """Handler that refuses redirects to another scheme, as from https to http."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        if urlsplit(newurl).scheme != urlsplit(req.full_url).scheme:
            raise HTTPError(req.full_url, code, msg, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(source: Source, path: Path, progress: Progress = ignore_progress) -> str:
    """Download a file unless it exists, and return its SHA-256.

    A partial download is kept as ``.part`` and resumed if the file on the server is unchanged.

    Raises:
        InputError: If the server fails or is too slow, or the file is too large or has another size or digest.
        OutputError: If the file cannot be written.
    """
    partial_path = path.with_name(f"{path.name}.part")
    if not path.is_file():
        with convert_write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        _receive(source, partial_path, progress)
        partial_path.replace(path)
        _locate_etag(partial_path).unlink(missing_ok=True)
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    size = path.stat().st_size
    if source.size not in (None, size):
        path.unlink()
        raise InputError(
            source.url,
            f"has {size} bytes, not {source.size}. It is damaged or has changed. Fetch it again.",
        )
    if source.sha256 not in (None, sha256):
        path.unlink()
        raise InputError(
            source.url,
            f"has the SHA-256 {sha256}, not {source.sha256}. It is damaged or has changed. Fetch it again.",
        )
    return sha256


def _receive(source: Source, partial_path: Path, progress: Progress) -> None:
    etag_path = _locate_etag(partial_path)
    start = partial_path.stat().st_size if partial_path.is_file() and etag_path.is_file() else 0
    headers = {"User-Agent": "sim2cam", "Accept-Encoding": "identity"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": etag_path.read_text()}
    try:
        request = Request(source.url, headers=headers)  # noqa: S310
        with build_opener(_SameSchemeRedirectHandler).open(request, timeout=STALL_S) as response:
            if response.status != http.client.PARTIAL_CONTENT:
                start = 0
            elif not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                raise InputError(source.url, "sent another range than requested. Fetch it again.")
            _append_response(source, response, partial_path, start, progress)
    except HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            partial_path.unlink()
            _receive(source, partial_path, progress)
        elif error.code // 100 == 3:
            scheme = urlsplit(source.url).scheme
            problem = (
                f"redirects in a cycle or to a scheme other than {scheme}, which is not followed."
            )
            raise InputError(source.url, problem) from error
        else:
            problem = f"the server returned {error.code} ({error.reason}). Try again later."
            raise InputError(source.url, problem) from error
    except (OSError, http.client.HTTPException) as error:
        raise _build_connection_error(source, error) from error


def _append_response(
    source: Source, response: Any, partial_path: Path, start: int, progress: Progress
) -> None:
    content_length = response.headers.get("Content-Length", "")
    total = start + int(content_length) if content_length.isdecimal() else None
    if total is not None and total > source.max_bytes:
        _reject_size(source, partial_path)
    etag = response.headers.get("ETag", "")
    with convert_write_errors(partial_path):
        _locate_etag(partial_path).unlink(missing_ok=True)
        if etag.startswith('"'):  # weak tags do not guarantee equal bytes
            _locate_etag(partial_path).write_text(etag)
    received, monitor = start, _RateMonitor(source.url)
    with convert_write_errors(partial_path), partial_path.open("ab" if start else "wb") as file:
        while chunk := _read_chunk(source, response):
            received += len(chunk)
            if received > source.max_bytes:
                break
            file.write(chunk)
            monitor.update(len(chunk))
            progress(received, total or source.max_bytes)
    if received > source.max_bytes:
        _reject_size(source, partial_path)
    if total is not None and received < total:
        raise InputError(source.url, f"stopped after {received} of {total} bytes. {_RESUME_HINT}")


def _read_chunk(source: Source, response: Any) -> bytes:
    try:
        return bytes(response.read1(_CHUNK_BYTES))
    except (OSError, http.client.HTTPException) as error:
        # An OSError would be taken for a write error.
        raise _build_connection_error(source, error) from error


def _build_connection_error(source: Source, error: Exception) -> InputError:
    if isinstance(error, TimeoutError):
        return InputError(source.url, f"sent nothing for {STALL_S:g} s. {_RESUME_HINT}")
    reason = getattr(error, "reason", error)
    return InputError(source.url, f"cannot be reached ({reason}). {_RESUME_HINT}")


def _reject_size(source: Source, partial_path: Path) -> None:
    partial_path.unlink(missing_ok=True)
    problem = f"is larger than {source.max_bytes} bytes, so it has changed."
    raise InputError(source.url, problem)


def _locate_etag(partial_path: Path) -> Path:
    return partial_path.with_name(f"{partial_path.name}.tag")
