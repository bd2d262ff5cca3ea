"""Reference of all factors of a domain, from the classes that declare them.

    python docs/factors.py [--check]

Writes ``docs/factors.md``; with ``--check``, fails if it is out of date.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

from sim2cam.files import write_bytes
from sim2cam.objects.kind import (
    ContactFactors,
    DropFactors,
    FlatFactors,
    TumblingFactors,
    list_kinds,
)
from sim2cam.randomize.domain import Domain
from sim2cam.randomize.factors import PER_VIEW_GROUPS, REQUIRED_GROUPS, SINGLETON_GROUPS
from sim2cam.scene.parameters import Parameter, list_parameters

PAGE = Path(__file__).with_name("factors.md")
HEAD = """# Factors

All factors that a recipe can randomize, by group. `python docs/factors.py` writes this page.
Factors without a default are required where the group is used.
"""


def main(arguments: list[str]) -> int:
    """Write the page, or check it."""
    text = build_page().encode()
    if "--check" in arguments:
        return int(PAGE.read_bytes() != text)
    write_bytes(PAGE, text)
    return 0


def build_page() -> str:
    """Return the page as Markdown."""
    groups: dict[str, list[str]] = {}
    for name, parameters in Domain({}).parameters.items():
        heading = "table" if name.endswith("_surface") else name  # surfaces have the same factors
        shared = _SHARED if name in list_kinds() or name == "object" else ()
        groups[heading] = [_format_row(p) for p in parameters.values() if p.name not in shared]
    drop = list_parameters(DropFactors)
    for base, heading in _BASES.items():
        rows = [
            p for p in list_parameters(base).values() if base is DropFactors or p.name not in drop
        ]
        groups[heading] = [_format_row(parameter) for parameter in rows]
    parts = [HEAD]
    for name, rows in groups.items():
        table = ["| factor | values | default | meaning |", "|---|---|---|---|", *rows]
        parts.append(f"## {name}\n\n{_describe_group(name)}\n\n" + "\n".join(table) + "\n")
    return "\n".join(parts)


_BASES: dict[type, str] = {
    DropFactors: "Position, motion and mass",
    TumblingFactors: "Rotation of solid objects",
    FlatFactors: "Rotation of boards and cards",
    ContactFactors: "Contact",
}
"""Factors that many kinds of objects share."""
_SHARED = {name for base in _BASES for name in list_parameters(base)}


def _describe_group(name: str) -> str:
    if name in _BASES.values():
        return "Shared by the groups of objects."
    if name == "table":
        return "Also `mat`, `wall` and every group that ends in `_surface`. Required."
    kinds = list_kinds()
    if name in kinds:
        others = ", ".join(f"`{name}_{suffix}`" for suffix in (*kinds[name].group_types, "surface"))
        return (
            f"Sampled for each of `layout.{name}_count` objects, with {others} and the shared factors at the end "
            "of this page."
        )
    if name in PER_VIEW_GROUPS:
        return "Sampled for each camera." + (" Required." if name in REQUIRED_GROUPS else "")
    if name in SINGLETON_GROUPS:
        return "Sampled once per scene." + (" Required." if name in REQUIRED_GROUPS else "")
    return "Sampled for each instance."


def _format_row(parameter: Parameter) -> str:
    default = "" if parameter.is_required else "omitted"
    if not parameter.is_required and isinstance(parameter.default, bool | int | float | str):
        default = str(parameter.default).lower() if parameter.default != "" else "any"
    name = f"{parameter.name}.NAME" if parameter.is_mapping else parameter.name
    meaning = parameter.documentation.replace("``", "`")
    return f"| `{name}` | {_describe_values(parameter)} | {default} | {meaning} |"


def _describe_values(parameter: Parameter) -> str:
    if parameter.choices:
        listed = parameter.choices if len(parameter.choices) <= 14 else parameter.choices[:4]
        more = "" if len(listed) == len(parameter.choices) else ", …"
        return ", ".join(f"`{choice}`" for choice in listed) + more
    if parameter.type == "boolean":
        return "true, false"
    if parameter.type == "text":
        source = (parameter.source or "text").replace("_", " ")
        return "printable text" if source == "text" else f"name of a {source}"
    kind = "whole " if parameter.type == "integer" else ""
    if math.isinf(parameter.low):
        return f"{kind}number"
    high = "" if math.isinf(parameter.high) else f" to {parameter.high:.6g}"
    return f"{kind}{parameter.low:g}{high or ' or more'}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
