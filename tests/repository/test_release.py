"""`scripts/release`: what it builds, that all of it comes from one source, and that its checks can fail."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from tree import ROOT

from tasuki import __version__
from tasuki.harness.claude.hooks import PLUGIN_COMMAND

sys.path.append(str(ROOT / "scripts"))

import release
import release_checks as checks
import release_parts as parts
from release_parts import Release

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SOMEONE = Release(__version__, "someone", PROJECT)
RESOURCE = {"name": "click", "sdist": {"url": "https://files.invalid/click-1.tar.gz", "hash": "sha256:" + "a" * 64}}  # fmt: skip


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The parts of a release beside the Python package."""
    sdist = tmp_path / f"tasuki-{__version__}.tar.gz"
    sdist.write_bytes(b"an sdist")
    parts.write_parts(tmp_path / "dist", SOMEONE, sdist, [RESOURCE] * 5)
    return tmp_path / "dist"


def test_it_builds_and_tries_everything_without_a_network(tmp_path: Path) -> None:
    """Wheel and sdist install and work; plug-ins, packages and entries of registries pass their checks."""
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        ["scripts/release", "--owner", "someone", "--dist", str(tmp_path / "dist")],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"is good: {__version__}, by someone" in done.stderr
    names = {path.name for path in (tmp_path / "dist").iterdir()}

    assert names == {
        f"tasuki-{__version__}-py3-none-any.whl", f"tasuki-{__version__}.tar.gz",
        "plugins", "npm", "mcp-registry", "acp-registry", "homebrew",
    }  # fmt: skip
    written = [p for p in (tmp_path / "dist").rglob("*") if p.is_file() and p.suffix != ".gz"]
    assert not [p for p in written if b"OWNER/" in p.read_bytes() or b"/root/" in p.read_bytes()]


def test_a_release_by_nobody_is_not_published() -> None:
    """OWNER is a placeholder; and without a terminal nobody can say yes."""
    done = subprocess.run(
        [sys.executable, "scripts/release.py", "--publish"], cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert "--publish needs --owner NAME" in done.stderr
    for owner, why in (("OWNER", "nobody publishes as OWNER"), ("someone", "release: ")):
        with pytest.raises(SystemExit, match=why):
            release.publish(Path("none"), SOMEONE._replace(owner=owner))


def test_a_folder_with_other_files_is_not_deleted(tmp_path: Path) -> None:
    """A release empties its folder first; one that holds more is refused, and what is in it stays."""
    (tmp_path / "tasuki-0.1.0.tar.gz").touch()
    (tmp_path / "thesis.md").touch()
    command = [sys.executable, "scripts/release.py", "--dist", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert f"{tmp_path} holds other files, such as thesis.md." in done.stderr
    assert len(list(tmp_path.iterdir())) == 2


def test_what_is_not_committed_is_not_published(tmp_path: Path) -> None:
    """A file that git does not know would be in the package."""
    subprocess.run(("git", "init", "-q"), cwd=tmp_path, check=True)
    assert not release.has_changes(tmp_path)
    (tmp_path / "notes.txt").touch()
    assert release.has_changes(tmp_path)


def test_the_version_is_written_once() -> None:
    """pyproject.toml takes it from the package; the package of pi, which npm reads, says the same."""
    pi = json.loads((ROOT / "src/tasuki/harness/pi_v3/package/package.json").read_text())

    assert PROJECT["dynamic"] == ["version"]
    assert pi["version"] == __version__


@pytest.mark.parametrize(("name", "folder", "home"), [
    ("claude", "plugins/claude", ".claude"), ("codex", "plugins/codex", ".codex"), ("pi", "npm/tasuki-pi", ".pi/agent"),
    ("omp", "npm/tasuki-omp", ".omp/agent"), ("opencode", "npm/tasuki-opencode", ".config/opencode"),
])  # fmt: skip
def test_the_parts_are_those_that_install_writes(
    made: Path, tmp_path: Path, name: str, folder: str, home: str
) -> None:
    """Every file and hook of `tasuki install` is in the package, but for its first line and the program's path."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TASUKI_DATA": str(tmp_path / "data")}
    command = [sys.executable, "-m", "tasuki", "install", name, "--yes"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    program = re.escape(str(Path(sys.executable).with_name("tasuki")))
    files = [p for p in (tmp_path / home).rglob("*") if p.suffix in (".md", ".ts", ".js")]

    def plain(text: str) -> str:
        text = re.sub(program, "tasuki", text)
        text = text.replace(PLUGIN_COMMAND, "/handoff")
        # What is installed names its script besides, for the shell to answer by itself.
        text = re.sub(r"if \[ -r \S+ \]; then set -- .*?; else (tasuki .*?); fi", r"\1", text)
        return "".join(parts.INSTALLED.sub("", parts.SOURCE.sub("", text)).split())

    assert files
    for path in files:
        where = made / folder / path.relative_to(tmp_path / home)
        if where.name != "handoff.md" or name == "claude":
            assert plain(where.read_text()) == plain(path.read_text())
        else:
            template = path.read_text().rpartition("-->")[2].strip()
            assert json.dumps(template) in (where.parents[1] / "index.js").read_text()
    if name in ("claude", "codex"):
        hooks = json.loads((made / folder / "hooks" / "hooks.json").read_text())["hooks"]
        own = json.loads(
            (tmp_path / home / f"{'settings' if name == 'claude' else 'hooks'}.json").read_text()
        )
        assert plain(json.dumps(hooks)) == plain(json.dumps(own["hooks"]))


# -- every check can fail ---------------------------------------------------------------------

FAULTS = [
    ("mcp-registry/server.json", '"description": "', '"description": "' + "x" * 100, "description needs 1 to 100"),
    ("mcp-registry/server.json", "io.github.someone", "io.github.other", "is not that of someone"),
    ("mcp-registry/server.json", f'"version": "{__version__}"', '"version": "^0.2"', "is not the version"),
    ("mcp-registry/server.json", '"transport"', '"transports"', "has no transport"),
    ("mcp-registry/server.json", '"value": "mcp"', '"values": "mcp"', "lacks one of"),
    ("acp-registry/tasuki/agent.json", '"license_url"', '"licence_url"', "has no license_url"),
    ("acp-registry/tasuki/agent.json", '"id": "tasuki"', '"id": "Tasuki"', "is not its folder's name"),
    ("acp-registry/tasuki/agent.json", "==", ">=", "is not version"),
    ("acp-registry/tasuki/icon.svg", "currentColor", "red", "in the current colour"),
    ("homebrew/tasuki.rb", "  end\n", "", "leaves a block open"),
    ("homebrew/tasuki.rb", "a" * 64, "a" * 63, "has the sum"),
    ("homebrew/tasuki.rb", 'sha256 "', 'sha1 "', "addresses and 0 sums"),
    ("homebrew/tasuki.rb", "https:", "http:", "fetches http:"),
    ("npm/tasuki-pi/package.json", "/tasuki-handoff.ts", "/other.ts", "tasuki-pi does not pack ./extensions/other.ts"),
    ("npm/tasuki-omp/package.json", '"files": [', '"files": ["none"], "not": [', "tasuki-omp does not pack"),
    ("npm/tasuki-opencode/package.json", __version__, "0.0.1", "tasuki-opencode is version 0.0.1"),
    ("npm/tasuki-pi/package.json", '"name"', '"names"', "npm refuses tasuki-pi"),
    ("plugins/skills/handing-off/SKILL.md", "name: handing-off", "name: other", "not as its folder"),
    ("plugins/skills/handing-off/SKILL.md", "description: ", "describes: ", "has no description"),
    ("plugins/claude/.claude-plugin/plugin.json", '"name": "tasuki"', '"name": "Ta Suki"', "Claude Code refuses"),
    ("plugins/.agents/plugins/marketplace.json", "./codex", "./none", "Codex refuses"),
    ("plugins/codex/.mcp.json", '"mcp"', '"other"', "Codex finds no tools"),
]  # fmt: skip


def check_part(made: Path, scratch: Path, file: str) -> Iterator[str]:
    """What the check says that looks at a file."""
    part, skipped = file.split("/")[0], list[str]()
    if "SKILL" in file:
        yield from checks.check_skill(made / file)
    elif part == "plugins":
        yield from checks.check_plugins(made / part, scratch, skipped)
    elif part == "npm":
        yield from checks.check_npm(made / part, SOMEONE, skipped)
    elif part == "mcp-registry":
        yield from checks.check_server(checks.read_json(made / file), SOMEONE)
    elif part == "acp-registry":
        yield from checks.check_agent(made / part / "tasuki", SOMEONE)
    else:
        yield from checks.check_formula(made / file, skipped)
    if unchecked := [what for what in skipped if "ruby" not in what]:
        pytest.skip(f"not checked: {unchecked[0]}")


@pytest.mark.parametrize(("file", "old", "new", "said"), FAULTS, ids=[f[3] for f in FAULTS])
def test_a_fault_is_found(
    made: Path, tmp_path: Path, file: str, old: str, new: str, said: str
) -> None:
    """Each part with one fault in it; its check says so."""
    path = made / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    found = list(check_part(made, tmp_path, file))

    assert any(said in one for one in found), found


def describe() -> Message:
    """Metadata as it should be."""
    metadata = Message()
    for name in checks.NEEDED:
        metadata[name] = (
            "Repository, https://github.com/someone/tasuki" if name == "Project-URL" else "x"
        )
    for name in PROJECT["classifiers"]:
        metadata["Classifier"] = name
    metadata["Description-Content-Type"] = "text/markdown"
    metadata.set_payload(release.write_readme((ROOT / "README.md").read_text(), "someone"))
    return metadata


def _other_text(metadata: Message, old: str, new: str) -> None:
    text = str(metadata.get_payload())
    assert old in text
    metadata.set_payload(text.replace(old, new))


@pytest.mark.parametrize(("change", "said"), [
    (lambda m: m.__delitem__("License-File"), "no License-File"),
    (lambda m: m.__setitem__("Classifier", "Python is nice"), "is no classifier"),
    (lambda m: m.replace_header("Project-URL", "Home, https://github.com/OWNER/tasuki"), "is not of someone"),
    (lambda m: m.replace_header("Description-Content-Type", "text/plain"), "not Markdown"),
    (lambda m: _other_text(m, "https://github.com/someone/tasuki/blob/v", ""), "which only the checkout has"),
    (lambda m: _other_text(m, "mcp-name", "name"), "has no mcp-name"),
    (lambda m: _other_text(m, "# tasuki\n", ""), "has no heading"),
    (lambda m: m.__delitem__("Classifier"), "does not name Python 3.13"),
])  # fmt: skip
def test_metadata_with_a_fault_is_found(change: Callable[[Message], None], said: str) -> None:
    """README with whole links passes; each fault is named."""
    metadata = describe()
    assert list(checks.check_metadata(metadata, SOMEONE)) == []
    change(metadata)

    assert any(said in one for one in checks.check_metadata(metadata, SOMEONE))


def test_a_wheel_with_a_fault_is_found_and_does_not_get_through_the_try(tmp_path: Path) -> None:
    """Without types, licence and pages, with a picture; and one that cannot be installed ends the script."""
    wheel = tmp_path / f"tasuki-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"tasuki-{__version__}.dist-info/METADATA", "Name: tasuki\n\n# tasuki")
        archive.writestr("tasuki/docs/review.svg", "")
    found = list(checks.check_wheel(wheel, SOMEONE))

    assert found[:4] == [
        "The wheel has no tasuki/py.typed.", "The wheel has no tasuki/docs/cli.md.",
        "The wheel has no licence.", "The wheel holds tasuki/docs/review.svg.",
    ]  # fmt: skip
    with pytest.raises(SystemExit, match=r"pip"):
        release.try_installed(wheel, tmp_path / "none", tmp_path / "try")


def test_a_wheel_that_differs_from_that_of_the_sdist_ends_the_script(tmp_path: Path) -> None:
    """As where the sdist leaves something out that the wheel holds."""
    tree = tmp_path / "tree"
    release.copy_tree(tree, "someone")
    project = tree / "pyproject.toml"
    project.write_text(project.read_text().replace('"tests", "docs", ', ""))

    with pytest.raises(SystemExit, match=r"differs|docs"):
        release.build(tree, tmp_path / "dist")
