"""Builds what is released into a folder and tries it there; `scripts/release` runs this.

What is needed from registries is fetched once into the cache; everything after that runs without a network.
"""

import argparse
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import release_checks as checks
from release_parts import Release, build_server_name, read_resources, write_parts

from tasuki import __version__

ROOT = Path(__file__).resolve().parent.parent
PLACEHOLDER = "OWNER"
GOAL = "Make retries configurable and cover the 429 path with a test"
PARTS = ("plugins", "npm", "mcp-registry", "acp-registry", "homebrew")
"""Folders of a release, beside its two packages."""
LINK = re.compile(r"(!?\[[^\]]*\])\((?!https?:|#|mailto:)([^)\s]+)\)")
"""A link of Markdown to a file of the repository."""
PUBLISH = """\
To publish it, in this order:
  git tag v{version} && git push origin v{version}
  scripts/release --owner {owner} --publish        (or: uv publish {dist}/tasuki-{version}*)
  {dist}/plugins: push as the repository {owner}/tasuki-plugins
  for p in {dist}/npm/*; do npm publish $p; done
  cd {dist}/mcp-registry && mcp-publisher publish
  {dist}/acp-registry/tasuki: a pull request to agentclientprotocol/registry
  {dist}/homebrew/tasuki.rb: push to {owner}/homebrew-tap, folder Formula
"""


def say(text: str) -> None:
    """Say what is done now."""
    print(f"release: {text}", file=sys.stderr, flush=True)


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """Run a command; its output. Ends with what it said where it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"release: {shlex.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


# -- building -----------------------------------------------------------------------------


def fetch(cache: Path, tree: Path) -> None:
    """Fetch the locked wheels, and the addresses of the locked sdists, unless they are there."""
    pins = (ROOT / "requirements" / "base.txt").read_text()
    stamp = hashlib.sha256((pins + sys.version).encode()).hexdigest()
    if (cache / "stamp").exists() and (cache / "stamp").read_text() == stamp:
        return
    say("fetching the locked packages")
    shutil.rmtree(cache, ignore_errors=True)
    (cache / "wheels").mkdir(parents=True)
    locked = ("--no-deps", "--require-hashes", "-r", "requirements/base.txt")
    run(sys.executable, "-m", "pip", "download", "-q", *locked, "-d", cache / "wheels")
    needed = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    names = [*needed["dependencies"], *needed["optional-dependencies"]["review"]]
    exact = re.findall(r"(?m)^([a-z0-9.-]+==[^ ;]+)", pins)
    (cache / "pyproject.toml").write_text(
        f'[project]\nname = "needed"\nversion = "0"\nrequires-python = ">=3.11"\ndependencies = {names}\n'
        f"[tool.uv]\nconstraint-dependencies = {exact}\n"
        "environments = [\"sys_platform == 'linux'\", \"sys_platform == 'darwin'\"]\n"
    )
    run(Path(sys.executable).with_name("uv"), "lock", "-q", cwd=cache)
    (cache / "stamp").write_text(stamp)


def copy_tree(folder: Path, owner: str) -> None:
    """Copy the files of the checkout, with the owner in place and links that work outside of it."""
    for name in run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").split(
        "\0"
    ):
        if name and (ROOT / name).is_file() and not name.startswith("bench/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    project = folder / "pyproject.toml"
    project.write_text(project.read_text().replace(f"/{PLACEHOLDER}/", f"/{owner}/"))
    readme = folder / "README.md"
    readme.write_text(write_readme(readme.read_text(), owner))


def write_readme(text: str, owner: str) -> str:
    """Write README as a package index shows it: links are whole, and the MCP registry finds its proof."""

    def whole(found: re.Match[str]) -> str:
        raw = found[1].startswith("!")
        host = "https://raw.githubusercontent.com" if raw else "https://github.com"
        middle = f"v{__version__}" if raw else f"blob/v{__version__}"
        return f"{found[1]}({host}/{owner}/tasuki/{middle}/{found[2]})"

    return f"{LINK.sub(whole, text)}\n<!-- mcp-name: {build_server_name(owner)} -->\n"


def build(tree: Path, dist: Path) -> tuple[Path, Path]:
    """Build the sdist and its wheel; the wheel of the tree must be the same."""
    say("building sdist and wheel")
    builder = (sys.executable, "-m", "build", "--no-isolation", "-o")
    run(*builder, dist, tree)
    with tempfile.TemporaryDirectory() as other:
        run(*builder, other, "--wheel", tree)
        (wheel,), (again,) = dist.glob("*.whl"), Path(other).glob("*.whl")
        if wheel.read_bytes() != again.read_bytes():
            raise SystemExit("release: the wheel of the sdist differs from that of the checkout.")
    return wheel, next(dist.glob("*.tar.gz"))


# -- trying -------------------------------------------------------------------------------


def try_installed(package: Path, wheels: Path, folder: Path) -> None:
    """Install a package without a network into a fresh environment, and use it as a stranger does."""
    say(f"trying {package.name}")
    venv, home = folder / "a venv ü", folder / "home"
    home.mkdir(parents=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "PIP_CONFIG_FILE": os.devnull,
           "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels.as_uri(), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}  # fmt: skip
    alone = ("unshare", "-rn") if can_unshare() else ()
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    pip = (sys.executable, "-m", "pip", "--python", venv / "bin" / "python")
    run(*alone, *pip, "install", "-q", "--no-compile", package, cwd=home, env=env)
    tasuki = (*alone, venv / "bin" / "tasuki")
    said = run(*tasuki, "--version", cwd=home, env=env)
    pages = run(*tasuki, "docs", cwd=home, env=env).split()
    page = run(*tasuki, "docs", "start", cwd=home, env=env)
    thread = ROOT / "demo" / "thread.jsonl"
    brief = run(*tasuki, "handoff", "--from", thread, "--print", GOAL, cwd=home, env=env)
    listed = run(*tasuki, "install", "claude", "--dry-run", cwd=home, env=env)
    problems = [
        name
        for name, good in {
            "--version": said == f"tasuki {__version__}\n",
            "docs": {"cli", "start"} <= set(pages)
            and not any(p.startswith("workshop") for p in pages)
            and page,
            "handoff": brief.endswith(f"## Next Goal (verbatim)\n{GOAL}\n"),
            "install --dry-run": "commands/handoff.md" in listed
            and not (home / ".claude").exists(),
        }.items()
        if not good
    ]
    if problems:
        raise SystemExit(f"release: {package.name} does not work: {', '.join(problems)}")


def can_unshare() -> bool:
    """Whether a program can be run without a network here."""
    return (
        shutil.which("unshare") is not None
        and not subprocess.run(
            ("unshare", "-rn", "true"), capture_output=True, check=False
        ).returncode
    )


# -- publishing ---------------------------------------------------------------------------


def publish(dist: Path, release: Release) -> None:
    """Publish to PyPI, once a person has typed the version; the rest is said, to be done by hand."""
    if release.owner == PLACEHOLDER:
        raise SystemExit(
            "release: nobody publishes as OWNER. Say who does: scripts/release --owner NAME --publish"
        )
    if (
        not sys.stdin.isatty()
        or input(f"Type {release.version} to publish it to PyPI: ") != release.version
    ):
        raise SystemExit("release: nothing was published.")
    packages = sorted(str(path) for path in dist.glob("tasuki-*"))
    subprocess.run([str(Path(sys.executable).with_name("uv")), "publish", *packages], check=True)


def has_changes(checkout: Path) -> bool:
    """Whether a checkout holds what is not committed; files that git ignores do not count."""
    return bool(run("git", "status", "--porcelain", cwd=checkout))


def list_others(dist: Path) -> list[str]:
    """List what a folder holds that no release put there; it would be deleted."""
    names = sorted(path.name for path in dist.iterdir()) if dist.is_dir() else []
    return [
        name
        for name in names
        if name not in (*PARTS, ".gitignore") and not name.startswith("tasuki-")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/release", description=__doc__)
    parser.add_argument("--owner", default=PLACEHOLDER, help="the account on GitHub that publishes")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where to build")
    parser.add_argument("--publish", action="store_true", help="publish it; asks first")
    given = parser.parse_args()
    if given.publish and given.owner == PLACEHOLDER:
        parser.error("--publish needs --owner NAME")
    if given.publish and has_changes(ROOT):
        parser.error("--publish needs a checkout without changes: commit them, or remove them")
    dist = given.dist.absolute()
    if others := list_others(dist):
        parser.error(f"{dist} holds other files, such as {others[0]}. Name a new folder: --dist")
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir(parents=True)
    cache = Path(os.environ.get("TASUKI_TEST_CACHE") or ROOT / ".cache").absolute() / "release"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        copy_tree(folder / "tree", given.owner)
        project = tomllib.loads((folder / "tree" / "pyproject.toml").read_text())["project"]
        release = Release(__version__, given.owner, project)
        fetch(cache, folder / "tree")
        wheel, sdist = build(folder / "tree", dist)
        write_parts(dist, release, sdist, read_resources(cache / "uv.lock"))
        for package in (wheel, sdist):
            try_installed(package, cache / "wheels", folder / f"try {package.suffix}")
        say("checking metadata, plug-ins, packages and entries of registries")
        problems, skipped = checks.find_problems(dist, wheel, release, folder)
    for line in skipped:
        say(f"not checked: {line}")
    if problems:
        raise SystemExit("\n".join(f"release: {problem}" for problem in problems))
    say(f"{dist} is good: {release.version}, by {release.owner}")
    if given.publish:
        publish(dist, release)
    elif given.owner == PLACEHOLDER:
        say("OWNER is a placeholder, so this cannot be published. Say who does: --owner NAME")
    else:
        print(PUBLISH.format(version=release.version, dist=dist, owner=release.owner), end="")


if __name__ == "__main__":
    main()
