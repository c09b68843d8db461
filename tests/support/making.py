"""Making handoffs in tests the way the command line does, without a terminal."""

from pathlib import Path
from typing import Any

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.draft import brief, pipeline
from tasuki.draft.facts.derive import DerivedFacts, derive_facts
from tasuki.harness import registry as harnesses
from tasuki.model import Goal, Thread
from tasuki_testing import ThreadBuilder

GOAL = "make the retries configurable and cover them with a test"
ID = "ab12cd34" * 4
SECTIONS = (
    "stopped", "state", "asked", "previous", "context", "decisions", "questions", "steps", "drift", "files", "commands",
)  # fmt: skip
"""The sections of a draft that cite entries."""


def thread_of(builder: ThreadBuilder, folder: Path) -> Thread:
    """A built thread, written and read back by the real adapter."""
    path = builder.write(folder / builder.file_name())
    return harnesses.detect_harness(path).read(path)


def derived(builder: ThreadBuilder, folder: Path, goal: str = "") -> DerivedFacts:
    """The facts of a built thread."""
    return derive_facts(thread_of(builder, folder), None, goal)


def made(path: Path, goal: str = GOAL, **settings: Any) -> pipeline.HandoffResult:
    """A handoff of a thread file."""
    harness = harnesses.detect_harness(path)
    return pipeline.make_handoff(
        harness,
        path,
        Goal(text=goal),
        LoadedSettings(Settings(**settings)),
        handoff_id=ID,
        to=harness.name,
    )


def brief_of(path: Path, goal: str = GOAL, **settings: Any) -> str:
    """The brief of a thread file."""
    return brief.join_brief(made(path, goal, **settings).context, goal)


def built(builder: ThreadBuilder, folder: Path, goal: str = GOAL, **settings: Any) -> str:
    """The brief of a built thread."""
    return brief_of(builder.write(folder / builder.file_name()), goal, **settings)
