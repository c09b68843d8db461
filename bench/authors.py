"""How much of what authors write the checks take out, by kind, over the same threads.

    .venv/bin/python bench/authors.py [--corpus DIR] [--threads N] [--goal TEXT] [--json] [MODEL ...]

The authors are `offline`, a small model on this machine, and every MODEL, a `provider/model-id` that
your own settings can ask; a MODEL is sent the threads. DIR holds threads, plain or gzipped; without it
they are the captured ones of the tests. N threads are taken, in turn from each harness; the small
model takes a minute or two for each.

An item that the checks take out of an answer, and that the author offers again when asked to mend it,
counts twice in both columns. An author that fails on a thread, because nothing of its answer was left
or for another reason, has no items there. A small share says that an author copies well and cites
well; whether it chose what the goal needs is not measured here.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [
    str(ROOT / "src"),
    str(ROOT / "workshop"),
    str(ROOT / "tests"),
    str(ROOT / "tests" / "support"),
]

import fixture_threads  # noqa: E402
import small_model  # noqa: E402
from making import ID  # noqa: E402

from tasuki.config import settings  # noqa: E402
from tasuki.config.settings import LoadedSettings, Provider, Settings  # noqa: E402
from tasuki.draft import pipeline  # noqa: E402
from tasuki.errors import NothingToHandOff, TasukiError  # noqa: E402
from tasuki.harness import registry as harnesses  # noqa: E402
from tasuki.model import Draft, Goal  # noqa: E402

GOAL = "finish what is in progress, and cover it with tests"
SECTIONS = ("context", "state", "asked", "decisions", "questions", "files", "commands")
SECONDS = 600
"""Time limit of an answer of the small model."""
Threads = list[tuple[str, Path]]


class Figures:
    """What came of one author's drafts."""

    def __init__(self) -> None:
        self.threads = 0
        self.failed: list[str] = []
        self.offered: Counter[str] = Counter()
        """By section."""
        self.dropped: Counter[str] = Counter()
        """By kind."""
        self.cost: Counter[str] = Counter()

    def take(self, draft: Draft) -> None:
        """Add one draft."""
        by = draft.authorship
        if by.author == "offline":
            self.offered.update({s: len(getattr(draft, s)) for s in SECTIONS})
            self.offered.update(d.section for d in draft.dropped)
            self.dropped.update(d.kind for d in draft.dropped)
        else:
            self.offered.update(by.proposed)
            self.dropped.update(by.dropped)
        for what in ("requests", "input_tokens", "output_tokens", "seconds"):
            self.cost[what] += getattr(by, what)

    def data(self) -> dict[str, Any]:
        """All of it, for a program."""
        return {
            "threads": self.threads,
            "failed": self.failed,
            "offered": dict(self.offered),
            "dropped": dict(self.dropped),
            "share": self.share(),
            **{what: round(number, 1) for what, number in self.cost.items()},
        }

    def share(self) -> float | None:
        """Dropped items as a part of those offered, None where nothing was."""
        offered = self.offered.total()
        return round(self.dropped.total() / offered, 4) if offered else None


def main() -> None:
    """Prints the table, or one JSON document."""
    given = arguments()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found = list(islice(taken(given.corpus, folder), given.threads))
        rows = {"offline": measured(LoadedSettings(Settings()), found, given.goal)}
        if reason := small_model.missing():
            print(f"The small model is left out: {reason}.", file=sys.stderr)
        else:
            url = stack.enter_context(small_model.serving())
            rows[f"model, {small_model.NAME}"] = measured(small(url), found, given.goal)
        for name in given.model:
            flags = {"author": "model", "model": name, "strict": True}
            rows[f"model, {name}"] = measured(
                settings.load_with_sources(ROOT, flags), found, given.goal
            )
    if given.json:
        authors = {name: figures.data() for name, figures in rows.items()}
        document = {"version": 1, "goal": given.goal, "authors": authors}
        print(json.dumps(document, ensure_ascii=False, indent=2))
    else:
        print_table(rows)


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="*", help="provider/model-id that your settings can ask")
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="threads, plain or gzipped")
    parser.add_argument("--threads", type=int, default=8, metavar="N", help="how many; default 8")
    parser.add_argument("--goal", default=GOAL, help=f"default: {GOAL}")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser.parse_args()


def small(url: str) -> LoadedSettings:
    """Settings that ask the small model."""
    provider = Provider(base_url=url, window=small_model.WINDOW)
    name = f"small/{small_model.NAME}"
    return LoadedSettings(
        Settings(
            author="model",
            model=name,
            author_seconds=SECONDS,
            strict=True,
            providers={"small": provider},
        )
    )


def taken(corpus: Path | None, folder: Path) -> Iterator[tuple[str, Path]]:
    """Threads that hold something to hand off, one of each harness in turn."""
    of_each = [list(paths) for paths in (in_folder(corpus, folder) if corpus else captured())]
    for turn in zip_longest(*of_each):
        for path in filter(None, turn):
            try:
                harness = harnesses.detect_harness(path)
                pipeline.make_handoff(
                    harness,
                    path,
                    Goal(GOAL),
                    LoadedSettings(Settings()),
                    handoff_id=ID,
                    to=harness.name,
                )
            except (NothingToHandOff, TasukiError):
                continue
            yield harness.name, path


def captured() -> Iterator[list[Path]]:
    """The threads of the tests, by format; the largest first, for they hold the most."""
    for name in fixture_threads.HARNESSES:
        paths = fixture_threads.samples(name)
        yield sorted(paths, key=lambda p: -fixture_threads.holder(p).stat().st_size)


def in_folder(corpus: Path, folder: Path) -> Iterator[list[Path]]:
    """The threads of a folder, by its own folders; what is zipped is unzipped."""
    by_folder: dict[str, list[Path]] = {}
    for number, path in enumerate(sorted(p for p in corpus.rglob("*") if p.is_file())):
        of = by_folder.setdefault(path.relative_to(corpus).parts[0], [])
        if path.suffix == ".gz":
            unzipped = folder / str(number) / path.stem
            unzipped.parent.mkdir()
            unzipped.write_bytes(gzip.decompress(path.read_bytes()))
            path = unzipped
        of.append(path)
    yield from by_folder.values()


def measured(loaded: LoadedSettings, found: Threads, goal: str) -> Figures:
    """The figures of one author over all threads."""
    figures = Figures()
    for name, path in found:
        figures.threads += 1
        harness = harnesses.get_harness(name)
        try:
            made = pipeline.make_handoff(harness, path, Goal(goal), loaded, handoff_id=ID, to=name)
        except TasukiError as error:
            figures.failed.append(f"{name}: {error}")
        else:
            figures.take(made.handoff.draft)
    return figures


def print_table(rows: dict[str, Figures]) -> None:
    """One row for each author, the kinds of what was dropped behind it."""
    print(
        f"{'author':28}{'threads':>8}{'failed':>8}{'offered':>9}{'dropped':>9}{'share':>8}  kinds"
    )
    for name, figures in rows.items():
        share = figures.share()
        shown = f"{share:.1%}" if share is not None else "-"
        kinds = ", ".join(f"{kind} {count}" for kind, count in figures.dropped.most_common())
        print(
            f"{name:28}{figures.threads:>8}{len(figures.failed):>8}{figures.offered.total():>9}"
            f"{figures.dropped.total():>9}{shown:>8}  {kinds}"
        )
    for name, figures in rows.items():
        for reason in figures.failed:
            print(f"{name} failed: {reason}")


if __name__ == "__main__":
    main()
