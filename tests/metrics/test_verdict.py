"""Verdicts in words."""

from sim2cam.metrics.verdict import Finding, Verdict

TRAIN, RENDER = "sim2cam train dice", "sim2cam render dice && sim2cam train dice"


def test_each_command_is_printed_once_below_its_findings():
    findings = (
        Finding("Misses half.", "problem", RENDER),
        Finding("Has no command.", "note"),
        Finding("Confuses.", "problem", TRAIN),  # the longer command includes it
        Finding("Duplicates.", "note", RENDER),
        Finding("Printed before.", "warning"),
        Finding("Boxes are large.", "problem", "sim2cam tune dice"),
    )
    assert Verdict(findings).to_text().splitlines() == [
        "- Misses half.",
        "- Confuses.",
        "- Duplicates.",
        f"  Run: {RENDER}",
        "- Has no command.",
        "- Boxes are large.",
        "  Run: sim2cam tune dice",
    ]
