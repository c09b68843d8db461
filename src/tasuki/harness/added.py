"""Harnesses that other installed packages add, under the entry point group `tasuki.harness`.

A mistake in one of them costs its own threads and a sentence, never those of the others.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tasuki.errors import ThreadUnreadable, UsageError
from tasuki.harness.protocol import Harness, ThreadFile
from tasuki.model import Thread, ThreadHead

GROUP = "tasuki.harness"


@cache
def targets() -> dict[str, str]:
    """The names that packages add, with what each stands for: `package.module:Class`.

    The entry points are looked at only where some package mentions the group: importing what
    reads them takes longer than the rest of a start.
    """
    if not any(map(_mentions_group, sys.path)):
        return {}
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=GROUP)}


@cache
def names() -> tuple[str, ...]:
    """The names of those that can be loaded; the others are told once."""
    found = []
    for name in targets():
        try:
            loaded(name)
        except UsageError as error:
            _tell(str(error))
        else:
            found.append(name)
    return tuple(found)


@cache
def loaded(name: str) -> Harness:
    """The adapter that a package adds. Raises UsageError if it cannot be loaded."""
    target = targets()[name]
    module, _, attribute = target.partition(":")
    try:
        made: Any = getattr(import_module(module), attribute)
        adapter = made() if isinstance(made, type) else made
        if adapter.name != name:
            raise AttributeError(f"it calls itself {adapter.name!r}")
    except Exception as error:
        raise UsageError(
            f"The harness {name!r} cannot be loaded from {target}: {error}. "
            "Mend or uninstall the package that adds it."
        ) from error
    guarded: Any = _Guarded(adapter)
    harness: Harness = guarded
    return harness


class _Guarded:
    """An adapter whose mistakes become sentences."""

    def __init__(self, adapter: Harness) -> None:
        self._adapter = adapter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

    def files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        try:
            yield from self._adapter.files(cwd)
        except Exception as error:
            self._mistake("list its threads", error)

    def recognises(self, path: Path, first: bytes) -> bool:
        try:
            return self._adapter.recognises(path, first)
        except Exception as error:
            self._mistake(f"look at {path}", error)
            return False

    def head(self, file: ThreadFile) -> ThreadHead | None:
        try:
            return self._adapter.head(file)
        except Exception as error:
            self._mistake(f"read the head of {file.path}", error)
            return None

    def read(self, path: Path) -> Thread:
        try:
            return self._adapter.read(path)
        except ThreadUnreadable:
            raise
        except Exception as error:
            raise ThreadUnreadable(
                f"The harness {self._adapter.name!r} failed on {path}: {_said(error)}. "
                "Report it to those who made the package that adds it."
            ) from error

    def _mistake(self, what: str, error: Exception) -> None:
        _tell(f"The harness {self._adapter.name!r} could not {what}: {_said(error)}.")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


@cache
def _tell(sentence: str) -> None:
    """A sentence on standard error, once."""
    import logging

    logging.getLogger("tasuki").warning("tasuki: %s", sentence)


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
