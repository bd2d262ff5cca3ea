"""The command that brings public data sets to where recipes and benchmarks look for them."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import tyro

from sim2cam.commands.options import OutputOptions
from sim2cam.errors import UsageError, suggest_name

if TYPE_CHECKING:
    from sim2cam.data.public.catalogue import PublicDataset


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
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Print where it lies."""
        from sim2cam.data.data_folder import locate_data_folder
        from sim2cam.data.public.catalogue import PUBLIC_DATASETS
        from sim2cam.data.public.fetch import fetch

        if self.name not in PUBLIC_DATASETS:
            raise UsageError(
                f"no data set is called '{self.name}'. {suggest_name(self.name, PUBLIC_DATASETS)}"
            )
        data_set, root = PUBLIC_DATASETS[self.name], locate_data_folder()
        console = self.output.make_console()
        if self.overwrite or not (root / self.name).is_dir():
            console.info(
                f"{data_set.description}.\nBy {data_set.credit}.\nLicence: {data_set.licence}."
            )
            if not self.accept_licence:
                _confirm_licence(data_set)
        found = fetch(data_set, root, overwrite=self.overwrite, progress=console.start_progress)
        for url, digest in found.digests.items():
            known = (
                "not compared with anything, kept for next time"
                if url in found.new_urls
                else "as known"
            )
            console.info(f"{url}: SHA-256 {digest}, {known}.")
        if found.verified_count:
            console.info(f"{found.verified_count} of its files are those that are known.")
        words = "is in" if found.digests else "was there already, in"
        self.output.report(f"{self.name} {words} {found.folder}", **found.to_json())


def _confirm_licence(dataset: PublicDataset) -> None:
    """Refuse to go on unless whoever sits before the terminal accepts the licence.

    Raises:
        UsageError: they do not, or nobody can be asked.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            f"--accept-licence is needed to fetch {dataset.name} ({dataset.licence}) where nobody can "
            "be asked."
        )
    sys.stderr.write("Do you accept it? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError(f"the licence of {dataset.name} was not accepted, so nothing was fetched.")
