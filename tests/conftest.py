"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("sim2cam", deadline=None, derandomize=True)
settings.load_profile("sim2cam")
