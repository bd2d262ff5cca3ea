"""Texts of expected errors."""

import pytest

from sim2cam.errors import InputError


def error_text(function, *args, error=InputError, **options):
    """Return the text of the error that a call raises."""
    with pytest.raises(error) as caught:
        function(*args, **options)
    return str(caught.value)
