"""The one installer: adds our parts to a harness's own files, and removes exactly those again.

The exact text of every addition is recorded, so that removing it restores a file byte for
byte. Without the record, or where somebody changed the text since, our part is known by its
mark.
"""

import itertools
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from tasuki.config.json_text import NotJson
from tasuki.config.toml_text import NotToml
from tasuki.errors import InstallFailed
from tasuki.harness.integration import Addition
from tasuki.harness.reading.jsonl import UNDECODABLE
from tasuki.install import edits
from tasuki.install.edits import InstalledAddition, build_installed_addition
from tasuki.install.files import (
    LOCK,
    find_missing_folders,
    hold_lock,
    is_replaceable,
    read_content,
    remove_empty_folders,
    replace_files,
)
from tasuki.patterns import compile_pattern

RECORD = "installed.json"
_PROGRAM = compile_pattern(
    r"'(/[^']*/(?:tasuki|python[0-9.]*))'|(?<![^\s'\"(;|])(/[^\s'\";|]*/(?:tasuki|python[0-9.]*))(?![^\s'\";|\]])"
)


class InstallRecord(Struct):
    """What was installed in each harness, in the order of installation."""

    version: int = 1
    harnesses: dict[str, list[InstalledAddition]] = {}
    folders: tuple[str, ...] = ()
    """Folders that were created for this record, the outermost first."""

    def encode(self) -> bytes:
        """Return it as the text of its file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1)


class InstallStep(Struct, frozen=True):
    """What happens to one addition; `text` is what is put into the file, or removed from it.

    `action` is add, replace (an older one of tasuki's), remove, there (nothing to do), foreign
    (another program's entry is in its place, and is left unchanged), by_hand (the file cannot be
    written, so that the user has to do it).
    """

    action: str
    path: str
    what: str
    text: str = ""


class InstallPlan(Struct, frozen=True):
    """What is to be done for one harness. `files` holds new contents, None for a deleted file."""

    steps: tuple[InstallStep, ...]
    files: dict[str, bytes | None]
    before: dict[str, bytes | None]
    folders: tuple[str, ...] = ()
    """Folders that are deleted if they are empty then."""
    damaged: str = ""
    """Where an unreadable record of what was installed is kept; empty if it could be read."""
    to_remove: dict[str, str] = {}
    to_add: dict[str, str] = {}
    """For each file that cannot be written the text that the user has to remove or to add."""

    @property
    def has_work(self) -> bool:
        """Whether anything is left to do, by tasuki or by hand."""
        return self.has_changes or bool(self.to_remove or self.to_add)

    @property
    def has_changes(self) -> bool:
        """Whether anything is written."""
        return any(step.action in ("add", "replace", "remove") for step in self.steps)


class InstalledPart(Struct, frozen=True):
    """One thing that tasuki adds: there, replace (an older one is), add (none is), foreign."""

    what: str
    path: str
    state: str
    programs: tuple[str, ...] = ()
    """Those that it runs, by their whole paths."""


def _find_programs(value: Any) -> Iterator[str]:
    """Find our programs that a value names, in a shell command or alone."""
    if isinstance(value, str):
        yield from (found[1] or found[2] for found in _PROGRAM.finditer(value))
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _find_programs(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _find_programs(inner)


def find_own_command() -> tuple[str, ...]:
    """Return the command that runs this tasuki; its program is a whole path that needs no PATH."""
    called = os.path.abspath(sys.argv[0])
    sibling = os.path.join(os.path.dirname(sys.executable), "tasuki")
    for program in (called, sibling, shutil.which("tasuki") or ""):
        runs = os.path.isfile(program) and os.access(program, os.X_OK)
        if runs and os.path.basename(program) == "tasuki":
            return (program,)
    return (sys.executable, "-m", "tasuki")


class Installer:
    """Installs additions in harnesses; `data` is the folder that holds its record."""

    def __init__(self, data: Path) -> None:
        self.data = data

    def plan(self, harness: str, additions: Sequence[Addition]) -> InstallPlan:
        """Plan an installation, without writing; older parts are removed. Raises InstallFailed for an unreadable file."""
        work = _InstallWork(self.data, harness)
        wanted = {build_installed_addition(addition).identity for addition in additions}
        for old in [put for put in reversed(work.puts) if put.identity not in wanted]:
            work.take_out(old)
        for addition in additions:
            work.put_in(addition)
        return work.build_plan()

    def plan_removal(self, harness: str, additions: Sequence[Addition]) -> InstallPlan:
        """Plan how to remove everything again. Raises InstallFailed as `plan` does."""
        work = _InstallWork(self.data, harness)
        recorded = {put.identity for put in work.puts}
        for put in reversed(list(work.puts)):
            work.take_out(put)
        for addition in reversed(additions):
            if (put := build_installed_addition(addition)).identity not in recorded:
                work.take_out(put)
        return work.build_plan()

    def list_parts(self, harness: str, additions: Sequence[Addition]) -> Iterator[InstalledPart]:
        """Yield each addition with its state. Raises InstallFailed as `plan` does."""
        work = _InstallWork(self.data, harness)
        for addition in additions:
            text = work.read_text(addition.path)
            state = work.check_state(addition)
            values = edits.find_own_values(text, addition) if text and state != "foreign" else []
            programs = tuple(_find_programs(values))
            yield InstalledPart(addition.what, addition.path, state, programs)

    def list_created_folders(self) -> tuple[str, ...]:
        """List the folders that were created for the record, the outermost first."""
        return _InstallWork(self.data, "").record.folders

    def find_leftovers(self, harness: str, additions: Sequence[Addition]) -> list[str]:
        """List what was installed and would not be now: of an older version, or of an extra that is gone."""
        wanted = {build_installed_addition(addition).identity for addition in additions}
        work = _InstallWork(self.data, harness)
        return [put.what for put in work.puts if put.identity not in wanted]

    def apply_plan(
        self,
        harness: str,
        additions: Sequence[Addition],
        expected: InstallPlan,
        *,
        remove: bool = False,
    ) -> None:
        """Do what the user was shown, all of it or nothing.

        Raises InstallFailed where a file cannot be written, or has changed so that something else
        would be done now.
        """
        if not expected.has_changes:
            return
        with hold_lock(self.data) as created:
            plan = (self.plan_removal if remove else self.plan)(harness, additions)
            if plan.steps != expected.steps:
                raise InstallFailed(
                    "The files changed while they were being read. Nothing was written; run the command again."
                )
            record = str(self.data / RECORD)
            content = plan.files.get(record)
            if content and created:
                made = msgspec.json.decode(content, type=InstallRecord)
                plan.files[record] = structs.replace(made, folders=created).encode()
            replace_files(plan.files, plan.before)
            if content is None:  # Nothing is installed any more.
                (self.data / LOCK).unlink(missing_ok=True)
            remove_empty_folders((*(() if content else created), *plan.folders))


class _InstallWork:
    """The files of one harness while their new content is worked out."""

    def __init__(self, data: Path, harness: str) -> None:
        self.harness = harness
        self.record_path = str(data / RECORD)
        self.before: dict[str, bytes | None] = {}
        self.texts: dict[str, str | None] = {}
        self.steps: list[InstallStep] = []
        self.folders: list[str] = []
        self.damaged = ""
        self.to_remove: dict[str, str] = {}
        self.to_add: dict[str, str] = {}
        content = self.before[self.record_path] = read_content(self.record_path)
        try:
            self.record = msgspec.json.decode(
                b"{}" if content is None else content, type=InstallRecord
            )
        except UNDECODABLE:
            base = f"{self.record_path}.damaged"
            names = (f"{base}-{number}" if number else base for number in itertools.count())
            self.damaged = next(name for name in names if not os.path.lexists(name))
            self.record = InstallRecord()  # the marks tell what is ours
        self.puts = list(self.record.harnesses.get(harness, ()))

    def read_text(self, path: str) -> str | None:
        """Return what a file shall hold, as far as it is worked out; None for no file."""
        if path not in self.texts:
            content = self.before[path] = read_content(path)
            try:
                self.texts[path] = None if content is None else content.decode()
            except UnicodeDecodeError as error:
                raise InstallFailed(
                    f"{path} is not UTF-8 text. It was not changed, and nothing was written."
                ) from error
        return self.texts[path]

    def check_state(self, addition: Addition) -> str:
        """Return the state of an addition in its file."""
        with _report_parse_errors(addition.path):
            return edits.check_state(self.read_text(addition.path), addition)

    def put_in(self, addition: Addition) -> None:
        """Add it, or replace an older one."""
        action, path = self.check_state(addition), addition.path
        if action not in ("add", "replace"):
            self.steps.append(InstallStep(action, path, addition.what))
            return
        put = build_installed_addition(addition)
        old = next((p for p in self.puts if p.identity == put.identity), put)
        removed = self._remove_text(old) if action == "replace" else ""
        if not is_replaceable(path):
            self._leave_to_user(path, addition.what, removed)
            self.to_add[path] = edits.insert_addition(self.to_add.get(path), addition)[0]
            return
        self.puts = [p for p in self.puts if p.identity != put.identity]
        folders = find_missing_folders(path) if self.read_text(path) is None else ()
        with _report_parse_errors(path):
            self.texts[path], text = edits.insert_addition(self.read_text(path), addition)
        made_now = self.before[path] is None
        self.puts.append(
            structs.replace(
                put,
                text=text,
                made=old.made or made_now,
                folders=old.folders or (folders if made_now else ()),
            )
        )
        self.steps.append(InstallStep(action, path, addition.what, text))

    def take_out(self, installed: InstalledAddition) -> None:
        """Remove an addition, and its file if that was created for it and holds nothing else."""
        removed = self._remove_text(installed)
        if removed and not is_replaceable(installed.path):
            self._leave_to_user(installed.path, installed.what, removed)
            return
        self.puts = [p for p in self.puts if p.identity != installed.identity]
        if removed:
            self.steps.append(InstallStep("remove", installed.path, installed.what, removed))

    def _leave_to_user(self, path: str, what: str, removed: str) -> None:
        """Note what the user has to do in a file that cannot be written."""
        self.steps.append(InstallStep("by_hand", path, what))
        if removed:
            self.to_remove[path] = self.to_remove.get(path, "") + removed

    def _remove_text(self, installed: InstalledAddition) -> str:
        text = self.read_text(installed.path)
        if text is None:
            return ""
        with _report_parse_errors(installed.path):
            left, removed = edits.remove_addition(text, installed)
        if left is not None and installed.made and left.strip() in ("", "{}"):
            left = None
        self.texts[installed.path] = left
        self.folders += installed.folders if left is None else ()
        return removed

    def build_plan(self) -> InstallPlan:
        """Return the files with their new content, including the record."""
        by_hand = self.to_remove | self.to_add
        whole = {p: None if text is None else text.encode() for p, text in self.texts.items()}
        files = {path: content for path, content in whole.items()
                 if content != self.before[path] and path not in by_hand}  # fmt: skip
        self.record.harnesses.pop(self.harness, None)
        if self.puts:
            self.record.harnesses[self.harness] = self.puts
        if self.record.harnesses or self.damaged:
            files[self.record_path] = self.record.encode()
        elif self.before[self.record_path] is not None:
            files[self.record_path] = None
            self.folders += self.record.folders
        if self.damaged:
            self.before[self.damaged] = read_content(self.damaged)
            files[self.damaged] = self.before[self.record_path]
        before = {path: self.before[path] for path in files}
        folders = tuple(sorted(set(self.folders)))
        return InstallPlan(
            tuple(self.steps), files, before, folders, self.damaged, self.to_remove, self.to_add
        )


@contextmanager
def _report_parse_errors(path: str) -> Iterator[None]:
    """Raise InstallFailed where a file is not what its name says."""
    try:
        yield
    except (NotJson, NotToml) as error:
        raise InstallFailed(
            f"{path} was not changed, and nothing was written, because {error}. Correct it, then run the command again."
        ) from error
