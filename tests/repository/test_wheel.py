"""The built wheel, installed the ways users install it."""

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import click
import pytest
from tree import ROOT

from tasuki import __version__
from tasuki.harness import registry
from tasuki_testing import story

GOAL = "cover the login timeout with a test"
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    out = tmp_path_factory.mktemp("dist")
    command = (
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "-o",
        str(out),
        str(ROOT),
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return next(out.glob("*.whl"))


def list_plugins() -> list[str]:
    """The packages of `plugins/`."""
    return sorted(path.parent.name for path in (ROOT / "plugins").glob("*/__init__.py"))


def test_the_wheel_holds_the_package_and_its_licence(wheel: Path) -> None:
    """Only the packages are inside, typed, with their licence."""
    names = zipfile.ZipFile(wheel).namelist()

    assert "tasuki/py.typed" in names
    assert "tasuki/draft/pipeline.py" in names
    assert "tasuki/draft/prompts/system.md" in names
    assert any(n.endswith("licenses/LICENSE") for n in names)
    packages = ("tasuki", "tasuki_evals", "tasuki_testing", *list_plugins())
    own = (*(f"{name}/" for name in packages), f"tasuki-{__version__}.dist-info/")
    assert [] == [name for name in names if not name.startswith(own)]


def test_every_plugin_is_named_wherever_tools_need_its_name() -> None:
    """A folder of `plugins/` has an entry point, is checked by mypy, and has its place among the layers."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    entry_points = settings["project"]["entry-points"]["tasuki.harness"].values()
    linter = settings["tool"]["importlinter"]
    layers = next(one["layers"] for one in linter["contracts"] if one["type"] == "layers")
    apart = next(one["modules"] for one in linter["contracts"] if one["type"] == "independence")

    for name in list_plugins():
        assert any(target.startswith(f"{name}.") for target in entry_points), name
        assert name in settings["tool"]["mypy"]["packages"]
        assert name in linter["root_packages"]
        assert any(name in layer.split(" | ") for layer in layers)
        assert name in apart


@pytest.mark.parametrize("installer", ["uv", "pipx"])
def test_an_installed_wheel_hands_off(wheel: Path, installer: str, tmp_path: Path) -> None:
    """`uv tool install` and `pipx install` give a program that hands a thread off."""
    programs = tmp_path / "bin"
    env = {
        **os.environ,
        "HOME": str(tmp_path), "TASUKI_DATA": str(tmp_path / "data"), "TASUKI_CONFIG": str(tmp_path / "none"),
        "UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(programs), "UV_PYTHON_DOWNLOADS": "never",
        "PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(programs), "PIPX_MAN_DIR": str(tmp_path / "man"),
    }  # fmt: skip
    command = {
        "uv": [str(BIN / "uv"), "tool", "install", "--python", sys.executable, str(wheel)],
        "pipx": [sys.executable, "-m", "pipx", "install", "--python", sys.executable, str(wheel)],
    }[installer]
    installed = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    if installed.returncode and os.environ.get("CI") != "true":
        pytest.skip(f"{installer} could not install: {installed.stderr[-200:]}")
    assert installed.returncode == 0, installed.stderr

    program = str(programs / "tasuki")
    version = subprocess.run(
        (program, "--version"), env=env, capture_output=True, text=True, timeout=60
    )
    assert version.stdout == f"tasuki {__version__}\n"
    path = story("claude").write(tmp_path)
    done = subprocess.run(
        (program, "handoff", "--print", "--from", str(path), GOAL),
        env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"## Next Goal (verbatim)\n{GOAL}\n")


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_uninstalling_leaves_nothing_of_the_package(
    wheel: Path, installer: str, tmp_path: Path
) -> None:
    """After it was used, too: what it keeps beside its modules goes with them."""
    venv = tmp_path / "venv"
    python = venv / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "needed.pth").write_text(f"{Path(click.__file__).parents[1]}\n")
    before = sorted(site.rglob("*"))
    pip = {
        "pip": [sys.executable, "-m", "pip", "--python", str(python)],
        "uv": [str(BIN / "uv"), "pip"],
    }[installer]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "VIRTUAL_ENV": str(venv)}
    offline = ("--no-deps", "--no-index", "-q")
    yes = ("-y",) if installer == "pip" else ()
    for command in (
        [*pip, "install", *offline, str(wheel)],
        [str(venv / "bin" / "tasuki"), "threads", "--all"],
        [*pip, "uninstall", "-q", *yes, "tasuki"],
    ):
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr

    assert sorted(site.rglob("*")) == before


def test_entry_points_are_read_as_packaging_tools_write_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Line ends, blanks, comments, extras and several sections do not matter; the first folder on the path counts."""
    texts = {
        "first": "[console_scripts]\r\nx = y:z\r\n[tasuki.harness] \r\n# see [1]\r\n# old = gone:Old\r\na = m:A [fast]\r\nb=m:B\r\n[other]\r\nc = m:C\r\n[tasuki.harness]\r\nd = m:D\r\n",
        "second": "[tasuki.harness]\na = zz:Other\n",
    }
    for folder, text in texts.items():
        info = tmp_path / folder / "pack-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "entry_points.txt").write_bytes(text.encode())
    monkeypatch.setattr(sys, "path", [str(tmp_path / folder) for folder in texts])

    found = registry.list_plugin_targets.__wrapped__()

    assert {"a": "m:A", "b": "m:B", "d": "m:D"} == found
