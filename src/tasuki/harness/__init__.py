"""Harness adapters, by name. Other packages add theirs under the entry point `tasuki.harness`."""

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
}


def names() -> tuple[str, ...]:
    """Names of the built-in harnesses, in the order they are tried."""
    return tuple(BUILT_IN)


@cache
def get(name: str) -> Harness:
    """The adapter of one harness. Raises UsageError for a name nobody knows."""
    target = BUILT_IN.get(name) or _entry_point(name)
    if target is None:
        raise UsageError(f"Unknown harness {name!r}. Known: {', '.join(BUILT_IN)}.")
    module, _, attribute = target.partition(":")
    harness: Harness = getattr(import_module(module), attribute)()
    return harness


def _entry_point(name: str) -> str | None:
    from importlib.metadata import entry_points

    return next((e.value for e in entry_points(group="tasuki.harness", name=name)), None)


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
    for name in BUILT_IN:
        if get(name).recognises(path, first):
            return get(name)
    raise ThreadUnreadable(
        f"{path} is not a thread of a known harness ({', '.join(BUILT_IN)}). "
        "Name the thread's own file, or list threads with: tasuki threads --all"
    )
