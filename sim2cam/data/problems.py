"""Flawed annotations: collected while a dataset is read, then refused together or left out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sim2cam.errors import InputError, RepairWarning

_MAX_SHOWN = 10


def warn_about_repairs(path: Path, notes: Sequence[str]) -> None:
    """Warn about changes of a dataset while it is read; silent without notes."""
    if notes:
        warnings.warn(f"{path}: {' '.join(notes)}", RepairWarning, stacklevel=3)


class AnnotationErrors:
    """Collect the flawed annotations of a dataset, so that one error names them all."""

    def __init__(self, path: Path, *, skip_invalid: bool = False) -> None:
        self._path, self._skip = path, skip_invalid
        self._errors: list[InputError] = []

    @property
    def has_errors(self) -> bool:
        """Whether any error was collected."""
        return bool(self._errors)

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Collect an InputError that is raised inside, and go on after the block."""
        try:
            yield
        except InputError as error:
            self._errors.append(error)

    def report(self) -> None:
        """Report the collected errors.

        Raises:
            InputError: If there are errors and flawed annotations are not skipped; lists the first ones.
        """
        if not self._errors:
            return
        count = len(self._errors)
        shown = [self._format_error(error) for error in self._errors[:_MAX_SHOWN]]
        more = f"\n  … and {count - _MAX_SHOWN} more" if count > _MAX_SHOWN else ""
        if self._skip:
            noun = "annotation is" if count == 1 else "annotations are"
            listing = "".join(f"\n  {line}" for line in shown)
            message = f"{self._path}: {count} flawed {noun} left out:{listing}{more}"
            warnings.warn(message, RepairWarning, stacklevel=2)
            return
        cure = "Correct the file, or leave flawed annotations out with --skip-invalid."
        if count == 1:
            error = self._errors[0]
            raise InputError(error.path, f"{error.args[1]} {cure}") from error
        listing = "".join(f"\n  {line}" for line in shown)
        raise InputError(
            self._path, f"{count} annotations are flawed:{listing}{more}\n{cure}"
        ) from self._errors[0]

    def _format_error(self, error: InputError) -> str:
        return str(error.args[1]) if error.path == self._path else str(error)
