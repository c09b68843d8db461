"""The line that installs what is missing, and the pages that a wheel holds."""

import json
import subprocess
import sys
from importlib import metadata

import pytest
from tree import ROOT

from tasuki.errors import build_install_line


class _Installed:
    def __init__(self, told: object) -> None:
        self.told = told

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self.told is None else json.dumps(self.told)


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (None, "pip install 'tasuki[mcp]'"),
        ([], "pip install 'tasuki[mcp]'"),
        ({"url": "https://example.com/t.git", "vcs_info": {"vcs": "git"}, "dir_info": None},
         "pip install 'tasuki[mcp] @ git+https://example.com/t.git'"),
        ({"url": "file:///home/ann/my%20code", "dir_info": {}}, "pip install '/home/ann/my code[mcp]'"),
        ({"url": "file:///src/tasuki", "dir_info": {"editable": True}}, "pip install -e '/src/tasuki[mcp]'"),
        ({"url": "file:///dist/tasuki-1-py3-none-any.whl", "archive_info": {}},
         "pip install 'tasuki[mcp] @ file:///dist/tasuki-1-py3-none-any.whl'"),
    ],
)  # fmt: skip
def test_an_extra_is_installed_from_where_tasuki_came(
    monkeypatch: pytest.MonkeyPatch, told: object, line: str
) -> None:
    """A checkout, a wheel and a registry have each their own line."""
    monkeypatch.setattr(metadata, "distribution", lambda name: _Installed(told))
    monkeypatch.setattr(sys, "prefix", "/home/ann/.venv")

    assert build_install_line("mcp") == line


@pytest.mark.parametrize(
    ("prefix", "program"),
    [("/h/.local/share/uv/tools/tasuki", "uv tool install "), ("/h/pipx/venvs/tasuki", "pipx install ")],
)  # fmt: skip
def test_the_tool_that_installed_it_is_named(
    monkeypatch: pytest.MonkeyPatch, prefix: str, program: str
) -> None:
    """In an environment of uv or pipx, their own commands are told."""
    monkeypatch.setattr(sys, "prefix", prefix)

    assert build_install_line("mcp").startswith(program)


def test_pages_are_printed_by_their_names() -> None:
    """`tasuki docs` lists the pages and prints one; every page that a message names is there."""

    def run(*names: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (sys.executable, "-m", "tasuki", "docs", *names), capture_output=True, text=True, timeout=60, check=False
        )  # fmt: skip

    pages = [line.split()[0] for line in run().stdout.splitlines()]
    assert {"start", "inside", "mcp", "machines"} <= set(pages)
    assert run("start").stdout.startswith("# ")
    assert run("../README").returncode == 2
    source = "".join(p.read_text() for p in (ROOT / "src").rglob("*.py"))
    named = {part.split()[0].strip('`",.)') for part in source.split("tasuki docs ")[1:]}
    assert named - {"PAGE", "lists", "[PAGE]"} <= set(pages)
