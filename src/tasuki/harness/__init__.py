"""Harness adapters, by name. Other packages add theirs under the entry point `tasuki.harness`."""

from functools import cache
from importlib import import_module
from pathlib import Path

from tasuki.errors import ThreadNotFound, ThreadUnreadable, UsageError
from tasuki.harness import added
from tasuki.harness.control import Control
from tasuki.harness.integration import Integration
from tasuki.harness.jsonl import BYTE_ORDER_MARK
from tasuki.harness.protocol import Harness

BUILT_IN = {
    "claude": "tasuki.harness.claude:Claude",
    "codex": "tasuki.harness.codex:Codex",
    "tasuki": "tasuki.harness.tasuki_sessions:TasukiSessions",
    "pi": "tasuki.harness.pi:Pi",
    "omp": "tasuki.harness.omp:Omp",
    "gemini": "tasuki.harness.gemini:Gemini",
    "copilot": "tasuki.harness.copilot:Copilot",
    "opencode": "tasuki.harness.opencode:Opencode",
    "aider": "tasuki.harness.aider:Aider",
    "specstory": "tasuki.harness.specstory:SpecStory",
}


def names() -> tuple[str, ...]:
    """Names of all harnesses, in the order they are tried: the built-in ones first."""
    return (*BUILT_IN, *(name for name in added.names() if name not in BUILT_IN))


@cache
def get(name: str) -> Harness:
    """The adapter of one harness. Raises UsageError for a name nobody knows."""
    if name not in BUILT_IN:
        if name in added.targets():
            return added.loaded(name)
        raise UsageError(f"Unknown harness {name!r}. Known: {', '.join(names())}.")
    module, _, attribute = BUILT_IN[name].partition(":")
    harness: Harness = getattr(import_module(module), attribute)()
    return harness


def integration(harness: Harness) -> Integration | None:
    """What tasuki can add to a harness; None too for an adapter from before there was that."""
    found = getattr(harness, "integration", None)
    return found() if found else None


def control(harness: Harness) -> Control | None:
    """How agents of a harness are run in a fleet; None too for an adapter from before there was that."""
    found = getattr(harness, "control", None)
    return found() if found else None


def file_of(path: Path) -> Path:
    """The file that holds a thread: one in a database is named as if it were a file below it."""
    return path.parent if path.parent.is_file() else path


def of_file(path: Path) -> Harness:
    """The harness whose thread a file is, from its first bytes.

    Raises ThreadNotFound if there is no such file, ThreadUnreadable if it is empty, cannot be
    opened, or no adapter knows its format.
    """
    try:
        with file_of(path).open("rb") as file:
            first = file.read(8192).removeprefix(BYTE_ORDER_MARK)
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise ThreadNotFound(f"No file {path}. List threads with: tasuki threads --all") from exc
    except OSError as exc:
        raise ThreadUnreadable(f"Cannot open {path}: {exc.strerror}.") from exc
    if not first.strip():
        raise ThreadUnreadable(
            f"{path} is empty. The harness may not have written its first message yet; try again."
        )
    for name in names():
        if get(name).recognises(path, first):
            return get(name)
    raise ThreadUnreadable(
        f"{path} is not a thread of a known harness ({', '.join(names())}). "
        "Name the thread's own file, or list threads with: tasuki threads --all"
    )
