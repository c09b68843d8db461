"""Harness adapters, by name: built-in ones, and those that other installed packages add.

Packages add theirs under the entry point group `tasuki.harness`. A mistake in one of them costs
its own threads and a warning, but never affects the others.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from tasuki.errors import NotPossible, ThreadNotFound, ThreadUnreadable, UsageError
from tasuki.files import find_home_folder
from tasuki.harness.integration import HarnessIntegration
from tasuki.harness.optional import call_optional, get_facts
from tasuki.harness.protocol import AgentControl, Harness, HarnessFacts, ThreadFile
from tasuki.harness.reading.jsonl import BYTE_ORDER_MARK
from tasuki.model import Thread, ThreadHead

BUILT_IN = {
    "claude": "tasuki.harness.claude.adapter:Claude",
    "codex": "tasuki.harness.codex.adapter:Codex",
    "tasuki": "tasuki.harness.pi_v3.adapter:TasukiSessions",
    "pi": "tasuki.harness.pi_v3.adapter:Pi",
    "omp": "tasuki.harness.pi_v3.adapter:Omp",
    "gemini": "tasuki.harness.gemini.adapter:Gemini",
    "copilot": "tasuki.harness.copilot.adapter:Copilot",
    "opencode": "tasuki.harness.opencode.adapter:Opencode",
}

DEFAULT = "claude"
"""The harness of an agent for which nobody names one."""
SESSION_FORMAT = "pi"
"""The harness in whose format tasuki writes its own sessions."""

_HOMES = {
    "codex": ("CODEX_HOME", ".codex"),
    "gemini": ("GEMINI_CLI_HOME", ".gemini"),
    "copilot": ("COPILOT_HOME", ".copilot"),
}
"""Variables that move the folder of a program, and its place in the home folder without them.

For programs that keep all threads there, and whose adapters take time to load.
"""


def may_have_threads(name: str) -> bool:
    """Return whether a harness may have threads here, without loading its adapter."""
    if name not in _HOMES:
        return True
    variable, folder = _HOMES[name]
    try:
        return bool(os.environ.get(variable) or os.lstat(find_home_folder() / folder))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # The adapter notes that it cannot be read.


def list_names() -> tuple[str, ...]:
    """Return the names of all harnesses in the order they are tried: built-in ones first."""
    return (*BUILT_IN, *(name for name in list_plugin_names() if name not in BUILT_IN))


@cache
def get_harness(name: str) -> Harness:
    """Return the adapter of one harness. Raises UsageError for an unknown name."""
    if name not in BUILT_IN:
        if name in list_plugin_targets():
            return load_plugin(name)
        import difflib

        near = difflib.get_close_matches(name, list_names(), n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise UsageError(f"Unknown harness {name!r}.{hint} Known: {', '.join(list_names())}.")
    module, _, attribute = BUILT_IN[name].partition(":")
    return cast(Harness, getattr(import_module(module), attribute)())


def find_facts(name: str) -> HarnessFacts:
    """Return what is known of a program by its harness's name; nothing for an unknown one."""
    return get_facts(get_harness(name)) if name in list_names() else HarnessFacts()


@cache
def list_child_variables() -> tuple[str, ...]:
    """List the variables that any harness sets for the programs that it starts."""
    return tuple(variable for name in list_names() for variable in find_facts(name).child_variables)


def get_integration(harness: Harness) -> HarnessIntegration | None:
    """Return what tasuki can add to a harness; None also for an adapter without this method."""
    return cast(HarnessIntegration | None, call_optional(harness, "get_integration"))


def get_control(harness: Harness) -> AgentControl | None:
    """Return how agents of a harness are run in a fleet; None also for an adapter without this method."""
    return cast(AgentControl | None, call_optional(harness, "get_control"))


def is_signed_in(harness: Harness) -> bool | None:
    """Tell whether a harness has credentials on this machine; None where that is not known."""
    return cast(bool | None, call_optional(harness, "is_signed_in"))


def require_control(name: str) -> AgentControl:
    """Return how agents of a harness are run in a fleet. Raises NotPossible, UsageError."""
    if (control := get_control(get_harness(name))) is None:
        raise NotPossible(f"tasuki cannot run agents of {name}.")
    return control


def get_containing_file(path: Path) -> Path:
    """Return the file that holds a thread, which is the database for one that is named below it."""
    return path.parent if path.parent.is_file() else path


def detect_harness(path: Path) -> Harness:
    """Return the harness whose thread a file is, judged by the file's first bytes.

    Raises ThreadNotFound if there is no such file, ThreadUnreadable if it is empty, cannot be
    opened, or no adapter knows its format.
    """
    try:
        with get_containing_file(path).open("rb") as file:
            first = file.read(8192).removeprefix(BYTE_ORDER_MARK).lstrip(b"\0")
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


@cache
def list_plugin_targets() -> dict[str, str]:
    """Return the names that packages add, in alphabetical order, and the target of each.

    A target is `package.module:Class`. The files of the packages are read here: `importlib.metadata`
    takes longer than the rest of a start.
    """
    found: dict[str, str] = {}
    for folder in sys.path:  # The first one on the path counts, as it does for imports.
        for name, target in _find_targets(folder):
            found.setdefault(name, target)
    return dict(sorted(found.items()))


@cache
def list_plugin_names() -> tuple[str, ...]:
    """Return the names of those that can be loaded; warn once about each of the others."""
    found = []
    for name in list_plugin_targets():
        try:
            load_plugin(name)
        except UsageError as error:
            _warn_once(str(error))
        else:
            found.append(name)
    return tuple(found)


@cache
def load_plugin(name: str) -> Harness:
    """Load the adapter that a package adds. Raises UsageError if it cannot be loaded."""
    target = list_plugin_targets()[name]
    module, _, attribute = target.partition(":")
    try:
        attribute_value: Any = getattr(import_module(module), attribute)
        adapter = attribute_value() if isinstance(attribute_value, type) else attribute_value
        if adapter.name != name:
            raise AttributeError(f"it calls itself {adapter.name!r}")
    except Exception as error:
        raise UsageError(
            f"The harness {name!r} cannot be loaded from {target}: {error}. "
            "Fix or uninstall the package that adds it."
        ) from error
    return cast(Harness, _GuardedAdapter(adapter))


class _GuardedAdapter:
    """An adapter whose mistakes become sentences."""

    def __init__(self, adapter: Harness) -> None:
        self._adapter = adapter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

    def list_files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        try:
            yield from self._adapter.list_files(cwd)
        except UsageError:
            raise
        except Exception as error:
            self._report_mistake("list its threads", error)

    def is_thread_file(self, path: Path, first: bytes) -> bool:
        try:
            return self._adapter.is_thread_file(path, first)
        except Exception as error:
            self._report_mistake(f"look at {path}", error)
            return False

    def read_head(self, file: ThreadFile) -> ThreadHead | None:
        try:
            return self._adapter.read_head(file)
        except Exception as error:
            self._report_mistake(f"read the head of {file.path}", error)
            return None

    def read(self, path: Path) -> Thread:
        try:
            return self._adapter.read(path)
        except ThreadUnreadable:
            raise
        except Exception as error:
            raise ThreadUnreadable(
                f"The harness {self._adapter.name!r} failed on {path}: {type(error).__name__}: {error}. "
                "Report it to the maintainers of the package that adds it."
            ) from error

    def _report_mistake(self, action: str, error: Exception) -> None:
        what = f"{type(error).__name__}: {error}"
        _warn_once(f"The harness {self._adapter.name!r} could not {action}: {what}.")


@cache
def _warn_once(sentence: str) -> None:
    """Write a sentence to standard error, once."""
    import logging

    logging.getLogger("tasuki").warning("tasuki: %s", sentence)


def _find_targets(folder: str) -> Iterator[tuple[str, str]]:
    """Find the names and targets that packages in a folder of `sys.path` add.

    Format: entry_points.txt of the entry points specification of PyPA.
    """
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith((".dist-info", ".egg-info")):
                with suppress(OSError), open(f"{entry.path}/entry_points.txt", "rb") as file:
                    yield from _parse_targets(file.read().decode("utf-8", "replace"))


def _parse_targets(text: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in map(str.strip, text.splitlines()):
        name, _, target = line.partition("=")
        if line.startswith("["):
            section = line
        elif section == "[tasuki.harness]" and target and line[0] not in "#;":
            yield name.strip(), target.partition("[")[0].strip()
