"""Real programs for tests: pinned versions from the npm registry, installed once into a cache.

A test installs what it lacks; run as a program, this installs what the default run needs.
"""

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tree import ROOT

NODE = "22.23.3"
NODE_NEEDED = (22, 19)
"""What pi 1.5.2 asks for."""
PI = "1.5.2"
PI_PACKAGES = ("jiti", "typebox", "@silvia-odwyer/photon-node", "quickjs-wasi")
"""The dependencies that pi's bundle loads; the others are built into it."""
AXE = "4.14.1"
"""axe-core, which finds in a page what keeps people from using it."""
PUPPETEER = "25.16.0"
"""puppeteer-core, which drives Firefox as Debian builds it (WebDriver BiDi); Playwright needs one of its own."""
NPM_SECONDS = 600
ENV = dict(os.environ)
"""The environment of the test run, with the user's own settings of npm, before a test changes it."""


class Package(NamedTuple):
    """A program of the registry. One that is not for `every_run` is tested with `TASUKI_E2E=all`."""

    version: str
    name: str
    megabytes: int
    """Installed size."""
    every_run: bool = True
    beside: tuple[str, ...] = ()
    """What must be installed with it."""


PACKAGES = {
    "claude": Package("2.1.330", "@anthropic-ai/claude-code", 364),
    "codex": Package("0.169.0", "@openai/codex", 404),
    "gemini": Package("0.61.0", "@google/gemini-cli", 100),
    "opencode": Package("1.18.33", "opencode-ai", 354, every_run=False),
    "copilot": Package("1.0.102", "@github/copilot", 189, every_run=False),
    "omp": Package("18.2.3", "@oh-my-pi/pi-coding-agent", 755, False, ("bun",)),
}
"""Claude Code: 2.0.76, the last one in plain JavaScript, has no `--prefill`. oh-my-pi: the newest
that installs from the registry alone."""
ACP_PACKAGES = {
    "claude-agent-acp": Package("0.100.0", "@agentclientprotocol/claude-agent-acp", 391),
    "codex-acp": Package("2.6.0", "@agentclientprotocol/codex-acp", 457),
    "pi-acp": Package("0.0.34", "pi-acp", 8),
    "acpx": Package("0.19.1", "acpx", 44),
}
"""Adapters that make an agent speak ACP, and an independent ACP client, by their command."""
DEFAULT_ADAPTERS = ("claude-agent-acp", "pi-acp")
"""Those that the default run starts."""


def versions() -> dict[str, str]:
    """The version of every program, by the name of its harness."""
    return {"pi": PI} | {name: package.version for name, package in PACKAGES.items()}


def in_every_run(name: str) -> bool:
    """Whether a program is tested without `TASUKI_E2E=all`."""
    return name == "pi" or PACKAGES[name].every_run


def cache() -> Path:
    """Where programs are installed: `$TASUKI_TEST_CACHE`, else `.cache/` of the checkout."""
    return Path(ENV.get("TASUKI_TEST_CACHE") or ROOT / ".cache").absolute()


def command(name: str) -> list[str]:
    """The command of a program, by its name; skips where it is not asked for."""
    if name == "pi":
        folder = _installed(f"pi-{PI}", _install_pi)
        return [str(node()), str(folder / "package" / "dist" / "bundle" / "cli.js")]
    package = PACKAGES.get(name) or ACP_PACKAGES[name]
    if not (package.every_run or ENV.get("TASUKI_E2E") == "all"):
        pytest.skip(f"{name} is {package.megabytes} MB: set TASUKI_E2E=all to test with it")
    wanted = (f"{package.name}@{package.version}", *package.beside)
    folder = _installed(f"{name}-{package.version}", lambda folder: _npm_install(folder, *wanted))
    programs = folder / "node_modules" / ".bin"
    path = f"{programs}:{node().parent}:{ENV['PATH']}"
    return ["env", f"PATH={path}", str(programs / name)]


def axe() -> Path:
    """The script of axe-core."""
    wanted = f"axe-core@{AXE}"
    folder = _installed(f"axe-core-{AXE}", lambda folder: _npm_install(folder, wanted))
    return folder / "node_modules" / "axe-core" / "axe.min.js"


def puppeteer() -> Path:
    """The script of puppeteer-core, without a browser of its own."""
    wanted = f"puppeteer-core@{PUPPETEER}"
    folder = _installed(f"puppeteer-core-{PUPPETEER}", lambda folder: _npm_install(folder, wanted))
    package = folder / "node_modules" / "puppeteer-core"
    return package / str(
        json.loads((package / "package.json").read_text())["exports"]["."]["import"]
    )


def node() -> Path:
    """A node that is new enough: the system's, else one from the registry."""
    if (found := shutil.which("node", path=ENV["PATH"])) and _version(found) >= NODE_NEEDED:
        return Path(found)
    folder = _installed(f"node-{NODE}", lambda folder: _npm_install(folder, f"node@{NODE}"))
    return folder / "node_modules" / "node" / "bin" / "node"


def _version(program: str) -> tuple[int, ...]:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return tuple(int(part) for part in said.stdout.strip().lstrip("v").split(".") if part.isdigit())


def _installed(name: str, install: Callable[[Path], None]) -> Path:
    """The folder of a program; installed under a lock, and there only when it is whole."""
    target = cache() / name
    if target.is_dir():
        return target
    with locked(name):
        if not target.is_dir():
            unfinished = cache() / f".new-{name}"
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            install(unfinished)
            unfinished.rename(target)
    return target


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Wait for a lock that the workers of a test run share, and hold it."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f".lock-{name}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


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
    if not shutil.which("npm", path=ENV["PATH"]):
        _absent("npm is not installed")
    quiet = ("--no-audit", "--no-fund", "--loglevel=error", "--cache", str(cache() / "npm"))
    done = subprocess.run(
        ["npm", *arguments, *quiet],
        cwd=folder,
        env=ENV,
        capture_output=True,
        text=True,
        timeout=NPM_SECONDS,
        check=False,
    )
    if done.returncode:
        _absent(f"npm {arguments[0]} failed: {done.stderr.strip()[:300]}")


def _absent(reason: str) -> None:
    if ENV.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def install_default() -> None:
    """Install what the default run needs, two at a time. Raises Skipped, or Failed in CI, with the reason."""
    node()
    names = [*filter(in_every_run, versions()), *DEFAULT_ADAPTERS]
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(command, name) for name in names]
        for job in (*jobs, pool.submit(axe)):
            job.result()


if __name__ == "__main__":
    try:
        install_default()
    except (pytest.skip.Exception, pytest.fail.Exception) as missing:
        raise SystemExit(f"{missing}\nNot tested: the real programs.") from None
