"""The programs that make the figures say how they are called."""

import subprocess
import sys
from pathlib import Path

import pytest
from tree import ROOT

SCRIPTS = [path for path in sorted((ROOT / "bench").glob("*.py")) if "__main__" in path.read_text()]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_bench_script_answers_help(script: Path) -> None:
    """`--help` names it and its arguments, and measures nothing."""
    done = subprocess.run(
        (sys.executable, str(script), "--help"), capture_output=True, text=True, timeout=60
    )

    assert 0 == done.returncode, done.stderr
    assert f"usage: {script.name}" in done.stdout
