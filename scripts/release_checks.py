"""Checks of a built release. Each returns what is wrong, in sentences; none of them needs a network."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

from release_parts import Release, build_server_name

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))
NEEDED = "Name Version Summary License-Expression License-File Requires-Python Project-URL Keywords".split()
PYTHONS = ("3.11", "3.12", "3.13")
"""Those on which it was installed and tried."""
RELATIVE = re.compile(r'(?:href|src)="(?!https?:|#|mailto:)([^"]+)"')
SERVER = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
RANGE = re.compile(r"[\^~*<>=|]|latest")


def find_problems(
    dist: Path, wheel: Path, release: Release, scratch: Path
) -> tuple[list[str], list[str]]:
    """Run every check; the problems, and what could not be checked here."""
    skipped: list[str] = []
    problems = [
        *check_wheel(wheel, release),
        *check_plugins(dist / "plugins", scratch, skipped),
        *check_npm(dist / "npm", release, skipped),
        *check_server(read_json(dist / "mcp-registry" / "server.json"), release),
        *check_agent(dist / "acp-registry" / "tasuki", release),
        *check_formula(dist / "homebrew" / "tasuki.rb", skipped),
    ]
    return problems, skipped


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


# -- the Python package --------------------------------------------------------------------


def check_wheel(wheel: Path, release: Release) -> Iterator[str]:
    """Check the wheel's metadata, licence, types, and that its pages are there and no pictures are."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = message_from_bytes(archive.read(f"tasuki-{release.version}.dist-info/METADATA"))
    for wanted in ("tasuki/py.typed", "tasuki/docs/cli.md"):
        if wanted not in names:
            yield f"The wheel has no {wanted}."
    if not any(name.endswith("licenses/LICENSE") for name in names):
        yield "The wheel has no licence."
    yield from (
        f"The wheel holds {name}."
        for name in names
        if name.startswith("tasuki/docs/") and not name.endswith(".md")
    )
    yield from check_metadata(metadata, release)


def check_metadata(metadata: Message, release: Release) -> Iterator[str]:
    """Check what a package index shows: fields, classifiers, and a description that renders."""
    from markdown_it import MarkdownIt
    from trove_classifiers import classifiers as known

    yield from (f"The metadata has no {name}." for name in NEEDED if not metadata[name])
    given = metadata.get_all("Classifier") or []
    yield from (f"{name!r} is no classifier." for name in given if name not in known)
    for version in PYTHONS:
        if f"Programming Language :: Python :: {version}" not in given:
            yield f"The metadata does not name Python {version}."
    for url in metadata.get_all("Project-URL") or []:
        if f"https://github.com/{release.owner}/tasuki" not in url:
            yield f"{url} is not of {release.owner}."
    if metadata["Description-Content-Type"] != "text/markdown":
        yield f"The description is {metadata['Description-Content-Type']}, not Markdown."
    text = metadata.get_payload()
    page = MarkdownIt("gfm-like", {"html": True}).render(text)
    if "<h1>" not in page:
        yield "The description has no heading."
    yield from (
        f"The description links to {link}, which only the checkout has."
        for link in RELATIVE.findall(page)
    )
    if f"mcp-name: {build_server_name(release.owner)}" not in text:
        yield "The description has no mcp-name, by which the MCP registry knows the owner."


# -- plug-ins of harnesses --------------------------------------------------------------------


def find_program(name: str, skipped: list[str]) -> list[str]:
    """Find a real harness in the cache of the tests; empty where it is not installed."""
    import npm_programs

    package = npm_programs.PACKAGES[name]
    if (npm_programs.cache() / f"{name}-{package.version}").is_dir():
        return npm_programs.command(name)
    skipped.append(f"the plug-in by {name}, which scripts/setup installs")
    return []


def ask(command: list[str], scratch: Path, *words: str | Path) -> tuple[int, str]:
    """Run a harness with a home of its own; its exit code and what it said."""
    home = scratch / "plugin home"
    home.mkdir(exist_ok=True)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    done = subprocess.run(
        [*command, *map(str, words)], env=env, cwd=home, capture_output=True, text=True, check=False, timeout=60
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def check_plugins(folder: Path, scratch: Path, skipped: list[str]) -> Iterator[str]:
    """Have Claude Code validate its plug-in, and Codex install its own with the tools in it."""
    if claude := find_program("claude", skipped):
        for path in (folder, folder / "claude"):
            code, said = ask(claude, scratch, "plugin", "validate", "--strict", path)
            if code:
                yield f"Claude Code refuses {path}:\n{said}"
    if codex := find_program("codex", skipped):
        for words in (("marketplace", "add", folder), ("add", "tasuki@tasuki")):
            code, said = ask(codex, scratch, "plugin", *words)
            if code:
                yield f"Codex refuses {folder}:\n{said}"
        _, said = ask(codex, scratch, "mcp", "list")
        if not re.search(r"(?m)^tasuki +tasuki +mcp ", said):
            yield f"Codex finds no tools in its plug-in:\n{said}"
    for path in sorted(folder.rglob("SKILL.md")):
        yield from check_skill(path)


def check_skill(path: Path) -> Iterator[str]:
    """Check the head of a skill: named as its folder, with a description of at most 1,024 characters."""
    head = dict(re.findall(r"(?m)^([a-z-]+): (.*)$", path.read_text().split("---\n", 2)[1]))
    if head.get("name") != path.parent.name:
        yield f"{path} is named {head.get('name')!r}, not as its folder."
    if not 0 < len(head.get("description", "")) <= 1024:
        yield f"{path} has no description of at most 1,024 characters."


def check_npm(folder: Path, release: Release, skipped: list[str]) -> Iterator[str]:
    """Have npm pack each package, and look whether what its manifest names is in it."""
    if not shutil.which("npm"):
        skipped.append("the packages of npm, which is not installed")
        return
    for package in sorted(folder.iterdir()):
        manifest = read_json(package / "package.json")
        done = subprocess.run(
            ["npm", "pack", "--dry-run", "--json", "--offline"], cwd=package, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            yield f"npm refuses {package.name}: {done.stderr}"
            continue
        packed = {file["path"] for file in json.loads(done.stdout)[0]["files"]}
        keys = (
            manifest.get("pi") or manifest.get("omp") or {"extensions": [manifest.get("main", "?")]}
        )
        for name in (*keys["extensions"], "package.json", "README.md"):
            if name.removeprefix("./") not in packed:
                yield f"{package.name} does not pack {name}."
        if manifest["version"] != release.version:
            yield f"{package.name} is version {manifest['version']}."


# -- entries of registries ----------------------------------------------------------------------


def check_server(server: Any, release: Release) -> Iterator[str]:
    """Check the required fields of the MCP registry's schema of 2025-12-11, and its rules on versions."""
    if not SERVER.fullmatch(server.get("name", "")) or server["name"] != build_server_name(
        release.owner
    ):
        yield f"server.json: the name {server.get('name')!r} is not that of {release.owner}."
    for name, most in (("description", 100), ("title", 100), ("version", 255)):
        if not 0 < len(server.get(name, "")) <= most:
            yield f"server.json: {name} needs 1 to {most} characters."
    for package in server.get("packages") or [{}]:
        for name in ("registryType", "identifier", "version", "transport"):
            if not package.get(name):
                yield f"server.json: a package has no {name}."
        for version in (server.get("version", ""), package.get("version", "")):
            if version != release.version or RANGE.search(version):
                yield f"server.json: {version!r} is not the version {release.version}."
        for argument in (
            *package.get("runtimeArguments", ()),
            *package.get("packageArguments", ()),
        ):
            wanted = ("type", "name") if argument.get("type") == "named" else ("type", "value")
            if not all(argument.get(name) for name in wanted):
                yield f"server.json: the argument {argument} lacks one of {wanted}."


def check_agent(folder: Path, release: Release) -> Iterator[str]:
    """Check the required fields of the ACP registry's schema, the version in its package, and the icon."""
    agent = read_json(folder / "agent.json")
    for name in ("id", "name", "version", "description", "distribution", "license_url"):
        if not agent.get(name):
            yield f"agent.json has no {name}."
    if agent.get("id") != folder.name or not re.fullmatch(r"[a-z][a-z0-9-]*", folder.name):
        yield f"agent.json: the id {agent.get('id')!r} is not its folder's name."
    package = agent.get("distribution", {}).get("uvx", {}).get("package", "")
    if not package.endswith(f"=={release.version}") or agent.get("version") != release.version:
        yield f"agent.json: {package!r} is not version {release.version}."
    icon = (folder / "icon.svg").read_text()
    colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', icon))
    if 'viewBox="0 0 16 16"' not in icon or not colours <= {"currentColor", "none"}:
        yield "icon.svg is not 16 by 16 in the current colour."


def check_formula(path: Path, skipped: list[str]) -> Iterator[str]:
    """Check the formula: whole addresses with sums, its blocks closed, and ruby's own view where it is there."""
    text = path.read_text()
    sums, urls = re.findall(r'sha256 "(.*)"', text), re.findall(r'url "(.*)"', text)
    if len(sums) != len(urls) or len(urls) < 5:
        yield f"The formula has {len(urls)} addresses and {len(sums)} sums."
    yield from (
        f"The formula has the sum {one!r}." for one in sums if not re.fullmatch("[0-9a-f]{64}", one)
    )
    yield from (
        f"The formula fetches {one}."
        for one in urls
        if not re.fullmatch(r"https://\S+\.(tar\.gz|zip)", one)
    )
    begun = len(re.findall(r"(?m)^\s*(?:class|def) |\bdo$", text))
    if begun != len(re.findall(r"(?m)^\s*end$", text)):
        yield "The formula leaves a block open."
    if not shutil.which("ruby"):
        skipped.append("the formula by ruby, which is not installed")
    elif subprocess.run(["ruby", "-c", str(path)], capture_output=True, check=False).returncode:
        yield "ruby refuses the formula."
