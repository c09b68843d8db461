"""What a summary says of how a command ended: `npm run lint` passes, `cargo build` failed."""

from collections.abc import Iterator

from tasuki.compaction.checks.evidence import Correction, SummaryEvidence
from tasuki.compaction.checks.summary_lines import SummaryLine
from tasuki.draft.facts.commands import (
    CommandRun,
    build_fact,
    makes_up_for,
    normalize_command,
    shorten_check,
)
from tasuki.draft.runs.command_kinds import find_change
from tasuki.draft.runs.runners import CheckKind
from tasuki.draft.runs.summaries import list_failed_tests
from tasuki.draft.text.split import fold_whitespace
from tasuki.model import CommandFact
from tasuki.patterns import compile_pattern

PASSES_ELSEWHERE = (
    r"(?:ist|sind|läuft|laufen|bestehen|besteht)\b[^.;]{0,30}\b(?:grün|fehlerfrei|ohne fehler|durch)\b|\b(?:fehlerfrei|erfolgreich|ohne fehler)\b"
    r"|成功し|成功です|通過し|パスし|(?:全部|全て|すべて).{0,8}(?:成功|通過|パス)|全部通过|已通过|测试通过"
)
"""What says in other languages that a check passed."""
NEGATED_ELSEWHERE = (
    r"\b(?:nicht|kein\w*|noch|bis|schl[aä]gt|fehlschl\w*|sobald)\b|失敗|まだ|ない|ません|未|没|失败"
)
"""What denies it there."""
_CODE = compile_pattern(r"`([^`\n]{3,200})`")
_CLAUSE_END = compile_pattern(r"(?i)[,;.!?()]\s|\s[—–-]\s|\b(?:and|but|while|whereas|und|aber)\b")
_GOOD = compile_pattern(
    rf"(?i)\b(?:pass(?:es|ed|ing)?|succeed(?:s|ed)?|green|clean|without (?:any )?(?:errors?|findings|problems|warnings)|no (?:errors|findings|warnings))\b|✅|{PASSES_ELSEWHERE}"
)
_BAD = compile_pattern(
    r"(?i)\b(?:fail(?:s|ed|ing)?|broken|reports? [1-9]\d* (?:\w+ )?(?:errors?|problems?)|meldet [1-9]\d* (?:fehler|probleme)|schl[aä]gt fehl)\b|❌|失敗|失败"
)
_PAST = compile_pattern(
    r"(?i)\b(?:passed|succeeded|failed|was|were|first|initially|earlier|originally|at the beginning|before)\b"
)
_DENIED = compile_pattern(
    rf"(?i)\b(?:not|never|no longer|until|except|only|some|most|should|must|would|once|when|if)\b|n't\b|{NEGATED_ELSEWHERE}"
)


def check_run_results(line: SummaryLine, evidence: SummaryEvidence) -> Iterator[Correction]:
    """Yield what a line says wrongly of how a command in code marks ended."""
    text = line.text
    for match in _CODE.finditer(text):
        before = _CLAUSE_END.split(text[: match.start()])[-1]
        after = _CLAUSE_END.split(text[match.end() :])[0]
        # Another name in code marks may be what the verdict is about.
        if "`" in before or "`" in after or _DENIED.search(before) or _DENIED.search(after):
            continue
        good, bad = (bool(p.search(f"{before} {after}")) for p in (_GOOD, _BAD))
        runs = _find_runs(match[1], evidence) if good != bad else []
        if runs and runs[-1].known:
            is_past = line.is_past or bool(_PAST.search(f"{before} {after}"))
            yield from _judge_runs(text, runs, says_good=good, is_past=is_past)


def _find_runs(code: str, evidence: SummaryEvidence) -> list[CommandRun]:
    """Return the runs of a command, also with more arguments, the newest last."""
    wanted = normalize_command(fold_whitespace(code))
    runs = [run for run in evidence.derived.runs if run.check and " " in wanted]
    return [
        run
        for run in runs
        if (done := normalize_command(run.command)) == wanted or done.startswith(f"{wanted} ")
    ]


def _judge_runs(
    text: str, runs: list[CommandRun], *, says_good: bool, is_past: bool
) -> Iterator[Correction]:
    last, kind = runs[-1], runs[-1].check
    judged = runs if is_past else [last]
    others = (run for run in runs if run.known and run.ok != last.ok)
    if not all(
        makes_up_for(last, run, kind, surely=True)
        or (not last.ok and makes_up_for(run, last, kind, surely=True))
        for run in others
    ):
        return
    if any(not run.known or run.ok == says_good for run in judged):
        return
    outcome = "passed" if last.ok else "FAILED"
    command = shorten_check(last.command, (kind,), 100)
    yield Correction(text, f"the last run of `{command}` {outcome}", (last.ref,))


def is_about_a_part(text: str) -> bool:
    """Return whether a line speaks of some tests: `10 of 11`, `the other tests`, those of a folder."""
    counts = _OF_COUNT.search(text)
    return bool(counts and counts[1] != counts[2]) or bool(_PART.search(text))


_OF_COUNT = compile_pattern(r"(?i)\b(\d{1,6}) ?(?:/|of|out of|von) ?(?:the )?(\d{1,6})\b")
_PART = compile_pattern(
    r"(?i)\b(?:other|earlier|existing|remaining|previous|older|rest of the|übrigen|anderen|bisherigen) (?:\w+ )?(?:unit |integration )?tests?\b"
    r"|\btests? (?:in|under|for|of|from|von|für|unter) (?:the )?[`'\"]?[\w.-]*(?:/|::|\.\w)|他のテスト|その他のテスト|其他测试"
)


def names_other_tests(words: str, last: CommandFact, evidence: SummaryEvidence) -> bool:
    """Return whether a line speaks of one test, or of those of a passed run, that did not fail last."""
    match = _NAMED_TESTS.search(words)
    if match is None:
        return False
    named = [word for word in match[1].lower().split() if len(word) >= MIN_PART]
    failure = " ".join((last.error, last.outcome, *last.failed_tests)).lower()
    if not named or any(word in failure for word in named):
        return False
    runs = [r for r in evidence.derived.runs if r.check == "test" and r.known]
    about = [r for r in runs if any(word in r.command.lower() for word in named)]
    return bool(about and about[-1].ok) if match[2] else not about or about[-1].ok


MIN_PART = 4
_NAMED_TESTS = compile_pattern(
    r"(?i)\b(?:the|all) (?:the )?((?:(?!all|full|whole|entire|last|latest)[\w-]+ ){1,4})test(s)?\b(?! (?:suite|run))"
)


def find_open_failure(line: SummaryLine, evidence: SummaryEvidence) -> CommandFact | None:
    """Return the last test run that failed and passed in no later one, where a line says all passed."""
    if line.is_past or not _ALL.search(line.words):
        return None
    still = list_open_failures(evidence)
    return next((o for o in still if not names_other_tests(line.words, o, evidence)), None)


def list_open_failures(evidence: SummaryEvidence, kind: CheckKind = "test") -> list[CommandFact]:
    """Return the failed checks of a kind after which none that may have looked at the same passed, the newest first.

    Of tests only runs that name what failed.
    """
    runs = [run for run in evidence.derived.runs if kind in run.judged or not run.judged]
    failed = (
        run
        for run in reversed(runs)
        if (judged := run.judged.get(kind))
        and judged.result == "failed"
        and (kind != "test" or list_failed_tests(run.output))
    )
    still = (
        run
        for run in failed
        if not any(
            later.ref > run.ref and not later.went_wrong and makes_up_for(later, run, kind)
            for later in runs
        )
    )
    return [build_fact([run], kind) for run in still]


def tells_of_all(check: CommandFact, evidence: SummaryEvidence) -> bool:
    """Return whether what a line says of a kind of check can only be about its last run.

    Not if that passed and may have left out what failed before it, or if it failed and something
    else, or the same on other files, passed before.
    """
    runs = {run.ref: run for run in evidence.derived.runs}
    last, kind = runs[check.refs[-1]], check.check
    judged = [run for run in runs.values() if kind in run.judged]
    failed = [run for run in judged if run.judged[kind].result == "failed"]
    passed = [run for run in judged if run.judged[kind].result == "passed"]
    if check.ok:
        is_open = any(
            not any(
                one.ref > run.ref and makes_up_for(one, run, kind, surely=True) for one in passed
            )
            for run in failed
        )
        since = min((run.ref for run in failed), default=last.ref)
        return not is_open and not any(
            run.ref > since and _MOVES_FILES.search(run.command) for run in runs.values()
        )
    others = (
        makes_up_for(last, run, kind, surely=True) or makes_up_for(run, last, kind, surely=True)
        for run in passed
    )
    is_changed = any(run.ref > last.ref and find_change(run.command) for run in runs.values())
    return not passed or (all(others) and not is_changed and not _was_put_back(last.ref, evidence))


_MOVES_FILES = compile_pattern(
    r"\bgit\s+(?:checkout(?!\s+-[bB])|switch(?!\s+-[cC])|stash(?!\s+(?:list|show))|reset\s+--hard|restore(?!\s+--staged))\b"
)


def _was_put_back(ref: int, evidence: SummaryEvidence) -> bool:
    """Return whether an edit after an entry undid one before it."""
    changes = [
        (entry.ref > ref, change)
        for entry in evidence.thread.entries
        if entry.tool and entry.tool.status == "ok"
        for change in entry.tool.changes
        if change.old and change.new
    ]
    before = {(one.path, one.old, one.new) for is_later, one in changes if not is_later}
    return any((one.path, one.new, one.old) in before for is_later, one in changes if is_later)


_ALL = compile_pattern(
    r"(?i)\b(?:all|every|entire|whole|full|everything|alle|sämtliche)\b|すべて|全て|全部|所有"
)
