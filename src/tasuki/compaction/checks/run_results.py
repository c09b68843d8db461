"""What a summary says of how a command ended: `npm run lint` passes, `cargo build` failed."""

from collections.abc import Iterator

from tasuki.compaction.checks.evidence import Correction, SummaryEvidence
from tasuki.compaction.checks.summary_lines import SummaryLine
from tasuki.draft.facts.commands import (
    CommandRun,
    normalize_command,
    shorten_command,
    strip_filter,
)
from tasuki.draft.runs.command_kinds import runs_project_script
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
    last = runs[-1]
    judged = runs if is_past else [last]
    if any(not run.known or run.ok == says_good for run in judged):
        return
    outcome = "passed" if last.ok else "FAILED"
    command = shorten_command(strip_filter(last.command), 100)
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
    return next(iter(list_open_failures(evidence)), None)


def list_open_failures(evidence: SummaryEvidence) -> list[CommandFact]:
    """Return the runs with failed tests after which no run of as many passed, the newest first."""
    runs = [
        run
        for run in evidence.derived.runs
        if not run.went_wrong and (run.check == "test" or runs_project_script(run.command))
    ]
    failed = [
        check
        for check in (*evidence.facts.commands, *evidence.facts.last_check)
        if check.check == "test" and check.result == "failed" and check.failed_tests
    ]
    still = [
        check
        for check in failed
        if not any(run.ref > check.refs[-1] and _covers(run.command, check.command) for run in runs)
    ]
    return sorted(still, key=lambda check: -check.refs[-1])


def _covers(command: str, failed: str) -> bool:
    """Return whether a command may run all tests of another: it names no part that leaves some out."""
    named, wanted = (
        [word.removesuffix("...").strip("/") for word in text.split() if _PLACE.search(word)]
        for text in (normalize_command(command), normalize_command(failed))
    )
    if _PICKS.search(command):
        return bool(_PICKS.search(failed))
    return not named or (
        all(any(w.startswith(n.removeprefix(".")) or n in (".", "") for n in named) for w in wanted)
        and bool(wanted)
    )


_ALL = compile_pattern(
    r"(?i)\b(?:all|every|entire|whole|full|everything|alle|sämtliche)\b|すべて|全て|全部|所有"
)
_PLACE = compile_pattern(r"^\.{0,2}[\w-]*/|::|\.(?:py|ts|tsx|js|go|rs|rb)$|^tests?$")
_PICKS = compile_pattern(r"(?:^|\s)(?:-k|-t|-run|--grep|--test-name-pattern|--filter)(?:[= ]|$)")
