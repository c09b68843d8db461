"""A question set applied to briefs: the tool's, the baselines', and the harness's own summary.

    case → thread file → its first lines → brief at a budget → verdict of every question

No judge and no network is needed, unless the author is a model.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

import tasuki
from tasuki.compaction.block import MAX_BLOCK, build_block
from tasuki.compaction.moment import Compaction, find_last_compaction
from tasuki.compaction.replacement import write_summary
from tasuki.config.settings import LoadedSettings, Settings
from tasuki.errors import TasukiError, ThreadNotFound, UsageError
from tasuki.harness import registry as harnesses
from tasuki.model import Thread
from tasuki.threads.passages import EntryCleaner
from tasuki.threads.references import MAX_REFS, OpenedThread, read_entries, render_entry
from tasuki_evals import question_sets, runs
from tasuki_evals.continuation.benchmark import OWN_METHOD, UnmeasuredItem
from tasuki_evals.continuation.cuts import ThreadSource, list_sources, unpack_source
from tasuki_evals.question_sets import (
    QUESTION_BASELINES,
    QuestionCase,
    QuestionSet,
    QuestionVerdict,
)

MIN_SUMMARY_TOKENS = 500
"""Tokens of a brief at a compaction, however short the harness's summary is."""
NATIVE_METHOD = "native summary"
RESTORED_METHOD, DUMPED_METHOD = "native + block", "native + last"
"""The harness's summary with tasuki's block behind it, and with the newest messages and outputs."""
REPLACED_METHOD = "tasuki as summary"
"""tasuki's own summary in the place of the harness's, of the same length."""


class BriefAnswers(Struct, frozen=True):
    """What one brief answered: a verdict for each question, in the order of the case."""

    tokens: int
    verdicts: tuple[QuestionVerdict, ...]


class AskedCase(Struct, frozen=True):
    """The answers of every method in one case. It contains no word of the thread."""

    name: str
    file: str
    budget: int
    methods: dict[str, BriefAnswers]
    """By name; `mix@4000` is `mix` at another budget."""
    fell: tuple[str, ...] = ()
    """Why an author that should have written it did not."""


class QuestionReport(Struct, frozen=True, kw_only=True):
    """The findings of a run."""

    name: str
    """The file name of the set."""
    tasuki: str = tasuki.__version__
    author: str = "offline"
    budget: int | None = None
    """As it was asked for; None: that of the settings, and of the summary at compactions."""
    curve: tuple[int, ...] = ()
    cases: tuple[AskedCase, ...] = ()
    left_out: tuple[UnmeasuredItem, ...] = ()


class QuestionOptions(Struct, frozen=True):
    """The author, and the budgets in tokens; without one, that of the settings."""

    loaded: LoadedSettings = LoadedSettings(Settings())
    budget: int | None = None
    curve: tuple[int, ...] = ()


DEFAULTS = QuestionOptions()
_Outcome = AskedCase | UnmeasuredItem
_Item = tuple[QuestionCase, ThreadSource]


def ask_questions(
    question_set: QuestionSet, name: str, paths: Iterable[Path],
    options: QuestionOptions = DEFAULTS, *, workers: int = 0,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> QuestionReport:  # fmt: skip
    """Ask all questions of a set whose threads are in some files and folders.

    `on_progress` is called with the number of finished cases and of all cases. The figures do
    not depend on `workers`, 0 for one per core. A case that cannot be asked is left out, with
    its reason. Raises ThreadNotFound and UsageError for threads that are missing.
    """
    found = runs.run_measurements(
        partial(ask_case, options=options), find_threads(question_set, name, list(paths)), workers,
        on_lost=lambda item: UnmeasuredItem(item[0].name, "its process was ended by another program"),
        on_progress=on_progress,
    )  # fmt: skip
    return QuestionReport(
        name=name, author=options.loaded.settings.author, budget=options.budget,
        curve=options.curve, cases=tuple(one for one in found if isinstance(one, AskedCase)),
        left_out=tuple(one for one in found if isinstance(one, UnmeasuredItem)),
    )  # fmt: skip


def find_threads(question_set: QuestionSet, name: str, paths: Sequence[Path]) -> list[_Item]:
    """Return each case with its thread file: by the path in the set, else by the file's name.

    Raises ThreadNotFound if one is missing, UsageError if two files have the name.
    """
    by_name: dict[str, list[ThreadSource]] = {}
    for file in list_sources(paths):
        by_name.setdefault(_strip_gz(file.path.name), []).append(file)
    items: list[_Item] = []
    missing: list[QuestionCase] = []
    for case in question_set.threads:
        source = choose_source(case, by_name.get(_strip_gz(case.file.rpartition("/")[2]), ()))
        if source is None:
            missing.append(case)
        else:
            items.append((case, source))
    if missing:
        where = ", ".join(map(str, paths))
        files = list(dict.fromkeys(case.file for case in missing))
        more = f", and {len(files) - 3} more" if len(files) > 3 else ""
        raise ThreadNotFound(
            f"{len(missing)} of the {len(question_set.threads)} cases of {name} have no thread in {where}: "
            f"{', '.join(files[:3])}{more}. Name the folder that holds them."
        )
    return items


def choose_source(case: QuestionCase, named: Sequence[ThreadSource]) -> ThreadSource | None:
    """Return the file whose path ends as the set says, else the one of its name, or None.

    Raises UsageError if there are several.
    """
    wanted = f"/{_strip_gz(case.file).lstrip('/')}"
    ending = [s for s in named if _strip_gz(s.path.absolute().as_posix()).endswith(wanted)]
    fitting = ending or named
    if len(fitting) > 1:
        found = ", ".join(str(source.path) for source in fitting[:3])
        raise UsageError(
            f"{len(fitting)} files match {case.file}: {found}. Name the folder in which the "
            "paths of the set begin, or one file."
        )
    return fitting[0] if fitting else None


def _strip_gz(path: str) -> str:
    return path.removesuffix(".gz")


def ask_case(item: _Item, options: QuestionOptions, scratch: str | None = None) -> _Outcome:
    """Return the answers of every method in one case, or the reason why there are none."""
    case, source = item
    with tempfile.TemporaryDirectory(prefix="tasuki-eval-", dir=scratch) as folder:
        try:
            return _ask_case(case, source, Path(folder), options)
        except Exception as error:
            name, known = _strip_gz(source.path.name), (TasukiError, OSError, ValueError)
            own = (f"{folder}/cut/{name}", f"{folder}/{name}", str(source.path), folder)
            return UnmeasuredItem(case.name, runs.explain_failure(error, known, *own))


def _ask_case(
    case: QuestionCase, source: ThreadSource, folder: Path, options: QuestionOptions
) -> AskedCase:
    path = unpack_source(source, folder)
    below = folder / "cut"
    below.mkdir()
    copy = below / path.name
    size = copy_beginning(path, copy, case.lines)
    harness = harnesses.detect_harness(copy)
    thread = harness.read(copy)
    compaction = None
    if case.summary_line is not None:
        compaction = find_compaction_after(harness.read(path), size)
    loaded, usual = options.loaded, options.loaded.settings.budget
    if compaction:
        usual = max(MIN_SUMMARY_TOKENS, len(compaction.summary) // 4)
    budget = options.budget or usual
    methods: dict[str, BriefAnswers] = {}
    fell: list[str] = []
    for mark, tokens in (("", budget), *((f"@{b}", b) for b in options.curve)):
        result = runs.draft_handoff(
            harness, copy, case.goal, loaded, budget=tokens, to=harness.name
        )
        cited = question_sets.find_cited_refs(question_sets.strip_goal(result.context, case.goal))
        methods[OWN_METHOD + mark] = judge_brief(case, result.context, open_entries(thread, cited))
        fell += result.handoff.draft.authorship.fell
        for method, write in QUESTION_BASELINES.items():
            methods[method + mark] = judge_brief(case, write(thread, tokens * 4))
    if compaction:
        loaded = replace(loaded, settings=replace(loaded.settings, budget=budget))
        summary, block = compaction.summary, build_block(compaction).text
        dumped = QUESTION_BASELINES["last"](thread, MAX_BLOCK)
        replaced = write_summary(harness, copy, loaded, replay=True)
        methods |= {
            NATIVE_METHOD: judge_brief(case, summary),
            DUMPED_METHOD: judge_brief(case, f"{summary}\n{dumped}"),
            RESTORED_METHOD: judge_brief(case, f"{summary}\n{block}"),
            REPLACED_METHOD: judge_brief(case, replaced),
        }
    return AskedCase(case.name, case.file, budget, methods, tuple(fell))


def find_compaction_after(thread: Thread, offset: int) -> Compaction:
    """Return the first compaction with a summary at or after a byte. Raises ValueError."""
    for entry in thread.entries:
        if entry.kind == "compaction" and entry.offset >= offset and entry.text.strip():
            cut = replace(thread, entries=tuple(e for e in thread.entries if e.ref <= entry.ref))
            if found := find_last_compaction(cut):
                return found
    raise ValueError("the set names a summary of the harness, but none follows the cut")


def copy_beginning(path: Path, copy: Path, lines: int) -> int:
    """Copy the first lines of a file; return their bytes. Raises ValueError if it has fewer."""
    count = size = 0
    with path.open("rb") as whole, copy.open("wb") as part:
        for line in islice(whole, lines):
            count, size = count + 1, size + len(line)
            part.write(line)
    if count < lines:
        raise ValueError(f"the thread has {count} lines, but the set cuts it after {lines}")
    return size


def open_entries(thread: Thread, refs: Sequence[int]) -> str:
    """Return the entries that a brief cites, as `tasuki read` prints them."""
    known = {entry.ref for entry in thread.entries}
    shown, cleaner = [ref for ref in refs if ref in known][:MAX_REFS], EntryCleaner()
    readings = read_entries(OpenedThread("", thread), shown)
    return "".join(f"{render_entry(reading, cleaner)}\n" for reading in readings)


def judge_brief(case: QuestionCase, text: str, opened: str = "") -> BriefAnswers:
    """Return the verdicts on a text after its goal is removed."""
    text = question_sets.strip_goal(text, case.goal)
    verdicts = tuple(question_sets.judge_answer(q, text, opened) for q in case.questions)
    return BriefAnswers((len(text) + 3) // 4, verdicts)


class QuestionTotal(Struct, frozen=True):
    """What one method answered in some cases, and its mean size in tokens."""

    direct: int
    hop: int
    no: int
    tokens: float


def sum_answers(cases: Iterable[AskedCase], method: str) -> QuestionTotal | None:
    """Return the sum over the cases that have a method; None if none has."""
    answers = [case.methods[method] for case in cases if method in case.methods]
    if not answers:
        return None
    counts = Counter(verdict for one in answers for verdict in one.verdicts)
    size = sum(one.tokens for one in answers) / len(answers)
    return QuestionTotal(counts["direct"], counts["hop"], counts["no"], size)


def list_methods(report: QuestionReport) -> list[str]:
    """Return the methods at the usual budget, the tool first."""
    return list(dict.fromkeys(m for case in report.cases for m in case.methods if "@" not in m))


def count_by_kind(
    report: QuestionReport, question_set: QuestionSet, method: str
) -> dict[str, Counter[str]]:
    """Return the count of each verdict by kind of question, in alphabetical order."""
    kinds: dict[str, Counter[str]] = {}
    for case, found in pair_cases(report, question_set):
        if method in found.methods:
            verdicts = found.methods[method].verdicts
            for question, verdict in zip(case.questions, verdicts, strict=True):
                kinds.setdefault(question.kind, Counter())[verdict] += 1
    return dict(sorted(kinds.items()))


def pair_cases(
    report: QuestionReport, question_set: QuestionSet
) -> Iterator[tuple[QuestionCase, AskedCase]]:
    """Yield every case of the set that was asked, with its answers."""
    found = {(case.name, case.file): case for case in report.cases}
    for case in question_set.threads:
        if (case.name, case.file) in found:
            yield case, found[case.name, case.file]
