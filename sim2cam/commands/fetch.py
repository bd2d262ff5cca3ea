"""Command ``fetch``: public datasets for recipes and benchmarks, and background images."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sim2cam.commands.options import Argument, OutputOptions
from sim2cam.commands.results import Result, format_command
from sim2cam.errors import UsageError, suggest_name

if TYPE_CHECKING:
    from sim2cam.data.public.catalogue import PublicDataset
    from sim2cam.data.public.fetch import FetchResult


@dataclass(frozen=True)
class Fetch:
    """Download a public dataset, or make background images."""

    name: Annotated[str, Argument("NAME")]
    """dice: photos of dice with boxes. lmo, lm, tless, tudl, icbin, ycbv: BOP test images with poses and meshes. backgrounds: photographs and skies from installed environment maps. coco-val2017: photos for backgrounds."""
    accept_licence: bool = False
    """Accept the licence without a prompt."""
    overwrite: bool = False
    """Download again if the dataset exists."""
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> FetchedDataset | FetchedBackgrounds:
        """Download the dataset, or make the background images."""
        from sim2cam.data.data_folder import locate_data_folder
        from sim2cam.data.public.catalogue import PUBLIC_DATASETS
        from sim2cam.data.public.fetch import fetch
        from sim2cam.pipeline.background_images import BACKGROUNDS

        if self.name == BACKGROUNDS:
            return self._make_backgrounds()
        if self.name not in PUBLIC_DATASETS:
            hint = suggest_name(self.name, (*PUBLIC_DATASETS, BACKGROUNDS))
            raise UsageError(f"unknown dataset '{self.name}'. {hint}")
        dataset, root = PUBLIC_DATASETS[self.name], locate_data_folder()
        console = self.output.make_console()
        if self.overwrite or not (root / self.name).is_dir():
            console.info(
                f"{dataset.description}.\nBy {dataset.credit}.\nLicence: {dataset.licence}."
            )
            if not self.accept_licence:
                _confirm_licence(dataset)
        with console.show_progress() as progress:
            download = fetch(dataset, root, overwrite=self.overwrite, progress=progress)
        for url, digest in download.digests.items():
            status = (
                "not verified, stored for the next download"
                if url in download.new_urls
                else "verified"
            )
            console.info(f"{url}: SHA-256 {digest}, {status}.")
        if download.verified_count:
            console.info(f"{download.verified_count} files match their recorded SHA-256.")
        return FetchedDataset(self.name, download)

    def _make_backgrounds(self) -> FetchedBackgrounds:
        from sim2cam.assets.package_files import BLENDER_DATA, PMNDRS_ASSETS, find_panoramas
        from sim2cam.data.data_folder import locate_data_folder
        from sim2cam.pipeline.background_images import BACKGROUNDS, write_background_images

        folder = locate_data_folder() / BACKGROUNDS
        if folder.is_dir() and not self.overwrite:
            return FetchedBackgrounds(folder, None)
        panoramas = find_panoramas()
        if not panoramas:
            raise UsageError(
                f"no environment maps are installed. Install {BLENDER_DATA} (Debian) or {PMNDRS_ASSETS} (npm), or "
                "download photos: sim2cam fetch coco-val2017."
            )
        console = self.output.make_console()
        for licence, author in sorted({(p.source.licence, p.source.author) for p in panoramas}):
            console.info(f"Environment maps by {author}, licence {licence}.")
        with console.show_progress("maps") as progress:
            count = write_background_images(panoramas, folder, progress=progress("maps"))
        return FetchedBackgrounds(folder, count)


@dataclass(frozen=True)
class FetchedDataset(Result):
    """Downloaded dataset."""

    name: str
    download: FetchResult

    def to_json(self) -> dict[str, Any]:
        """Return the folder and the digests."""
        return self.download.to_json()

    def summary(self) -> str:
        """Return the folder of the dataset."""
        state = "downloaded to" if self.download.digests else "already exists in"
        return f"{self.name} {state} {self.download.folder}"

    @property
    def next_step(self) -> str:
        """Command that shows the dataset."""
        return format_command("inspect", self.download.folder)


@dataclass(frozen=True)
class FetchedBackgrounds(Result):
    """Background images from environment maps; ``count`` is None if they existed before."""

    folder: Path
    count: int | None

    def summary(self) -> str:
        """Return the number and the folder of the images."""
        if self.count is None:
            return f"background images already exist in {self.folder}"
        return f"{self.count} background images: {self.folder}"

    @property
    def next_step(self) -> str:
        """Command that trains with them."""
        return format_command("train", "RECIPE", "--data", "DATA", "--out", "run")


def _confirm_licence(dataset: PublicDataset) -> None:
    """Raise UsageError unless the user accepts the licence at the prompt."""
    if not sys.stdin.isatty():
        raise UsageError(
            f"add --accept-licence to download {dataset.name} ({dataset.licence}) without a terminal."
        )
    sys.stderr.write("Do you accept it? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError(f"the licence of {dataset.name} was not accepted; nothing is downloaded.")
