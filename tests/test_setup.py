import subprocess
import sys
from pathlib import Path

from evenflow import __version__

ROOT = Path(__file__).parent.parent


def test_help_lists_every_command() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for command in ("run", "test", "bench", "clean"):
        assert f"make {command} " in done.stdout


def test_the_command_line_stays_light() -> None:
    """--help must not pay for Numba, Arrow or Spark."""
    program = (
        "import sys; import evenflow.cli.app;"
        "print([m for m in ('numba', 'pyarrow', 'pyspark', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_version() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from evenflow.cli.app import main; main()", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == __version__
