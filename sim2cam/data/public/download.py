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
from sim2cam.files import writing

STALL_S = 30.0
"""A server that says nothing for so long is given up."""
PACE_S, LEAST_PACE = 60.0, 1000
"""So is one that sends fewer bytes a second than this for so long."""

_CHUNK = 1 << 16
_AGAIN = "Run the same command again to go on from there."

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Source:
    """A file to download.

    Attributes:
        url: where it is, https.
        most_bytes: it may have.
        sha256: of it, where that is known beforehand.
        size: how many bytes it has, where that is known.
    """

    url: str
    most_bytes: int
    sha256: str | None = None
    size: int | None = None


class _Pace:
    """How fast a server sends."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._since, self._received = time.monotonic(), 0

    def told(self, received: int) -> None:
        """Gives up a server whose last bytes took too long.

        Args:
            received: how many bytes came now.
        """
        self._received += received
        if (passed := time.monotonic() - self._since) < PACE_S:
            return
        if self._received < LEAST_PACE * passed:
            raise InputError(
                self._url,
                f"sent less than {LEAST_PACE} bytes a second for {PACE_S:g} s. {_AGAIN}",
            )
        self._since, self._received = time.monotonic(), 0


class _SameScheme(HTTPRedirectHandler):
    """Follows redirects from https to https alone, so that nothing is read from elsewhere."""

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        if urlsplit(newurl).scheme != urlsplit(req.full_url).scheme:
            raise HTTPError(req.full_url, code, msg, headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(source: Source, path: Path, progress: Progress | None = None) -> str:
    """Returns the SHA-256 of a file after it was downloaded, or was found to be there.

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
        _tag_of(part).unlink(missing_ok=True)
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


def _receive(source: Source, part: Path, progress: Progress) -> None:
    tag = _tag_of(part)
    start = part.stat().st_size if part.is_file() and tag.is_file() else 0
    headers = {"User-Agent": "sim2cam", "Accept-Encoding": "identity"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": tag.read_text()}
    try:
        with _opener().open(Request(source.url, headers=headers), timeout=STALL_S) as answer:  # noqa: S310
            if answer.status != http.client.PARTIAL_CONTENT:
                start = 0
            elif not answer.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                raise InputError(
                    source.url, "sent another range than was asked for. Fetch it again."
                )
            _keep(source, answer, part, start, progress)
    except HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            part.unlink()
            _receive(source, part, progress)
        elif error.code // 100 == 3:
            kind = urlsplit(source.url).scheme
            problem = f"redirects in circles, or to what is not {kind}. That is not followed."
            raise InputError(source.url, problem) from error
        else:
            problem = f"the server says {error.code} ({error.reason}). Try again later."
            raise InputError(source.url, problem) from error
    except (OSError, http.client.HTTPException) as error:
        raise _broken_off(source, error) from error


def _keep(source: Source, answer: Any, part: Path, start: int, progress: Progress) -> None:
    """Writes what a server sends behind what is there already."""
    left = answer.headers.get("Content-Length", "")
    total = start + int(left) if left.isdecimal() else None
    if total is not None and total > source.most_bytes:
        _refuse_size(source, part)
    tag = answer.headers.get("ETag", "")
    _tag_of(part).unlink(missing_ok=True)
    if tag.startswith('"'):  # a weak one does not promise the same bytes
        _tag_of(part).write_text(tag)
    done, pace = start, _Pace(source.url)
    with writing(part), part.open("ab" if start else "wb") as file:
        while chunk := _next_chunk(source, answer):
            done += len(chunk)
            if done > source.most_bytes:
                break
            file.write(chunk)
            pace.told(len(chunk))
            progress(done, total or source.most_bytes)
    if done > source.most_bytes:
        _refuse_size(source, part)
    if total is not None and done < total:
        raise InputError(source.url, f"broke off after {done} of {total} bytes. {_AGAIN}")


def _next_chunk(source: Source, answer: Any) -> bytes:
    try:
        return bytes(answer.read1(_CHUNK))
    except (OSError, http.client.HTTPException) as error:
        raise _broken_off(source, error) from error  # an OSError would look like one of writing


def _broken_off(source: Source, error: Exception) -> InputError:
    if isinstance(error, TimeoutError):
        return InputError(source.url, f"sent nothing for {STALL_S:g} s. {_AGAIN}")
    reason = getattr(error, "reason", error)
    return InputError(source.url, f"cannot be reached ({reason}). {_AGAIN}")


def _refuse_size(source: Source, part: Path) -> None:
    part.unlink(missing_ok=True)
    problem = f"is larger than {source.most_bytes} bytes, which it should not be. It was exchanged."
    raise InputError(source.url, problem)


def _tag_of(part: Path) -> Path:
    return part.with_name(f"{part.name}.tag")


def _opener() -> OpenerDirector:
    return build_opener(_SameScheme)
