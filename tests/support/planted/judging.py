"""Which planted facts a brief keeps, which decoys it leaks, and trivial briefs to compare with."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tree import ROOT

from planted import backend, firmware, infra, mobile, pipeline
from planted.script import Decoy, Fact, Script, holds

SOURCE = ROOT / "src"
BUDGET = 1500
CHARACTERS = BUDGET * 4
BUILDERS: tuple[Callable[[bool, int], Script], ...] = (
    backend.build, mobile.build, pipeline.build, firmware.build, infra.build,
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """What became of one thread in one brief."""

    name: str
    entries: int
    size: int
    kept: tuple[Fact, ...]
    lost: tuple[Fact, ...]
    held_out_kept: tuple[Fact, ...]
    held_out_lost: tuple[Fact, ...]
    leaked: tuple[tuple[Decoy, str], ...]


@cache
def scripts(with_held_out: bool = False, variant: int = 0) -> list[Script]:
    """The five threads; a `variant` has the same facts among other talk."""
    return [build(with_held_out, variant) for build in BUILDERS]


def lines(brief: str) -> Iterator[tuple[str, str]]:
    """Heading and text of every line of a brief that says something."""
    heading = ""
    for line in brief.splitlines():
        if line.startswith("#"):
            heading = line
        elif line.strip():
            yield heading, line


def verdict(script: Script, brief: str) -> Verdict:
    """Judges a brief without its goal, line by line."""
    said = list(lines(brief))

    def kept(fact: Fact) -> bool:
        return any(holds(line, fact.needs, fact.unless) for _, line in said)

    def leak(decoy: Decoy) -> str:
        found = (line for h, line in said if holds(line, decoy.needs, decoy.unless, h))
        return next(found, "")

    facts = {(f.held_out, kept(f)): () for f in script.facts}
    for fact in script.facts:
        key = (fact.held_out, kept(fact))
        facts[key] = (*facts[key], fact)
    return Verdict(
        name=script.name,
        entries=script.entries,
        size=len(brief),
        kept=facts.get((False, True), ()),
        lost=facts.get((False, False), ()),
        held_out_kept=facts.get((True, True), ()),
        held_out_lost=facts.get((True, False), ()),
        leaked=tuple((d, line) for d in script.decoys if (line := leak(d))),
    )


def of_tasuki(script: Script, folder: Path) -> str:
    """The brief without its goal, as the command line prints it.

    Raises RuntimeError with what the command said when it fails.
    """
    path = script.thread.write(folder / script.thread.file_name())
    given = ("--from", str(path), "--budget", str(BUDGET), script.goal)
    result = subprocess.run(
        (sys.executable, "-m", "tasuki", "handoff", "--print", *given),
        cwd=folder,
        env={
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(SOURCE),
            "TASUKI_DATA": str(folder / "data"),
            "TASUKI_CONFIG": str(folder / "none.toml"),
            "LANG": "C.UTF-8",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if result.returncode:
        raise RuntimeError(f"{script.name}: exit code {result.returncode}\n{result.stderr}")
    return without_goal(result.stdout)


def without_goal(brief: str) -> str:
    """A brief up to the heading of its goal."""
    return re.split(r"(?m)^## Next Goal.*$", brief)[0].rstrip() + "\n"


def of_last_messages(script: Script) -> str:
    """As many of the last messages as fit, each on one line."""
    return _fitting(reversed(script.messages))


def of_first_and_last(script: Script) -> str:
    """The first message of the user and as many of the user's last ones as fit."""
    first, *others = [m for m in script.messages if m[0] == "user"]
    return _fitting([first, *reversed(others)])


def _fitting(messages: Iterable[tuple[str, str]]) -> str:
    text = ""
    for role, said in messages:
        line = f"{role}: {' '.join(said.split())}\n"
        if len(text) + len(line) > CHARACTERS:
            break
        text += line
    return text
