"""The one installer: puts what is ours into a harness's own files, and takes exactly that out again.

What was put in is recorded to the letter, so that taking it out restores a file byte for byte.
Without the record, or where somebody changed it since, ours is known by its mark.
"""

import itertools
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from tasuki.errors import InstallFailed
from tasuki.harness import editing
from tasuki.harness.editing import Put, put_for
from tasuki.harness.integration import Addition
from tasuki.harness.jsonl import UNDECODABLE
from tasuki.harness.jsontext import NotJson
from tasuki.harness.tomltext import NotToml
from tasuki.harness.writing import locked, missing_folders, read, remove_if_empty, replace_all

RECORD = "installed.json"
_PROGRAM = re.compile(
    r"'(/[^']*/(?:tasuki|python[0-9.]*))'|(?<![^\s'\"(;|])(/[^\s'\";|]*/(?:tasuki|python[0-9.]*))(?![^\s'\";|\]])"
)


class Record(Struct):
    """What was put into each harness, in the order in which that was done."""

    version: int = 1
    harnesses: dict[str, list[Put]] = {}


class Step(Struct, frozen=True):
    """What happens to one addition; `text` is what is put into the file, or taken out of it.

    `action` is add, replace (an older one of ours), remove, there (nothing to do), foreign
    (something that is not ours has its place, and stays).
    """

    action: str
    path: str
    what: str
    text: str = ""
    new: bool = False
    """The file is made, or goes."""


class Plan(Struct, frozen=True):
    """What is to be done for one harness. `files` holds new contents, None for one that goes."""

    steps: tuple[Step, ...]
    files: dict[str, bytes | None]
    before: dict[str, bytes | None]
    folders: tuple[str, ...] = ()
    """Folders that go if they are empty then."""
    damaged: str = ""
    """Where the record of what was installed is kept that could not be read; empty if it could."""

    @property
    def changes(self) -> bool:
        """Whether anything is written."""
        return any(step.action in ("add", "replace", "remove") for step in self.steps)


class Standing(Struct, frozen=True):
    """How an addition stands: there, replace (an older one is), add (none is), foreign.

    `programs` are those that it runs, by their whole paths.
    """

    addition: Addition
    state: str
    programs: tuple[str, ...]


def _programs(value: Any) -> Iterator[str]:
    """The programs of ours that a value names, in a shell command or alone."""
    if isinstance(value, str):
        yield from (found[1] or found[2] for found in _PROGRAM.finditer(value))
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _programs(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _programs(inner)


def own_command() -> tuple[str, ...]:
    """The command that runs this tasuki, its program a whole path that needs no PATH."""
    called = os.path.abspath(sys.argv[0])
    beside = os.path.join(os.path.dirname(sys.executable), "tasuki")
    for program in (called, beside, shutil.which("tasuki") or ""):
        if os.path.basename(program) == "tasuki" and _is_program(program):
            return (program,)
    return (sys.executable, "-m", "tasuki")


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


class Installer:
    """Puts additions into harnesses; `data` is the folder in which it records that."""

    def __init__(self, data: Path) -> None:
        self.data = data

    def plan(self, harness: str, additions: Sequence[Addition]) -> Plan:
        """What an installation would do; what an older version left goes. Nothing is written.

        Raises InstallFailed where a file cannot be read or understood.
        """
        work = _Work(self.data, harness)
        wanted = {put_for(addition).place for addition in additions}
        for old in [put for put in reversed(work.puts) if put.place not in wanted]:
            work.take_out(old)
        for addition in additions:
            work.put_in(addition)
        return work.plan()

    def removal(self, harness: str, additions: Sequence[Addition]) -> Plan:
        """What taking everything out again would do. Raises InstallFailed as `plan`."""
        work = _Work(self.data, harness)
        recorded = {put.place for put in work.puts}
        for put in reversed(list(work.puts)):
            work.take_out(put)
        for addition in reversed(additions):
            if (put := put_for(addition)).place not in recorded:
                work.take_out(put)
        return work.plan()

    def states(self, harness: str, additions: Sequence[Addition]) -> Iterator["Standing"]:
        """How each addition stands. Raises InstallFailed as `plan`."""
        work = _Work(self.data, harness)
        for addition in additions:
            text = work.text(addition.path)
            state = work.state(addition)
            values = editing.ours(text, addition) if text and state != "foreign" else []
            yield Standing(addition, state, tuple(_programs(values)))

    def left_over(self, harness: str, additions: Sequence[Addition]) -> list[str]:
        """What was put in and would not be now: an older version's, or of an extra that is gone."""
        wanted = {put_for(addition).place for addition in additions}
        return [put.what for put in _Work(self.data, harness).puts if put.place not in wanted]

    def carry_out(
        self, harness: str, additions: Sequence[Addition], shown: Plan, *, remove: bool = False
    ) -> None:
        """Do what was shown, whole or not at all.

        Raises InstallFailed where a file cannot be written, or has changed so that something else
        would be done now.
        """
        if not shown.changes:
            return
        with locked(self.data):
            plan = (self.removal if remove else self.plan)(harness, additions)
            if plan.steps != shown.steps:
                raise InstallFailed(
                    "The files changed while they were looked at. Nothing was written; run it again."
                )
            replace_all(plan.files, plan.before)
            remove_if_empty(plan.folders)


class _Work:
    """The files of one harness while it is worked out what they shall hold."""

    def __init__(self, data: Path, harness: str) -> None:
        self.harness = harness
        self.record_path = str(data / RECORD)
        self.before: dict[str, bytes | None] = {}
        self.texts: dict[str, str | None] = {}
        self.steps: list[Step] = []
        self.folders: list[str] = []
        self.damaged = ""
        self.record = self._recorded()
        self.puts = list(self.record.harnesses.get(harness, ()))

    def _recorded(self) -> Record:
        content = self.before[self.record_path] = read(self.record_path)
        try:
            return Record() if content is None else msgspec.json.decode(content, type=Record)
        except UNDECODABLE:
            self.damaged = self._name_for_damaged()
            return Record()  # the marks tell what is ours

    def _name_for_damaged(self) -> str:
        """Where the damaged record is kept: `installed.json.damaged`, with a number where there is one already."""
        kept = f"{self.record_path}.damaged"
        names = (f"{kept}-{number}" if number else kept for number in itertools.count())
        return next(name for name in names if not os.path.lexists(name))

    def text(self, path: str) -> str | None:
        """What a file shall hold, as far as it is worked out; None for no file."""
        if path not in self.texts:
            content = self.before[path] = read(path)
            try:
                self.texts[path] = None if content is None else content.decode()
            except UnicodeDecodeError as error:
                raise InstallFailed(
                    f"{path} is not UTF-8 text. It was left alone, and nothing was written."
                ) from error
        return self.texts[path]

    def state(self, addition: Addition) -> str:
        """How an addition stands in its file."""
        with _understood(addition.path):
            return editing.state(self.text(addition.path), addition)

    def put_in(self, addition: Addition) -> None:
        """Add it, or replace an older one."""
        action, path = self.state(addition), addition.path
        if action not in ("add", "replace"):
            self.steps.append(Step(action, path, addition.what))
            return
        place = put_for(addition).place
        old = next((p for p in self.puts if p.place == place), None)
        made = (old.made, old.folders) if old else (False, ())
        if action == "replace":
            self._out(old or put_for(addition))
        self.puts = [p for p in self.puts if p.place != place]
        new = self.text(path) is None
        folders = missing_folders(path) if new else ()
        with _understood(path):
            self.texts[path], text = editing.put(self.text(path), addition)
        made_now = self.before[path] is None
        put = structs.replace(
            put_for(addition, text),
            made=made[0] or made_now,
            folders=made[1] or (folders if made_now else ()),
        )
        self.puts.append(put)
        self.steps.append(Step(action, path, addition.what, text, new and action == "add"))

    def take_out(self, put: Put) -> None:
        """Remove what was put in, and the file if it was made for it and holds nothing else."""
        self.puts = [p for p in self.puts if p.place != put.place]
        if removed := self._out(put):
            gone = self.text(put.path) is None
            self.steps.append(Step("remove", put.path, put.what, removed, gone))

    def _out(self, put: Put) -> str:
        text = self.text(put.path)
        if text is None:
            return ""
        with _understood(put.path):
            left, removed = editing.taken(text, put)
        if left is not None and put.made and left.strip() in ("", "{}"):
            left = None
        self.texts[put.path] = left
        self.folders += put.folders if left is None else ()
        return removed

    def plan(self) -> Plan:
        """The files as they shall be, the record among them."""
        whole = {p: None if text is None else text.encode() for p, text in self.texts.items()}
        files = {path: content for path, content in whole.items() if content != self.before[path]}
        others = {
            name: puts for name, puts in self.record.harnesses.items() if name != self.harness
        }
        self.record.harnesses = others | ({self.harness: self.puts} if self.puts else {})
        files[self.record_path] = msgspec.json.format(msgspec.json.encode(self.record), indent=1)
        if self.damaged:
            self.before[self.damaged] = read(self.damaged)
            files[self.damaged] = self.before[self.record_path]
        before = {path: self.before[path] for path in files}
        folders = tuple(sorted(set(self.folders)))
        return Plan(tuple(self.steps), files, before, folders, self.damaged)


@contextmanager
def _understood(path: str) -> Iterator[None]:
    """Raises InstallFailed where a file is not what its name says."""
    try:
        yield
    except (NotJson, NotToml) as error:
        raise InstallFailed(
            f"{path} was left alone, and nothing was written, because {error}. Mend it, then run it again."
        ) from error
