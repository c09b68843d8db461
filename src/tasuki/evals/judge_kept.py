"""A run on disk: everything a person needs to label it, and to have the same items judged again.

`items.jsonl` holds the briefs with their items, `labels.jsonl` a label a line to be filled in,
`verdicts.jsonl` what the judge said. `<case>/brief.md` is a brief as the model saw it,
`<case>/<probe>.md` question, truth and answer: without the verdict, which would sway who labels.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tasuki.errors import StoreFailed, UsageError
from tasuki.evals import labels
from tasuki.evals.judge import Brief, Item, Judged, told

ITEMS, LABELS, VERDICTS = "items.jsonl", "labels.jsonl", "verdicts.jsonl"


class Kept(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of `items.jsonl`: a brief and its items."""

    brief: Brief
    items: tuple[Item, ...]


class _Verdict(Struct, frozen=True):
    """One line of `verdicts.jsonl`."""

    case: str
    probe: str
    answer_sha256: str
    verdict: str | None
    critique: str
    refs: tuple[int, ...]
    problem: str


def is_kept(path: Path) -> bool:
    """Whether a path is a folder that a run was kept in."""
    return (path / ITEMS).is_file()


def read(folder: Path) -> list[Kept]:
    """What a run kept. Raises UsageError, naming file and line."""
    path = folder / ITEMS
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from error
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(msgspec.json.decode(line, type=Kept))
        except (msgspec.MsgspecError, RecursionError) as error:
            said = str(error).replace("`", "")
            raise UsageError(f"{path}, line {number}: {said}.") from error
    return found


class Keeper:
    """Writes a run into a folder, one brief after the other.

    Raises UsageError if labels lie there already: they are somebody's work.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in (LABELS, ITEMS):
            if (folder / name).exists():
                raise UsageError(f"{folder} holds {name} of another run. Choose another folder.")

    def __call__(self, brief: Brief, judged: Sequence[Judged]) -> None:
        """Keep one brief with what was judged of it. Raises StoreFailed."""
        items = tuple(one.item for one in judged)
        try:
            place = self.folder / _named(brief.case)
            place.mkdir(parents=True, exist_ok=True)
            (place / "brief.md").write_text(brief.text, encoding="utf-8")
            for one in judged:
                (place / f"{_named(one.item.probe.id)}.md").write_text(_sheet(one.item), "utf-8")
            self._add(ITEMS, [Kept(brief, items)])
            self._add(VERDICTS, [_verdict(one) for one in judged])
            self._add(LABELS, [labels.unlabelled(item) for item in items if item.answer])
        except OSError as error:
            raise StoreFailed(f"Cannot write to {self.folder}: {error.strerror}.") from error

    def _add(self, name: str, rows: Iterable[Struct]) -> None:
        with (self.folder / name).open("ab") as file:
            file.writelines(msgspec.json.encode(row) + b"\n" for row in rows)


def _verdict(one: Judged) -> _Verdict:
    item, verdict = one.item, one.verdict
    return _Verdict(
        item.case,
        item.probe.id,
        labels.answer_sha256(item),
        verdict.verdict,
        verdict.critique,
        verdict.refs,
        verdict.problem,
    )


def _named(name: str) -> str:
    """A file name for a case; ids of threads may hold anything."""
    safe = re.sub(r"[^\w.#-]", "_", name, flags=re.ASCII).lstrip(".")[:100]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _sheet(item: Item) -> str:
    """One item for a person to read and to label."""
    probe = item.probe
    parts = {
        "Question": probe.question,
        "The answer from the brief": told(item.answer) if item.answer else item.problem,
        "Truth": f"{probe.truth}\n\n{probe.entries}",
    }
    head = f"# {item.case} {probe.id}\n\n"
    return head + "\n\n".join(f"## {title}\n\n{text}" for title, text in parts.items()) + "\n"
