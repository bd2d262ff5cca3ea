"""Verdict in words: findings with what to do about them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["good", "note", "problem", "warning", "next"]

_AND = " && "


@dataclass(frozen=True)
class Finding:
    """One sentence of a verdict.

    Attributes:
        severity: ``warning`` for findings that commands print as they occur, ``next`` for what to do
            next.
        action: Command that helps; None without one.
    """

    text: str
    severity: Severity
    action: str | None = None

    def __str__(self) -> str:
        """Return the sentence with its command."""
        return self.text if self.action is None else f"{self.text} Run: {self.action}"


@dataclass(frozen=True)
class FindingGroup:
    """Findings with one command that helps all of them; None without one."""

    findings: tuple[Finding, ...]
    action: str | None


@dataclass(frozen=True)
class CommandNames:
    """Paths and names in the commands of a verdict; the defaults are placeholders."""

    weights: str = "WEIGHTS"
    recipe: str = "RECIPE"
    images: str = "IMAGES"


@dataclass(frozen=True)
class TrainingAmount:
    """Number of steps and images that a detector was trained for, from scratch."""

    steps: int
    images: int


@dataclass(frozen=True)
class Verdict:
    """Findings in reading order."""

    findings: tuple[Finding, ...]

    def to_json(self) -> list[dict[str, Any]]:
        """Return the findings as JSON values."""
        return [asdict(finding) for finding in self.findings]

    @property
    def groups(self) -> tuple[FindingGroup, ...]:
        """Findings grouped by their command, in the order of the first finding of each group.

        A command that is part of a longer one, joined by ``&&``, belongs to it.
        """
        actions = sorted({f.action for f in self.findings if f.action}, key=len, reverse=True)
        groups: dict[object, list[Finding]] = {}
        for index, finding in enumerate(self.findings):
            owner = next((a for a in actions if _includes(a, finding.action)), None)
            groups.setdefault(owner or index, []).append(finding)
        return tuple(
            FindingGroup(tuple(findings), key if isinstance(key, str) else None)
            for key, findings in groups.items()
        )

    def to_text(self) -> str:
        """Return a line for each finding but the warnings, which commands print by themselves."""
        lines = []
        for group in self.groups:
            lines += [f"- {f.text}" for f in group.findings if f.severity != "warning"]
            lines += [f"  Run: {group.action}"] if group.action else []
        return "\n".join(lines)


def _includes(action: str, part: str | None) -> bool:
    return part is not None and {*part.split(_AND)} <= {*action.split(_AND)}
