"""The command that shows what a recipe draws."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from sim2cam.cli.options import Talk, check_numbers
from sim2cam.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from sim2cam.pipeline.recipe import Recipe
    from sim2cam.randomize.survey import FactorSurvey
    from sim2cam.report.domain import Pictures


@dataclass(frozen=True)
class Domain:
    """Draw many scenes of a recipe and write a page of what was drawn against what was asked."""

    what: Annotated[tyro.conf.Positional[Literal["show"]], tyro.conf.arg(metavar="show")]
    """What to do."""
    recipe: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECIPE")]
    """Name of a shipped recipe (dice), or a .toml file."""
    count: int = 200
    """Number of scenes that are drawn."""
    pictures: Annotated[str, tyro.conf.arg(metavar="GROUPS")] = "light,exposure,view"
    """Comma-separated groups whose ends are shown in pictures; all, or none."""
    out: Path | None = None
    """The page; without it NAME-domain.html here."""
    seed: int = 0
    """Decides every draw."""
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Writes the page."""
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.randomize.survey import survey
        from sim2cam.report.domain import write_domain_page

        if self.count < 1:
            raise UsageError(f"--count must be 1 or more, not {self.count}")
        check_numbers(seed=self.seed)
        recipe = load_recipe(self.recipe)
        factors = survey(recipe.domain, self.seed, count=self.count, views=1)
        pictures = self._pictures(recipe, factors)
        out = self.out or Path(f"{recipe.name}-domain.html")
        page = write_domain_page(recipe.name, self.count, factors, pictures, out)
        self.talk.tell(f"page: {page}", page=str(page))

    def _pictures(self, recipe: Recipe, factors: tuple[FactorSurvey, ...]) -> Pictures:
        from sim2cam.pipeline.ends import ends_of, pictures_at_ends
        from sim2cam.randomize.distributions import case_name

        chosen = [factor for factor in factors if factor.group in self._groups(factors)]
        total = sum(len(ends_of(factor)) for factor in chosen)
        progress = self.talk.console().progress("pictures")
        found = defaultdict(list)
        for done, picture in enumerate(pictures_at_ends(recipe, self.seed, chosen), start=1):
            progress(done, total)
            if picture is not None:
                value = picture.value
                text = f"{value:.4g}" if isinstance(value, float) else case_name(value)
                found[picture.group, picture.factor].append((text, picture.rgb))
        return found

    def _groups(self, factors: tuple[FactorSurvey, ...]) -> set[str]:
        known = dict.fromkeys(factor.group for factor in factors)
        if self.pictures in ("all", "none"):
            return set(known) if self.pictures == "all" else set()
        names = {name for name in self.pictures.split(",") if name}
        for name in names - set(known):
            raise UsageError(f"--pictures: unknown group '{name}'. {did_you_mean(name, known)}")
        return names
