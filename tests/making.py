"""Making handoffs in tests the way the command line does, without a terminal."""

from pathlib import Path
from typing import Any

from tasuki import harness as harnesses
from tasuki.config import Loaded, Settings
from tasuki.draft import brief, pipeline
from tasuki.draft.facts import Derived, derive
from tasuki.model import Goal, Thread
from tasuki.testing import ThreadBuilder

GOAL = "make the retries configurable and cover them with a test"
ID = "ab12cd34" * 4


def thread_of(builder: ThreadBuilder, folder: Path) -> Thread:
    """A built thread, written and read back by the real adapter."""
    path = builder.write(folder / builder.file_name())
    return harnesses.of_file(path).read(path)


def derived(builder: ThreadBuilder, folder: Path, goal: str = "") -> Derived:
    """The facts of a built thread."""
    return derive(thread_of(builder, folder), None, goal)


def made(path: Path, goal: str = GOAL, **settings: Any) -> pipeline.Made:
    """A handoff of a thread file."""
    harness = harnesses.of_file(path)
    return pipeline.make(
        harness, path, Goal(text=goal), Loaded(Settings(**settings)), handoff_id=ID, to=harness.name
    )


def brief_of(path: Path, goal: str = GOAL, **settings: Any) -> str:
    """The brief of a thread file."""
    return brief.join(made(path, goal, **settings).context, goal)


def built(builder: ThreadBuilder, folder: Path, goal: str = GOAL, **settings: Any) -> str:
    """The brief of a built thread."""
    return brief_of(builder.write(folder / builder.file_name()), goal, **settings)
