"""Harness adapters, by name. Other packages add theirs under the entry point `tasuki.harness`."""

from functools import cache
from importlib import import_module
from pathlib import Path

from tasuki.errors import NotPossible, ThreadNotFound, ThreadUnreadable, UsageError
from tasuki.harness import plugins
from tasuki.harness.integration import HarnessIntegration
from tasuki.harness.protocol import AgentControl, Harness
from tasuki.harness.reading.jsonl import BYTE_ORDER_MARK

BUILT_IN = {
    "claude": "tasuki.harness.claude.adapter:Claude",
    "codex": "tasuki.harness.codex.adapter:Codex",
    "tasuki": "tasuki.harness.tasuki_sessions:TasukiSessions",
    "pi": "tasuki.harness.pi:Pi",
    "omp": "tasuki.harness.omp:Omp",
    "gemini": "tasuki.harness.gemini.adapter:Gemini",
    "copilot": "tasuki.harness.copilot.adapter:Copilot",
    "opencode": "tasuki.harness.opencode.adapter:Opencode",
    "aider": "tasuki.harness.aider.adapter:Aider",
    "specstory": "tasuki.harness.specstory.adapter:SpecStory",
}


def list_names() -> tuple[str, ...]:
    """Return the names of all harnesses in the order they are tried: built-in ones first."""
    return (*BUILT_IN, *(name for name in plugins.list_names() if name not in BUILT_IN))


@cache
def get_harness(name: str) -> Harness:
    """Return the adapter of one harness. Raises UsageError for an unknown name."""
    if name not in BUILT_IN:
        if name in plugins.list_targets():
            return plugins.load_adapter(name)
        raise UsageError(f"Unknown harness {name!r}. Known: {', '.join(list_names())}.")
    module, _, attribute = BUILT_IN[name].partition(":")
    harness: Harness = getattr(import_module(module), attribute)()
    return harness


def get_integration(harness: Harness) -> HarnessIntegration | None:
    """Return what tasuki can add to a harness, or None.

    It is also None for an adapter that was written before integrations existed.
    """
    method = getattr(harness, "get_integration", None)
    return method() if method else None


def get_control(harness: Harness) -> AgentControl | None:
    """Return how agents of a harness are run in a fleet, or None.

    It is also None for an adapter that was written before fleets existed.
    """
    method = getattr(harness, "get_control", None)
    return method() if method else None


def require_control(name: str) -> AgentControl:
    """Return how agents of a harness are run in a fleet. Raises NotPossible, UsageError."""
    if (control := get_control(get_harness(name))) is None:
        raise NotPossible(f"tasuki cannot run agents of {name}.")
    return control


def get_containing_file(path: Path) -> Path:
    """Return the file that holds a thread.

    A thread in a database is named as if it were a file below the database.
    """
    return path.parent if path.parent.is_file() else path


def detect_harness(path: Path) -> Harness:
    """Return the harness whose thread a file is, judged by the file's first bytes.

    Raises ThreadNotFound if there is no such file, ThreadUnreadable if it is empty, cannot be
    opened, or no adapter knows its format.
    """
    try:
        with get_containing_file(path).open("rb") as file:
            first = file.read(8192).removeprefix(BYTE_ORDER_MARK)
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise ThreadNotFound(f"No file {path}. List threads with: tasuki threads --all") from exc
    except OSError as exc:
        raise ThreadUnreadable(f"Cannot open {path}: {exc.strerror}.") from exc
    if not first.strip():
        raise ThreadUnreadable(
            f"{path} is empty. The harness may not have written its first message yet; try again."
        )
    for name in list_names():
        if get_harness(name).is_thread_file(path, first):
            return get_harness(name)
    raise ThreadUnreadable(
        f"{path} is not a thread of a known harness ({', '.join(list_names())}). "
        "Name the thread's own file, or list threads with: tasuki threads --all"
    )
