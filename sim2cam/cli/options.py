"""Flags that several commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from sim2cam.cli.console import Console


@dataclass(frozen=True)
class Talk:
    """How much is said."""

    verbose: Annotated[bool, tyro.conf.arg(aliases=["-v"])] = False
    """Say more."""
    quiet: Annotated[bool, tyro.conf.arg(aliases=["-q"])] = False
    """Say nothing but errors."""
    json: bool = False
    """Print the result as JSON on stdout."""

    def console(self) -> Console:
        """Returns the voice that these flags ask for."""
        return Console(-1 if self.quiet else int(self.verbose))


@dataclass(frozen=True)
class Folder:
    """What to do with an output folder that is not empty."""

    resume: bool = False
    """Go on with what is there."""
    overwrite: bool = False
    """Remove what is there."""
