"""Entry point of ``python -m sim2cam`` and the command ``sim2cam``."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return its exit code, also if interrupted during imports."""
    try:
        from sim2cam.cli import main as run

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("\nsim2cam: interrupted.\n")
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
