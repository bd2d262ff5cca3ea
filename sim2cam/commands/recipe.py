"""Command ``recipe``: reference of the keys of recipes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from sim2cam.commands.options import Option, OutputOptions
from sim2cam.commands.results import Result

if TYPE_CHECKING:
    from sim2cam.pipeline.recipe_reference import KeyReference, TableReference

_WIDTH = 80


@dataclass(frozen=True)
class Recipe:
    """Explain the keys of recipes: unit, values, default.

    Without --explain, lists the tables of recipes and the kinds of distributions.
    """

    explain: Annotated[str | None, Option("PATH")] = None
    """Table or key, such as train, domain.light, light/warmth, adapt.certificate or uniform."""
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> RecipeReference:
        """Return the reference."""
        from sim2cam.pipeline.recipe_reference import find_entries, list_distributions, list_tables

        if self.explain is None:
            return RecipeReference((*list_tables(), *list_distributions()), is_overview=True)
        return RecipeReference(find_entries(self.explain))


@dataclass(frozen=True)
class RecipeReference(Result):
    """Reference of tables of recipes.

    Attributes:
        tables: Tables with their keys.
        is_overview: Whether the text lists tables without their keys.
    """

    tables: tuple[TableReference, ...]
    is_overview: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return tables and keys."""
        return {"tables": [asdict(table) for table in self.tables]}

    def to_text(self) -> str:
        """Return the keys of each table, or a line per table."""
        if self.is_overview:
            return "\n".join(map(_format_overview_line, self.tables))
        return "\n\n".join("\n".join(_format_table(table)) for table in self.tables)

    @property
    def next_step(self) -> str:
        """Command that explains one table."""
        return "sim2cam recipe --explain domain.light" if self.is_overview else ""


def _name_table(table: TableReference) -> str:
    return table.path or "(top of the file)"


def _format_overview_line(table: TableReference) -> str:
    name = f"{_name_table(table):<24} "
    return name + textwrap.shorten(table.meaning, _WIDTH - len(name), placeholder=" …")


def _format_table(table: TableReference) -> Iterator[str]:
    yield _name_table(table)
    yield from textwrap.wrap(table.meaning, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    for key in table.keys:
        yield from _format_key(key)


def _format_key(key: KeyReference) -> Iterator[str]:
    """Yield name, unit, values and default in a line, and the meaning below it."""
    default = f"default: {key.default}" if key.default else "required"
    facts = "; ".join(filter(None, (key.values.replace("`", ""), key.unit, default)))
    yield from textwrap.wrap(
        f"{key.name}: {facts}", _WIDTH, initial_indent="  ", subsequent_indent="      "
    )
    yield from textwrap.wrap(
        key.meaning, _WIDTH, initial_indent="      ", subsequent_indent="      "
    )
