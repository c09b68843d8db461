"""The documentation: each link leads somewhere, each command is one, each example works."""

import re
import tomllib
from itertools import chain
from pathlib import Path

import click
import msgspec
import pytest
from command_line import World
from pages import (
    USER_PAGES,
    WORKSHOP_PAGES,
    Command,
    list_anchors,
    list_blocks,
    list_commands,
    list_links,
)
from tree import ROOT, TESTS

from tasuki.cli.main import cli
from tasuki.config import settings
from tasuki.fleet.exchange.gate import HostPolicy

GENERATED = ("cli.md", "json.md", "eval-cli.md")
OFFLINE = (
    "threads",
    "find",
    "read",
    "handoff",
    "handoffs",
    "lineage",
    "show",
    "config",
    "docs",
    "doctor",
    "completion",
)
"""Commands that start nothing, so that each example of them is run here."""


def test_links_lead_somewhere() -> None:
    """Files and headings that a page links to exist."""
    broken = []
    for page in (*USER_PAGES, *WORKSHOP_PAGES):
        for link in list_links(page):
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            if not target.exists() or (anchor and anchor not in list_anchors(target)):
                broken.append(f"{page.name}: {link}")

    assert "\n".join(broken) == ""


def test_pages_are_short() -> None:
    """README explains in 500 words, all pages for users have 20,000, and lines wrap at 100 columns."""
    first_screen = (ROOT / "README.md").read_text("utf-8").partition("\n## Links")[0]
    words = sum(len(page.read_text("utf-8").split()) for page in USER_PAGES[1:])
    wide = []
    for page in (page for page in USER_PAGES if page.name not in GENERATED):
        prose = re.sub(
            r"(?ms)^ *```.*?^ *```$|^\|.*?$|^<!--.*?$|^!\[.*?$|\]\([^)]*\)",
            "",
            page.read_text("utf-8"),
        )
        wide += [f"{page.name}: {line}" for line in prose.splitlines() if len(line) > 100]

    assert len(first_screen.split()) <= 500
    assert words <= 20_000
    assert "\n".join(wide) == ""


def _parse(
    words: list[str], command: click.Command, name: str, *, parent: click.Context | None
) -> None:
    """Parse a command as the program would, without running it. Raises UsageError."""
    context = command.make_context(name, words, parent=parent)
    if isinstance(command, click.Group) and (rest := [*context._protected_args, *context.args]):
        found, sub, left = command.resolve_command(context, rest)
        assert found is not None
        assert sub is not None
        _parse(left, sub, found, parent=context)


def test_each_command_in_the_docs_is_one() -> None:
    """The program takes the options and arguments of each call of tasuki on any page."""
    wrong = []
    for found in chain.from_iterable(
        list_commands(page, inline=True)
        for page in (*USER_PAGES, *WORKSHOP_PAGES)
        if page.name not in GENERATED
    ):
        try:
            _parse(list(found.words), cli, "tasuki", parent=None)
        except click.MissingParameter:
            pass  # A sentence may name a command without all that it takes.
        except (click.exceptions.Exit, click.exceptions.NoArgsIsHelpError):
            pass  # --help, --version, a group alone
        except click.UsageError as error:
            wrong.append(f"{found.page}: {found.line}: {error.format_message()}")

    assert "\n".join(wrong) == ""


def test_each_command_in_the_docs_is_run_by_a_test() -> None:
    """What is not run below is run, with its own words, by another test."""
    called = set()
    for path in TESTS.rglob("*.py"):
        text = path.read_text("utf-8")
        called |= set(re.findall(r'"([a-z]+)",\s*"([a-z-]+)"', text))
        called |= set(re.findall(r"tasuki ([a-z]+) ([a-z-]+)", text))
    groups = {"agent", "persona", "template", "host"}
    named = {
        found.words[:2]
        for page in USER_PAGES
        if page.name not in GENERATED
        for found in list_commands(page, inline=True)
        if len(found.words) > 1 and found.words[0] in groups
    }

    assert named - called == set()


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A home in which the bundled thread is one of the project."""
    made = World(tmp_path)
    path = made.thread()
    thread = (ROOT / "demo" / "thread.jsonl").read_text("utf-8")
    path.write_text(thread.replace("/home/dev/uploader", str(made.project)))
    return made


def _list_runnable() -> list[Command]:
    """The examples that start nothing and ask nobody."""
    found = [c for page in USER_PAGES for c in list_commands(page, inline=False)]
    return [
        c
        for c in found
        if c.words and c.words[0] in OFFLINE
        and not {"--author", "--tmux", "--to-host", "--forget"} & set(c.words)
    ]  # fmt: skip


def test_the_examples_run(world: World) -> None:
    """Each example that starts nothing ends as it should, in a home with threads and a handoff."""
    made = world.run("handoff", "--json", "add the missing test for the parser")
    id = re.search(r'"id":\s*"([0-9a-f]+)"', made.stdout)
    assert id is not None
    ended = {}
    for found in _list_runnable():
        words = [word.replace("3fa9c1d2", id[1][:8]).replace("@2", "@1") for word in found.words]
        done = world.run(*words)
        if done.returncode not in (0, 1 if words[0] in ("find", "doctor") else 0):
            ended[found.line] = done.stderr

    assert len(_list_runnable()) >= 12
    assert ended == {}


def test_the_settings_in_the_docs_are_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each TOML block for tasuki's own file loads."""
    blocks = [
        text
        for page in USER_PAGES
        for text in list_blocks(page, "toml")
        if "https_address" not in text and "permissions =" not in text
    ]
    for number, text in enumerate(blocks):
        tomllib.loads(text)
        file = tmp_path / f"{number}.toml"
        file.write_text(text)
        monkeypatch.setenv("TASUKI_CONFIG", str(file))
        settings.load_settings(tmp_path)

    assert len(blocks) >= 6


def test_the_policy_in_the_docs_is_one_and_says_the_default() -> None:
    """Where the page shows what holds without a file, it is so."""
    (block,) = list_blocks(ROOT / "docs" / "machines.md", "toml")
    policy = msgspec.toml.decode(block, type=HostPolicy)

    assert HostPolicy().default == policy.default
    assert [("look",)] == [rules.may for rules in policy.hosts.values()]


def test_the_python_in_the_docs_runs() -> None:
    """The example of redaction holds; that of the API is run by its own test."""
    (block,) = list_blocks(ROOT / "docs" / "redaction.md", "python")

    exec(block, {})
