"""Verdict in words: findings with what to do about them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["good", "note", "problem", "warning", "next"]


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

    def to_text(self) -> str:
        """Return a line for each finding but the warnings, which commands print by themselves."""
        return "\n".join(f"- {f}" for f in self.findings if f.severity != "warning")
