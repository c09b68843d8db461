"""Harness adapters, by name. Other packages add theirs under the entry point `tasuki.harness`."""

import os
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

from tasuki.errors import ThreadNotFound, ThreadUnreadable, UsageError
from tasuki.harness.protocol import Harness

BUILT_IN = {
    "claude": "tasuki.harness.claude:Claude",
    "codex": "tasuki.harness.codex:Codex",
    "pi": "tasuki.harness.pi:Pi",
    "omp": "tasuki.harness.omp:Omp",
    "gemini": "tasuki.harness.gemini:Gemini",
    "copilot": "tasuki.harness.copilot:Copilot",
    "opencode": "tasuki.harness.opencode:Opencode",
    "aider": "tasuki.harness.aider:Aider",
    "specstory": "tasuki.harness.specstory:SpecStory",
}


GROUP = "tasuki.harness"


def names() -> tuple[str, ...]:
    """Names of all harnesses, in the order they are tried: the built-in ones first."""
    return (*BUILT_IN, *(name for name in _added() if name not in BUILT_IN))


@cache
def get(name: str) -> Harness:
    """The adapter of one harness. Raises UsageError for a name nobody knows."""
    target = BUILT_IN.get(name) or _added().get(name)
    if target is None:
        raise UsageError(f"Unknown harness {name!r}. Known: {', '.join(names())}.")
    module, _, attribute = target.partition(":")
    try:
        harness: Harness = getattr(import_module(module), attribute)()
    except (ImportError, AttributeError) as exc:
        raise UsageError(
            f"The harness {name!r} cannot be loaded from {target}: {exc}. "
            "Mend or uninstall the package that adds it."
        ) from exc
    return harness


@cache
def _added() -> dict[str, str]:
    """Harnesses that other installed packages add, with the class of each.

    The entry points are looked at only where some package mentions the group: importing what
    reads them takes longer than the rest of a start.
    """
    if not any(map(_mentions_group, sys.path)):
        return {}
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=GROUP)}


def _mentions_group(folder: str) -> bool:
    try:
        for entry in os.scandir(folder):
            if entry.name.endswith((".dist-info", ".egg-info")):
                with suppress(OSError), open(f"{entry.path}/entry_points.txt", "rb") as file:
                    if GROUP.encode() in file.read():
                        return True
    except OSError:
        pass
    return False


def of_file(path: Path) -> Harness:
    """The harness whose thread a file is, from its first bytes.

    A thread in a database is named as if it were a file below it. Raises ThreadNotFound if there
    is no such file, ThreadUnreadable if it is empty, cannot be opened, or no adapter knows its
    format.
    """
    holder = path.parent if path.parent.is_file() else path
    try:
        with holder.open("rb") as file:
            first = file.read(8192)
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
