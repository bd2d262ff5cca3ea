import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_factor_reference_is_current():
    command = [sys.executable, str(DOCS / "factors.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0, "run python docs/factors.py"
