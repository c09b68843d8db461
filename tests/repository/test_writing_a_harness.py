"""The page on writing a harness works: its files pass, and are used once installed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import GOAL, World
from tree import ROOT

PAGE = ROOT / "workshop" / "writing-a-harness.md"
FILE = re.compile(r"<!-- file: (\S+) -->\n```python\n(.*?)```\n<!-- /file -->", re.DOTALL)


def write_files(folder: Path) -> list[str]:
    """The files of the page, written into a folder."""
    found = FILE.findall(PAGE.read_text(encoding="utf-8"))
    for name, content in found:
        (folder / name).write_text(content, encoding="utf-8")
    return [name for name, _ in found]


def test_the_harness_of_the_page_keeps_every_contract(tmp_path: Path) -> None:
    """The page's own test passes in an empty folder; a broken adapter is named by its contract."""
    assert write_files(tmp_path) == ["tern.py", "tern_format.py", "test_tern.py"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout

    adapter = tmp_path / "tern.py"
    adapter.write_text(adapter.read_text().replace("status, line.exit)", "status)"))
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "contract 7: A call holds its command, output, exit code and status." in done.stdout


def test_an_installed_harness_is_used_like_a_built_in_one(tmp_path: Path) -> None:
    """A package with the entry point adds its threads to lists, handoffs, search and reading."""
    world = World(tmp_path)
    site = tmp_path / "site"
    info = site / "tern-1.0.dist-info"
    info.mkdir(parents=True)
    write_files(site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tern\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tasuki.harness]\ntern = tern:Tern\n")
    store = world.home / ".tern" / "threads"
    store.mkdir(parents=True)
    make = f"from tern_format import *; from tasuki_testing import story; from pathlib import Path; story(TernFormat(cwd={str(world.project)!r})).write(Path({str(store)!r}))"
    subprocess.run([sys.executable, "-c", make], env={"PYTHONPATH": str(site)}, check=True)

    def run(*arguments: str) -> str:
        done = world.run(*arguments, PYTHONPATH=str(site))
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "tern" in run("threads")
    assert "## Next Goal (verbatim)" in run(
        "handoff", "--from", "tern", "--to", "claude", "write the missing test of the timeout"
    )
    assert "login timeout" in run("find", "login timeout", "harness:tern")
    assert "Please fix the login timeout" in run("read", "tern#2")
    shutil.rmtree(info)
    assert world.run("handoff", "--from", "tern", "x").returncode == 1


BROKEN = """
class Base:
    name, title, program, can_start = "{name}", "B", "b", False
    def list_files(self, cwd=None): return iter(())
    def is_thread_file(self, path, first): return False
class Listing(Base):
    def list_files(self, cwd=None): raise TypeError("no list")
class Looking(Base):
    def is_thread_file(self, path, first): raise KeyError("what")
    def read_head(self, file): raise ValueError("no head")
    def list_files(self, cwd=None):
        from pathlib import Path
        from tasuki.harness.protocol import ThreadFile
        yield ThreadFile(Path(__file__), 9e9, 10)
"""


@pytest.mark.parametrize(
    ("name", "target", "sentence"),
    [
        (
            "gone",
            "no_such_module:Gone",
            "The harness 'gone' cannot be loaded from no_such_module:Gone",
        ),
        ("bird", "broken:Base", "it calls itself 'heron'"),
        (
            "heron",
            "broken:Listing",
            "The harness 'heron' could not list its threads: TypeError: no list.",
        ),
        ("heron", "broken:Looking", "could not read the head of"),
    ],
)
def test_a_mistake_in_one_harness_costs_no_threads_of_others(
    tmp_path: Path, name: str, target: str, sentence: str
) -> None:
    """A sentence says which package is wrong, and everything else goes on."""
    world = World(tmp_path)
    world.thread()
    site = tmp_path / "site"
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "broken.py").write_text(BROKEN.format(name="heron"))
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[tasuki.harness]\n{name} = {target}\n")
    done = world.run("threads", "--all", PYTHONPATH=str(site))

    assert done.returncode == 0
    assert "claude" in done.stdout
    assert done.stderr.count(sentence) == 1
    assert "Traceback" not in done.stderr
    assert (
        world.run("handoff", "--print", "--from", "claude", GOAL, PYTHONPATH=str(site)).returncode
        == 0
    )
    if "loaded" in sentence:
        assert world.run("threads", "--harness", name, PYTHONPATH=str(site)).returncode == 2
