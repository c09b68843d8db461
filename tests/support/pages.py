"""The pages of the documentation: their blocks, the commands in them, their links."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tree import ROOT

USER_PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
WORKSHOP_PAGES = (
    ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "bench" / "README.md",
    *(p for p in sorted((ROOT / "workshop").glob("*.md")) if p.name != "history.md"),
)  # fmt: skip
PLACEHOLDERS = {
    "ID": "3", "3fa9c1d2": "3fa9c1d2", "HOST": "build2", "HARNESS": "claude", "GOAL": "add the missing test", "…": "add the missing test",
}  # fmt: skip
"""What stands for a value in a command, and a value that could be there."""
_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


class Command(NamedTuple):
    """One command of a page: its words, without a comment, a pipe or a redirection behind it."""

    page: str
    line: str
    words: tuple[str, ...]


def list_blocks(page: Path, *languages: str) -> list[str]:
    """List the fenced blocks of a page in these languages, without their common indent."""
    found = _FENCE.findall(page.read_text("utf-8"))
    return [re.sub(r"(?m)^ {3}", "", text) if text.startswith("   ") else text
            for language, text in found if language in languages]  # fmt: skip


def list_shell_lines(page: Path) -> list[str]:
    """List the lines of `sh` blocks, and those of `console` blocks behind a `$`."""
    lines = [line for block in list_blocks(page, "sh") for line in block.splitlines()]
    shown = [line for block in list_blocks(page, "console") for line in block.splitlines()]
    return [*lines, *(line[2:] for line in shown if line.startswith("$ "))]


def list_commands(page: Path, *, inline: bool) -> Iterator[Command]:
    """List the calls of tasuki on a page, in its blocks and, with `inline`, within its sentences."""
    lines = list_shell_lines(page)
    if inline:
        prose = _FENCE.sub("", page.read_text("utf-8"))
        lines += [text for text in re.findall(r"`([^`\n]+)`", prose) if text.startswith("tasuki ")]
    for line in lines:
        for part in re.split(r" \| | && ", line.partition("  #")[0]):
            if re.match(r"tasuki( |$)", part):
                words = shlex.split(part.partition(" > ")[0])[1:]
                yield Command(
                    page.name, line, tuple(PLACEHOLDERS.get(word, word) for word in words)
                )


def list_links(page: Path) -> list[str]:
    """List the links to files and headings of the repository."""
    prose = _FENCE.sub("", page.read_text("utf-8"))
    return [link for link in _LINK.findall(prose) if not link.startswith(("http:", "https:"))]


def list_anchors(page: Path) -> set[str]:
    """List the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"(?m)^#+ (.+)$", _FENCE.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
