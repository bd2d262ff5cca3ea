"""Image files of a scene with the digest of their content."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sim2cam.errors import SpecError


@dataclass(frozen=True)
class ImageFile:
    """An image file whose content must not change.

    Attributes:
        path: Path of the file; in a record its name among the recipe's images.
        digest: SHA-256 of its bytes.
    """

    path: str
    digest: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9a-f]{64}", self.digest):
            raise SpecError(f"'{self.digest[:80]}' is not a SHA-256 digest.")
