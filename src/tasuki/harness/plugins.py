"""Harnesses that other installed packages add, under the entry point group `tasuki.harness`.

A mistake in one of them costs its own threads and a warning, but never affects the others.
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
def list_targets() -> dict[str, str]:
    """Return the names that packages add, and the target of each: `package.module:Class`.

    The entry points are read only where some package mentions the group: importing their reader
    takes longer than the rest of a start.
    """
    if not any(map(_mentions_group, sys.path)):
        return {}
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=GROUP)}


@cache
def list_names() -> tuple[str, ...]:
    """Return the names of those that can be loaded; warn once about each of the others."""
    found = []
    for name in list_targets():
        try:
            load_adapter(name)
        except UsageError as error:
            _warn_once(str(error))
        else:
            found.append(name)
    return tuple(found)


@cache
def load_adapter(name: str) -> Harness:
    """Load the adapter that a package adds. Raises UsageError if it cannot be loaded."""
    target = list_targets()[name]
    module, _, attribute = target.partition(":")
    try:
        attribute_value: Any = getattr(import_module(module), attribute)
        adapter = attribute_value() if isinstance(attribute_value, type) else attribute_value
        if adapter.name != name:
            raise AttributeError(f"it calls itself {adapter.name!r}")
    except Exception as error:
        raise UsageError(
            f"The harness {name!r} cannot be loaded from {target}: {error}. "
            "Mend or uninstall the package that adds it."
        ) from error
    guarded: Any = _GuardedAdapter(adapter)
    harness: Harness = guarded
    return harness


class _GuardedAdapter:
    """An adapter whose mistakes become sentences."""

    def __init__(self, adapter: Harness) -> None:
        self._adapter = adapter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

    def list_files(self, cwd: Path | None = None) -> Iterator[ThreadFile]:
        try:
            yield from self._adapter.list_files(cwd)
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
                f"The harness {self._adapter.name!r} failed on {path}: {_describe_error(error)}. "
                "Report it to those who made the package that adds it."
            ) from error

    def _report_mistake(self, action: str, error: Exception) -> None:
        _warn_once(
            f"The harness {self._adapter.name!r} could not {action}: {_describe_error(error)}."
        )


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


@cache
def _warn_once(sentence: str) -> None:
    """Write a sentence to standard error, once."""
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
