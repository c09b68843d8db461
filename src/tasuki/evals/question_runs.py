"""A question set asked of briefs: the tool's, the baselines', and the harness's own summary.

    case → thread file → its first lines → brief at a budget → verdict of every question

Nobody judges and nothing is asked of a network, unless the author is a model.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

import tasuki
from tasuki import harness as harnesses
from tasuki.config import Loaded, Settings
from tasuki.draft import pipeline
from tasuki.errors import TasukiError, ThreadNotFound, UsageError
from tasuki.evals.continuation import OWN, LeftOut
from tasuki.evals.places import Source, sources, unpacked
from tasuki.evals.question_baselines import QUESTION_BASELINES
from tasuki.evals.questions import (
    QuestionCase,
    QuestionSet,
    Verdict,
    cited_refs,
    judge_answer,
    without_goal,
)
from tasuki.evals.workers import each
from tasuki.harness.protocol import Harness
from tasuki.model import Goal, Thread
from tasuki.plain import one_line
from tasuki.threads.opening import MAX_REFS, Opened, readings, render_entry
from tasuki.threads.safe import Cleaner

LEAST_SUMMARY = 500
"""Tokens of a brief at a compaction, however short the harness's summary is."""
NATIVE = "native summary"


class Answers(Struct, frozen=True):
    """What one brief answered: a verdict for each question, in the order of the case."""

    tokens: int
    verdicts: tuple[Verdict, ...]


class AskedCase(Struct, frozen=True):
    """The answers of every method in one case. No word of the thread is in it."""

    name: str
    file: str
    budget: int
    methods: dict[str, Answers]
    """By name; `mix@4000` is `mix` at another budget."""
    fell: tuple[str, ...] = ()
    """Why an author that should have written it did not."""


class QuestionReport(Struct, frozen=True, kw_only=True):
    """What a run found."""

    name: str
    """The file name of the set."""
    tasuki: str = tasuki.__version__
    author: str = "offline"
    budget: int | None = None
    """As it was asked for; None: that of the settings, and of the summary at compactions."""
    curve: tuple[int, ...] = ()
    cases: tuple[AskedCase, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


class QuestionOptions(Struct, frozen=True):
    """Who writes, and at which budgets in tokens; without one, that of the settings."""

    loaded: Loaded = Loaded(Settings())
    budget: int | None = None
    curve: tuple[int, ...] = ()


DEFAULTS = QuestionOptions()
_Outcome = AskedCase | LeftOut
_Item = tuple[QuestionCase, Source]


def ask_questions(
    asked: QuestionSet,
    name: str,
    paths: Iterable[Path],
    options: QuestionOptions = DEFAULTS,
    *,
    workers: int = 0,
    done: Callable[[int, int], None] = lambda done, total: None,
) -> QuestionReport:
    """Ask all questions of a set, whose threads lie in some files and folders.

    `done` is told how many of all cases are through. The figures do not depend on `workers`, 0 for
    one a core. A case that cannot be asked is left out, with its reason. Raises ThreadNotFound and
    UsageError for threads that are not there.
    """
    items = find_threads(asked, name, list(paths))
    with tempfile.TemporaryDirectory(prefix="tasuki-eval-") as scratch:
        found = each(
            partial(ask_case, options=options, scratch=scratch),
            items,
            min(workers or os.cpu_count() or 1, len(items)),
            lost=lambda item: LeftOut(item[0].name, "its process was ended from outside"),
            done=lambda count: done(count, len(items)),
        )
    return QuestionReport(
        name=name,
        author=options.loaded.settings.author,
        budget=options.budget,
        curve=options.curve,
        cases=tuple(one for one in found if isinstance(one, AskedCase)),
        left_out=tuple(one for one in found if isinstance(one, LeftOut)),
    )


# -- finding the threads ---------------------------------------------------------------


def find_threads(asked: QuestionSet, name: str, paths: Sequence[Path]) -> list[_Item]:
    """Each case with its thread file: by the path in the set, else by the file's name.

    Raises ThreadNotFound if one is not there, UsageError if two files have the name.
    """
    by_name: dict[str, list[Source]] = {}
    for file in sources(paths):
        by_name.setdefault(_unzipped(file.path.name), []).append(file)
    items: list[_Item] = []
    missing: list[QuestionCase] = []
    for case in asked.threads:
        source = choose_source(case, by_name.get(_unzipped(case.file.rpartition("/")[2]), ()))
        if source is None:
            missing.append(case)
        else:
            items.append((case, source))
    if missing:
        where = ", ".join(map(str, paths))
        files = list(dict.fromkeys(case.file for case in missing))
        more = f", and {len(files) - 3} more" if len(files) > 3 else ""
        raise ThreadNotFound(
            f"{len(missing)} of the {len(asked.threads)} cases of {name} have no thread in {where}: "
            f"{', '.join(files[:3])}{more}. Name the folder that holds them."
        )
    return items


def choose_source(case: QuestionCase, named: Sequence[Source]) -> Source | None:
    """The file whose path ends as the set says, else the one of its name; None if there is none.

    Raises UsageError if there are several.
    """
    wanted = f"/{_unzipped(case.file).lstrip('/')}"
    ending = [s for s in named if _unzipped(s.path.absolute().as_posix()).endswith(wanted)]
    fitting = ending or named
    if len(fitting) > 1:
        found = ", ".join(str(source.path) for source in fitting[:3])
        raise UsageError(
            f"{len(fitting)} files can be meant by {case.file}: {found}. Name the folder that the "
            "paths of the set begin in, or one file."
        )
    return fitting[0] if fitting else None


def _unzipped(path: str) -> str:
    return path.removesuffix(".gz")


# -- one case --------------------------------------------------------------------------


def ask_case(item: _Item, options: QuestionOptions, scratch: str | None = None) -> _Outcome:
    """The answers of every method in one case; whatever is wrong with it, as a reason."""
    case, source = item
    with tempfile.TemporaryDirectory(prefix="tasuki-eval-", dir=scratch) as folder:
        try:
            return _ask(case, source, Path(folder), options)
        except (TasukiError, OSError, ValueError) as error:
            reason = _tell_reason(error, folder, source)
        except Exception as error:
            reason = f"a defect of tasuki, please tell us: {type(error).__name__}: {error}"
    return LeftOut(case.name, one_line(reason, 200))


def _tell_reason(error: Exception, folder: str, source: Source) -> str:
    """The first sentence of an error, without a path of this machine."""
    reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    name = _unzipped(source.path.name)
    for path in (f"{folder}/cut/{name}", f"{folder}/{name}", str(source.path), folder):
        reason = reason.replace(path, "it").removeprefix("it: ")
    return reason.partition(". ")[0].rstrip(".")


def _ask(case: QuestionCase, source: Source, folder: Path, options: QuestionOptions) -> AskedCase:
    path = unpacked(source, folder)
    below = folder / "cut"
    below.mkdir()
    copy = below / path.name
    size = copy_beginning(path, copy, case.lines)
    harness = harnesses.of_file(copy)
    thread = harness.read(copy)
    summary = "" if case.summary_line is None else _summary_after(harness.read(path), size)
    usual = max(LEAST_SUMMARY, len(summary) // 4) if summary else options.loaded.settings.budget
    budget = options.budget or usual
    methods: dict[str, Answers] = {}
    fell: list[str] = []
    for mark, tokens in (("", budget), *((f"@{b}", b) for b in options.curve)):
        methods[OWN + mark], why = _answer(case, harness, copy, thread, tokens, options.loaded)
        fell += why
        for method, write in QUESTION_BASELINES.items():
            methods[method + mark] = judge_brief(case, write(thread, tokens * 4))
    if summary:
        methods[NATIVE] = judge_brief(case, summary)
    return AskedCase(case.name, case.file, budget, methods, tuple(fell))


def copy_beginning(path: Path, copy: Path, lines: int) -> int:
    """Copy the first lines of a file; how many bytes they are. Raises ValueError if it has fewer."""
    count = size = 0
    with path.open("rb") as whole, copy.open("wb") as part:
        for line in islice(whole, lines):
            count, size = count + 1, size + len(line)
            part.write(line)
    if count < lines:
        raise ValueError(f"the thread has {count} lines, and the set cuts it after {lines}")
    return size


def _summary_after(thread: Thread, offset: int) -> str:
    """What the harness put in the place of a thread. Raises ValueError if it did not."""
    for entry in thread.entries:
        if entry.kind == "compaction" and entry.offset >= offset and entry.text.strip():
            return entry.text
    raise ValueError("the set names a summary of the harness, and there is none after the cut")


def _answer(
    case: QuestionCase, harness: Harness, copy: Path, thread: Thread, budget: int, loaded: Loaded
) -> tuple[Answers, tuple[str, ...]]:
    """What the tool's brief answers, alone and with the entries it cites; why authors fell back."""
    loaded = replace(loaded, settings=replace(loaded.settings, budget=budget))
    made = pipeline.make(
        harness, copy, Goal(case.goal, forced=True), loaded,
        handoff_id="0" * 32, to=harness.name, replay=True,
    )  # fmt: skip
    opened = open_entries(thread, cited_refs(without_goal(made.context, case.goal)))
    return judge_brief(case, made.context, opened), made.handoff.draft.authorship.fell


def open_entries(thread: Thread, refs: Sequence[int]) -> str:
    """The entries that a brief cites, as `tasuki read` prints them."""
    known = {entry.ref for entry in thread.entries}
    shown, cleaner = [ref for ref in refs if ref in known][:MAX_REFS], Cleaner()
    of = Opened("", thread)
    return "".join(f"{render_entry(reading, cleaner)}\n" for reading in readings(of, shown))


def judge_brief(case: QuestionCase, text: str, opened: str = "") -> Answers:
    """The verdicts of a text once its goal is taken out."""
    text = without_goal(text, case.goal)
    verdicts = tuple(judge_answer(question, text, opened) for question in case.questions)
    return Answers((len(text) + 3) // 4, verdicts)


# -- totals ----------------------------------------------------------------------------


class Total(Struct, frozen=True):
    """What one method answered in some cases, and its mean size in tokens."""

    direct: int
    hop: int
    no: int
    tokens: float


def total(cases: Iterable[AskedCase], method: str) -> Total | None:
    """The sum over the cases that have a method; None if none has."""
    answers = [case.methods[method] for case in cases if method in case.methods]
    if not answers:
        return None
    counts = Counter(verdict for one in answers for verdict in one.verdicts)
    size = sum(one.tokens for one in answers) / len(answers)
    return Total(counts["direct"], counts["hop"], counts["no"], size)


def methods_of(report: QuestionReport) -> list[str]:
    """The methods at the usual budget, the tool first."""
    return list(dict.fromkeys(m for case in report.cases for m in case.methods if "@" not in m))


def by_kind(report: QuestionReport, asked: QuestionSet, method: str) -> dict[str, Counter[str]]:
    """How often each verdict was given to questions of each kind, in the order of the alphabet."""
    kinds: dict[str, Counter[str]] = {}
    for question, verdict in _verdicts(report, asked, method):
        kinds.setdefault(question, Counter())[verdict] += 1
    return dict(sorted(kinds.items()))


def _verdicts(
    report: QuestionReport, asked: QuestionSet, method: str
) -> Iterator[tuple[str, Verdict]]:
    """The kind of every question with its verdict."""
    for case, found in pair_cases(report, asked):
        if method in found.methods:
            verdicts = found.methods[method].verdicts
            yield from zip((q.kind for q in case.questions), verdicts, strict=True)


def pair_cases(
    report: QuestionReport, asked: QuestionSet
) -> Iterator[tuple[QuestionCase, AskedCase]]:
    """Every case of the set that was asked, with its answers."""
    found = {(case.name, case.file): case for case in report.cases}
    for case in asked.threads:
        if (case.name, case.file) in found:
            yield case, found[case.name, case.file]
