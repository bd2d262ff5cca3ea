"""Pictures of the user's as specs: which file, and what it held when it was brought in."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sim2cam.errors import SpecError


@dataclass(frozen=True)
class ImageFile:
    """A picture that has to be what it was when it was brought in.

    Attributes:
        path: of the file; in a record its name among the recipe's pictures.
        digest: SHA-256 of its bytes.
    """

    path: str
    digest: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9a-f]{64}", self.digest):
            raise SpecError(f"'{self.digest[:80]}' is no SHA-256.")
