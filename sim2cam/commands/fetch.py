"""The command that brings public data sets to where recipes and benchmarks look for them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import tyro

from sim2cam.commands.options import Talk
from sim2cam.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from sim2cam.data.public.catalogue import DataSet


@dataclass(frozen=True)
class Fetch:
    """Download a public data set: dice, or one of BOP. Its licence is shown first."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """dice: photos of dice, with boxes. lmo, lm, tless, tudl, icbin, ycbv: test images of BOP, with poses and
    meshes."""
    accept_licence: bool = False
    """Do not ask whether the licence is accepted."""
    overwrite: bool = False
    """Fetch it again if it is there."""
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Prints where it lies."""
        from sim2cam.data.data_folder import data_folder
        from sim2cam.data.public.catalogue import DATA_SETS
        from sim2cam.data.public.fetch import fetch

        if self.name not in DATA_SETS:
            raise UsageError(
                f"no data set is called '{self.name}'. {did_you_mean(self.name, DATA_SETS)}"
            )
        data_set, root = DATA_SETS[self.name], data_folder()
        console = self.talk.console()
        if self.overwrite or not (root / self.name).is_dir():
            console.say(f"{data_set.about}.\nBy {data_set.credit}.\nLicence: {data_set.licence}.")
            if not self.accept_licence:
                _ask(data_set)
        found = fetch(data_set, root, overwrite=self.overwrite, progress=console.progress)
        for url, digest in found.digests.items():
            known = (
                "not compared with anything, kept for next time" if url in found.new else "as known"
            )
            console.say(f"{url}: SHA-256 {digest}, {known}.")
        if found.checked:
            console.say(f"{found.checked} of its files are those that are known.")
        words = "is in" if found.digests else "was there already, in"
        self.talk.tell(f"{self.name} {words} {found.folder}", **found.to_json())


def _ask(data_set: DataSet) -> None:
    """Refuses to go on unless whoever sits before the terminal accepts the licence.

    Raises:
        UsageError: they do not, or nobody can be asked.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            f"--accept-licence is needed to fetch {data_set.name} ({data_set.licence}) where nobody can "
            "be asked."
        )
    sys.stderr.write("Do you accept it? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError(
            f"the licence of {data_set.name} was not accepted, so nothing was fetched."
        )
