"""Real programs for tests: pinned versions from the npm registry, installed once into a cache."""

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NODE = "22.23.3"
NODE_NEEDED = (22, 19)
"""What pi 1.5.2 asks for."""
PI = "1.5.2"
PI_PACKAGES = ("jiti", "typebox", "@silvia-odwyer/photon-node", "quickjs-wasi")
"""The dependencies that pi's bundle loads; the others are built into it."""
CLAUDE = "2.1.330"
"""A version with `--prefill`; 2.0.76, the last one in plain JavaScript, has none."""
CODEX = "0.169.0"
"""Twenty times as large as pi: its tests run where `TASUKI_E2E=all`."""
OMP = "18.2.3"
"""The newest that installs from the registry alone; with bun 755 MB: as Codex only with `all`."""
NPM_SECONDS = 600


def cache() -> Path:
    """Where programs are installed: `$TASUKI_CACHE`, else `.cache/` of the checkout."""
    return Path(os.environ.get("TASUKI_CACHE") or ROOT / ".cache").absolute()


def node() -> Path:
    """A node that is new enough: the system's, else one from the registry."""
    if (found := shutil.which("node")) and _version(found) >= NODE_NEEDED:
        return Path(found)
    folder = _installed(f"node-{NODE}", lambda folder: _npm_install(folder, f"node@{NODE}"))
    return folder / "node_modules" / "node" / "bin" / "node"


def pi() -> list[str]:
    """The command of pi."""
    folder = _installed(f"pi-{PI}", _install_pi)
    return [str(node()), str(folder / "package" / "dist" / "bundle" / "cli.js")]


def claude() -> list[str]:
    """The command of Claude Code."""
    package = f"@anthropic-ai/claude-code@{CLAUDE}"
    folder = _installed(f"claude-{CLAUDE}", lambda folder: _npm_install(folder, package))
    return [str(folder / "node_modules" / ".bin" / "claude")]


def codex() -> list[str]:
    """The command of Codex; its tests are skipped unless all programs are asked for."""
    if os.environ.get("TASUKI_E2E") != "all":
        pytest.skip("Codex is 400 MB: set TASUKI_E2E=all to test with it")
    package = f"@openai/codex@{CODEX}"
    folder = _installed(f"codex-{CODEX}", lambda folder: _npm_install(folder, package))
    return [str(folder / "node_modules" / ".bin" / "codex")]


def omp() -> list[str]:
    """The command of oh-my-pi, run by its own bun; as Codex only where all programs are asked for."""
    if os.environ.get("TASUKI_E2E") != "all":
        pytest.skip("oh-my-pi is 755 MB: set TASUKI_E2E=all to test with it")
    packages = (f"@oh-my-pi/pi-coding-agent@{OMP}", "bun")
    folder = _installed(f"omp-{OMP}", lambda folder: _npm_install(folder, *packages))
    programs = folder / "node_modules" / ".bin"
    return ["env", f"PATH={programs}:{os.environ['PATH']}", str(programs / "omp")]


def _version(program: str) -> tuple[int, ...]:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return tuple(int(part) for part in said.stdout.strip().lstrip("v").split(".") if part.isdigit())


def _installed(name: str, install: Callable[[Path], None]) -> Path:
    """The folder of a program; installed under a lock, and there only when it is whole."""
    target = cache() / name
    if target.is_dir():
        return target
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.is_dir():
            return target
        unfinished = cache() / f".new-{name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        install(unfinished)
        unfinished.rename(target)
    return target


def _install_pi(folder: Path) -> None:
    """Unpack the package and install the few dependencies that its bundle needs."""
    _npm(folder, "pack", "--silent", f"@earendil-works/pi-coding-agent@{PI}")
    archive = next(folder.glob("*.tgz"))
    subprocess.run(["tar", "xzf", archive.name], cwd=folder, check=True)
    archive.unlink()
    manifest = folder / "package" / "package.json"
    package = json.loads(manifest.read_text())
    kept = {k: v for k, v in package["dependencies"].items() if k in PI_PACKAGES}
    slim = {k: package[k] for k in ("name", "version", "type", "piConfig") if k in package}
    manifest.write_text(json.dumps({**slim, "dependencies": kept}))
    _npm(folder / "package", "install")


def _npm_install(folder: Path, *packages: str) -> None:
    (folder / "package.json").write_text('{"name": "cache", "private": true}')
    _npm(folder, "install", *packages)


def _npm(folder: Path, *arguments: str) -> None:
    """Run npm; without it, or where it fails, tests are skipped here and fail in CI."""
    if not shutil.which("npm"):
        _absent("npm is not installed")
    quiet = ("--no-audit", "--no-fund", "--loglevel=error", "--cache", str(cache() / "npm"))
    done = subprocess.run(
        ["npm", *arguments, *quiet],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=NPM_SECONDS,
        check=False,
    )
    if done.returncode:
        _absent(f"npm {arguments[0]} failed: {done.stderr.strip()[-300:]}")


def _absent(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
