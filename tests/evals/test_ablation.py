"""The ablation of `bench/`: every part that it takes out is there, and the table is made."""

import subprocess
import sys
from pathlib import Path

import pytest
from tree import ROOT

from tasuki_testing import ThreadBuilder

paths = [*sys.path]
sys.path.append(str(ROOT / "bench"))
import ablation  # noqa: E402

sys.path[:] = paths  # A program there is named as a library is.


@pytest.mark.parametrize("name", ablation.PARTS)
def test_every_part_is_there(name: str) -> None:
    """A part that was renamed is noticed, and each is put back afterwards."""
    before = [getattr(owner, part) for owner, part, _ in ablation.PARTS[name]]
    with ablation.changed(ablation.PARTS[name]):
        assert all(getattr(owner, part) is new for owner, part, new in ablation.PARTS[name])
    assert before == [getattr(owner, part) for owner, part, _ in ablation.PARTS[name]]


def test_the_table_is_made(tmp_path: Path) -> None:
    """It runs on any thread, and a part that is taken out moves a figure."""
    built = ThreadBuilder("claude", cwd="/home/dev/app").user("Fix the upload client, please.")
    for n in range(25):
        built.edit(f"src/part{n}.py", str(n), str(n + 1))
    built.user("Go on with the other parts.")
    for n in range(8):
        built.edit(f"src/part{n}.py", f"b{n}", f"b{n + 1}")
    built.write(tmp_path / built.file_name())
    argv = [
        sys.executable,
        str(ROOT / "bench" / "ablation.py"),
        str(tmp_path),
        "--only",
        "the files",
    ]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    rows = {row.split(" | ")[0].strip("| "): row.split(" | ")[1:] for row in shown.splitlines()}

    assert rows["without the files"][0] < rows["everything"][0]
    assert rows["everything"][-1].endswith(" of 50 |")
