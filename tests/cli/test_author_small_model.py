"""A real model writes handoffs of real threads, and nothing stands in them that the threads do not hold.

What is checked here is read from the thread's file and the brief alone, without tasuki's own checks.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from desk import GOAL, Desk, by
from fixture_threads import one
from tree import SUPPORT
from waiting import retry_until

pytest.importorskip("pydantic_ai")

THREADS = {
    "claude": "2.0.76/8a846500-*.jsonl",
    "codex": "rollout-*01a1ffee-d114-*.jsonl",
    "pi": "interrupt-and-error.jsonl",
    "gemini": "resumed.jsonl",
}
"""A small captured thread of each harness."""
WINDOW = 3_000
"""Less than the model has: its answer without a schema fills a quarter, at some 30 tokens a second."""
SECONDS = 600
SECTIONS = (
    "Where the thread stopped",
    "State of the work",
    "What the user asked for and ruled",
    "Context (from previous thread)",
    "Key Decisions",
    "Open Questions / Risks",
    "The last steps",
    "Relevant Files",
    "Relevant Commands",
)
_PATH = re.compile(r"(?<![\w/.])(?:~|\.{1,2})?/?[\w.@+-]+(?:/[\w.@+-]+)+/?|\b[\w-]+\.[a-z]{1,4}\b")
_QUOTE = re.compile(r'^- (?:[^"`]*: )?"(.+?)"(?: — .*)?(?: \[#[^\]]*\])?$')
_COMMAND = re.compile(r"^- (`+) ?(.+?) ?\1(?: — .*)?(?: \[#[^\]]*\])?$")
_CODE = re.compile(r"(?<!`)(`+)(?!`) ?(.+?) ?(?<!`)\1(?!`)")
ALSO = "- also: "
"""How the line begins that bare files or commands share."""


def held(path: Path) -> str:
    """Every text of a thread file, JSON inside strings read as well, on one line."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return " ".join(" ".join(_texts(lines)).split())


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
    elif isinstance(value, str):
        yield value
        if value[:1] in ("{", "["):
            try:
                yield from _texts(json.loads(value))
            except ValueError:
                pass


def sections(brief: str) -> dict[str, list[str]]:
    """The lines of a brief's record, by heading."""
    record = brief.split("<record-of-the-past>\n")[1].split("\n</record-of-the-past>")[0]
    found: dict[str, list[str]] = {}
    for part in re.split(r"^## ", record, flags=re.MULTILINE)[1:]:
        heading, _, lines = part.partition("\n")
        found[heading] = [line for line in lines.splitlines() if line]
    return found


def invented(brief: str, path: Path) -> list[str]:
    """Paths, commands and quotes of the user in a brief that its thread does not hold."""
    thread, found = held(path), []
    for heading, lines in sections(brief).items():
        if heading not in SECTIONS:
            continue
        for line in lines:
            claims = _PATH.findall(re.sub(r" \[#[^\]]*\]$", "", line))
            if quote := _QUOTE.match(line):
                claims.append(quote[1])
            if heading == "Relevant Commands":
                claims += commands(line)
            found += [claim for claim in claims if claim.removesuffix(" …") not in thread]
    return found


def commands(line: str) -> list[str]:
    """The commands that a line names: one, or all of the line that bare ones share; else the line."""
    if line.startswith(ALSO):
        return [match[2] for match in _CODE.finditer(line)] or [line]
    command = _COMMAND.match(line)
    return [command[2] if command else line]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A user with a home, a project and tasuki."""
    return Desk(tmp_path)


@pytest.mark.parametrize(
    ("harness", "json_schema"),
    [*((harness, True) for harness in THREADS), ("pi", False)],
)
@pytest.mark.long
def test_a_real_model_invents_nothing(
    desk: Desk, small_model: str, harness: str, json_schema: bool
) -> None:
    """With a JSON schema and without, the brief of a real model holds what is in the thread alone."""
    desk.asks(
        small_model.removesuffix("/v1"),
        settings=f"author_seconds = {SECONDS}",
        window=WINDOW,
        json_schema=json_schema,
    )
    path = one(harness, THREADS[harness])
    document = desk.handoff(path)

    made, brief = by(document), document["brief"]
    offered, dropped = sum(made["proposed"].values()), sum(made["dropped"].values())
    assert brief.startswith("# Handoff Context\n")
    assert brief.endswith(f"## Next Goal (verbatim)\n{GOAL}")
    assert invented(brief, path) == []
    assert (made["author"], made["fell"]) in (("model", []), ("offline", made["fell"]))
    assert made["author"] == "offline" or offered >= dropped > 0
    assert made["author"] == "model" or len(made["fell"]) == 1


def test_the_check_finds_inventions() -> None:
    """The check of this file sees paths, commands and a quote that a thread does not hold."""
    path = one("claude", THREADS["claude"])
    lines = """# Handoff Context
<record-of-the-past>
## Key Decisions
- User: "Use ghosts, please" [#1]
- The `src/ghost.py` decides. [#2]

## Relevant Files
- ghost.toml — edited 2× [#3]
- also: src/spook.py, spook.toml

## Relevant Commands
- `make ghost` — failed [#4]
- ``echo `ghost` `` [#5]
- also: `make spook` [#6], ``echo `spook` ``
</record-of-the-past>
"""
    found = ["Use ghosts, please", "src/ghost.py", "ghost.toml", "src/spook.py", "spook.toml",
             "make ghost", "echo `ghost`", "make spook", "echo `spook`"]  # fmt: skip

    assert invented(lines, path) == found


@pytest.mark.long
def test_the_server_ends_with_its_parent(small_model: str, tmp_path: Path) -> None:
    """A child that serves the model is gone soon after its parent was killed."""
    program = (
        "import subprocess, sys, time\n"
        f"sys.path[:0] = [{str(SUPPORT)!r}]\n"
        "import small_model\n"
        "command = [sys.executable, small_model.__file__, str(small_model.model_file())]\n"
        "child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:  # fmt: skip
        assert parent.stdout
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)

    assert retry_until(lambda: not _runs(child), 20)


def _runs(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    said: Any = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return said.stdout.strip()[:1] not in ("", "Z") and os.getpid() != pid
