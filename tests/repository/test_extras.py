"""The line that installs what is missing, and the pages that a wheel holds."""

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from tree import ROOT

from tasuki.config.installation import build_install_line, build_removal_line

PYTHON = "'/home/ann/my venv/bin/python'"
NEEDS = ("a; extra == 'acp'", "b<3,>=2 ; extra == 'acp'", "c[x]>=1; extra == 'mcp'", "a; extra == 'all'",
         "d; extra == 'all'", "a")  # fmt: skip
"""Requirements of a distribution."""


class _Installed:
    def __init__(self, told: object, there: tuple[str, ...] = ()) -> None:
        self.told, self.there = told, there

    @classmethod
    def pretend(
        cls, monkeypatch: pytest.MonkeyPatch, prefix: Path | str, told: object = None, *there: str
    ) -> None:
        """Pretend that tasuki was installed from `told` into a folder, beside the packages there."""
        made = cls(told, there)
        monkeypatch.setattr(metadata, "distribution", lambda name: made)
        monkeypatch.setattr(metadata, "requires", lambda name: list(NEEDS))
        monkeypatch.setattr(metadata, "version", made.find_version)
        monkeypatch.setattr(sys, "prefix", str(prefix))
        monkeypatch.setattr(sys, "executable", "/home/ann/my venv/bin/python")

    def find_version(self, name: str) -> str:
        if name not in self.there:
            raise metadata.PackageNotFoundError(name)
        return "1"

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self.told is None else json.dumps(self.told)


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (None, "install 'tasuki[mcp]'"),
        ([], "install 'tasuki[mcp]'"),
        ({"url": "https://example.com/t.git", "vcs_info": {"vcs": "git"}, "dir_info": None},
         "install 'tasuki[mcp] @ git+https://example.com/t.git'"),
        ({"url": "https://example.com/t.git", "vcs_info": {"vcs": "git", "requested_revision": "v2"}},
         "install 'tasuki[mcp] @ git+https://example.com/t.git@v2'"),
        ({"url": "file:///home/ann/my%20code", "dir_info": {}}, "install '/home/ann/my code[mcp]'"),
        ({"url": "file:///src/tasuki", "dir_info": {"editable": True}}, "install -e '/src/tasuki[mcp]'"),
        ({"url": "file:///dist/tasuki-1-py3-none-any.whl", "archive_info": {}},
         "install 'tasuki[mcp] @ file:///dist/tasuki-1-py3-none-any.whl'"),
    ],
)  # fmt: skip
def test_an_extra_is_installed_from_where_tasuki_came(
    monkeypatch: pytest.MonkeyPatch, told: object, line: str
) -> None:
    """A checkout, a wheel and a registry have each their own line."""
    _Installed.pretend(monkeypatch, "/home/ann/.venv", told)

    assert build_install_line("mcp") == f"{PYTHON} -m pip {line}"


@pytest.mark.parametrize(
    ("there", "extras"),
    [((), "mcp"), (("a",), "mcp"), (("a", "b"), "acp,mcp"), (("a", "b", "c", "d"), "all")],
)
def test_the_extras_that_are_there_are_kept(
    monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], extras: str
) -> None:
    """Each of which every package is there; `all` stands for the others."""
    _Installed.pretend(monkeypatch, "/home/ann/.venv", None, *there)

    assert build_install_line("mcp").endswith(f" 'tasuki[{extras}]'")


def test_the_tool_that_installed_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """uv, with what it installed beside tasuki, and pipx, which keeps that by itself; else pip."""
    _Installed.pretend(monkeypatch, tmp_path, None, "a", "b")
    assert build_removal_line() == f"{PYTHON} -m pip uninstall tasuki"
    (tmp_path / "pipx_metadata.json").touch()
    assert build_install_line("mcp") == "pipx install --force 'tasuki[acp,mcp]'"
    assert build_removal_line() == "pipx uninstall tasuki"

    (tmp_path / "uv-receipt.toml").write_text(
        '[tool]\nrequirements = [{ name = "tasuki", extras = ["acp"] }, { name = "x", specifier = ">=1" },\n'
        '{ name = "y", extras = ["z"], editable = "/my y" }]\n'
    )
    assert build_install_line("mcp") == (
        "uv tool install 'tasuki[acp,mcp]' --with 'x>=1' --with-editable '/my y[z]'"
    )
    assert build_removal_line() == "uv tool uninstall tasuki"
    (tmp_path / "uv-receipt.toml").write_text("damaged")
    assert build_install_line("mcp") == "uv tool install 'tasuki[acp,mcp]'"


def test_an_environment_without_pip_is_named_to_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `uv venv` makes them."""
    _Installed.pretend(monkeypatch, "/home/ann/.venv")
    monkeypatch.setattr("tasuki.config.installation.find_spec", lambda name: None)

    assert build_install_line("mcp") == f"uv pip install --python {PYTHON} 'tasuki[mcp]'"


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
    source = "".join(
        p.read_text() for name in ("src", "workshop") for p in (ROOT / name).rglob("*.py")
    )
    named = {part.split()[0].strip('`",.)') for part in source.split("tasuki docs ")[1:]}
    assert named - {"PAGE", "lists", "[PAGE]", "{near[0]}?"} <= set(pages)
