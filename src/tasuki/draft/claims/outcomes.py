"""What a sentence says of how checks and commands ended, held against the runs of the thread.

A sentence that names a command, or a kind of check, is about its last run, unless it tells of the past.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tasuki.draft.claims.evidence import ThreadEvidence
from tasuki.draft.claims.sentences import DENIED, EARLIER, FAILED, SUCCEEDED, Correction, Sentence
from tasuki.draft.facts.commands import (
    CommandRun,
    build_fact,
    makes_up_for,
    normalize_command,
    shorten_check,
)
from tasuki.draft.runs.command_kinds import find_change
from tasuki.draft.runs.summaries import list_failed_tests
from tasuki.draft.text.entries import contains_verbatim
from tasuki.draft.text.split import fold_whitespace, shorten
from tasuki.model import CommandFact
from tasuki.patterns import compile_pattern

_PASSES_ELSEWHERE = (
    r"(?:ist|sind|läuft|laufen|bestehen|besteht)\b[^.;]{0,30}\b(?:grün|fehlerfrei|ohne fehler|durch)\b|\b(?:fehlerfrei|erfolgreich|ohne fehler)\b"
    r"|成功し|成功です|通過し|パスし|(?:全部|全て|すべて).{0,8}(?:成功|通過|パス)|全部通过|已通过|测试通过"
)
"""What says in other languages that a check passed."""
_CHECK_WORDS = (
    (
        "test",
        compile_pattern(
            r"(?i)\b(?:unit |integration |e2e |all )?(?:tests?|test suite|specs?|suite)\b|テスト|测试"
        ),
    ),
    ("lint", compile_pattern(r"(?i)\blint\w*|\btype ?check\w*|\bmypy|\bclippy|\beslint|\bruff\b")),
    ("build", compile_pattern(r"(?i)\bbuilds?\b|\bcompil\w+")),
)
_PASSES_NOW = compile_pattern(
    r"(?i)\b(?:all|both|everything|now|still|currently)\b[^.;]{0,60}\b(?:pass(?:es|ing)?|green|succeed(?:s|ing)?|clean)\b"
    r"|\b(?:is|are) (?:now |all |still )?(?:passing|green|clean)\b|\bpass(?:es|ing)?\b|✅|\bsucceeds?\b|\bno (?:test )?failures\b"
    rf"|\b(?:lint|build)\w* (?:is )?clean\b|\bcompiles(?! \w*(?:s|to)\b)\b|{_PASSES_ELSEWHERE}"
)
_PASSED = compile_pattern(r"(?i)\bpassed\b|\bsucceeded\b|\bwere green\b|\bsuccessful(?:ly)?\b")
_FAILS_NOW = compile_pattern(
    r"(?i)\b(?:is|are|still|currently)\b[^.;]{0,40}\b(?:fail(?:s|ing)?|red|broken)\b|\bfails\b|\bstill (?:reports|shows|has) (?:an? |\d+ )?errors?\b"
)
_COUNT = compile_pattern(
    r"(?i)(?<![\d.,])\b(\d{1,5}) (?:\w+ ){0,2}?(?:tests?|specs?|checks?)\b|(?<![\d.,])\b(\d{1,5}) (?:passed|passing|failed|failing|failures)\b"
)
_CODE = compile_pattern(r"`([^`\n]{3,200})`")
_CLAUSE_END = compile_pattern(r"(?i)[,;.!?()]\s|\s[—–-]\s|\b(?:and|but|while|whereas|und|aber)\b")
_GOOD = compile_pattern(
    rf"{SUCCEEDED.pattern}|\b(?:clean|without (?:any )?(?:errors?|findings|problems|warnings)|no (?:errors|findings|warnings))\b|✅|{_PASSES_ELSEWHERE}"
)
_BAD = compile_pattern(
    rf"{FAILED.pattern}|\b(?:broken|reports? [1-9]\d* (?:\w+ )?(?:errors?|problems?)|meldet [1-9]\d* (?:fehler|probleme)|schl[aä]gt fehl)\b|❌|失敗|失败"
)
_ENDED = compile_pattern(r"(?i)\b(?:passed|succeeded|failed|was|were)\b")
_NO_FAILURE = compile_pattern(
    r"(?i)\b(?:no|zero|0|none|nothing)\b[^.;]{0,30}\b(?:fail|broken|red\b)"
)
_EXCUSES = compile_pattern(r"(?i)pre-existing|unrelated|flak[ye]|known")
"""What says that a failure has nothing to do with the work."""


def judge_outcomes(sentence: Sentence, evidence: ThreadEvidence) -> list[Correction]:
    """Return what a sentence says wrongly of how something ended."""
    return (
        list(_judge_checks(sentence, evidence))
        or list(_judge_named_runs(sentence, evidence))
        or list(_judge_named_tests(sentence, evidence))
    )


def _judge_named_runs(sentence: Sentence, evidence: ThreadEvidence) -> Iterator[Correction]:
    """Judge how a command in code marks ended: `npm run lint` passes, `cargo build` failed."""
    text = sentence.text
    for match in () if _EXCUSES.search(text) or _is_about_a_part(text) else _CODE.finditer(text):
        before = _CLAUSE_END.split(text[: match.start()])[-1]
        after = _CLAUSE_END.split(text[match.end() :])[0]
        beside = f"{before} {after}"
        # Another name in code marks may be what the verdict is about.
        if "`" in beside or DENIED.search(before) or DENIED.search(after):
            continue
        is_good, wanted = bool(_GOOD.search(beside)), normalize_command(fold_whitespace(match[1]))
        runs = [
            run
            for run in evidence.derived.runs
            if run.check
            and " " in wanted  # Also with more arguments.
            and f"{normalize_command(run.command)} ".startswith(f"{wanted} ")
        ]
        if is_good == bool(_BAD.search(beside)) or not runs or not runs[-1].known:
            continue
        is_past = sentence.is_past or EARLIER.search(beside) or _ENDED.search(beside)
        last = build_fact(runs[-1:], runs[-1].check)
        is_other = all(run.known and run.ok != is_good for run in (runs if is_past else runs[-1:]))
        if is_other and _tells_of_all(last, evidence, runs):
            yield sentence.correct(_describe_last(replace(last, error="", outcome="")), *last.refs)


def _judge_checks(sentence: Sentence, evidence: ThreadEvidence) -> Iterator[Correction]:
    """Judge what a sentence says of all checks of a kind: the tests, the lint, the build."""
    words = sentence.words
    says_good = not sentence.is_denied
    says_bad = _FAILS_NOW.search(words) and not (
        _EXPLAINS.search(sentence.text) or _NO_FAILURE.search(words)
    )
    for kind, named in _CHECK_WORDS:
        last = evidence.last_checks.get(kind)
        if not named.search(sentence.text) or _is_about_a_part(sentence.text):
            continue
        if kind == "test" and last and _names_other_tests(words, last, evidence):
            continue
        if says_good and _PASSES_NOW.search(words):
            yield from _judge_passing(kind, last, sentence, evidence)
        elif last is None:
            continue
        elif says_good and _PASSED.search(words):
            if not last.ok and not evidence.may_have_passed(kind):
                yield sentence.correct(_describe_last(last), last.refs[-1])
            elif evidence.has_all_work and (wrong := _describe_wrong_count(sentence, evidence)):
                yield sentence.correct(wrong + _describe_last(last), last.refs[-1])
        elif not sentence.is_past:
            is_wrong = last.ok and says_bad and _tells_of_all(last, evidence)
            if is_wrong or (kind == "test" and _has_wrong_failures(words, last)):
                yield sentence.correct(_describe_last(last), last.refs[-1])


def _judge_passing(
    kind: str, last: CommandFact | None, sentence: Sentence, evidence: ThreadEvidence
) -> Iterator[Correction]:
    """Judge a sentence that says that all checks of a kind pass now."""
    is_about_all = kind == "test" and not sentence.is_past and _ALL.search(sentence.words)
    open_failures = _list_open_failures(evidence) if is_about_all else []
    failed = [o for o in open_failures if not _names_other_tests(sentence.words, o, evidence)]
    if last is None:
        if not evidence.may_have_passed(kind) and evidence.has_all_work:
            yield sentence.correct(f"no {_KIND_WORDS[kind]} that passed is in the thread")
    elif not last.ok:
        if not sentence.is_past and _tells_of_all(last, evidence):
            yield sentence.correct(_describe_last(last), last.refs[-1])
    elif failed:
        yield sentence.correct(_describe_last(failed[0]), failed[0].refs[-1])
    elif wrong := _describe_wrong_count(sentence, evidence):
        yield sentence.correct(wrong + _describe_last(last), last.refs[-1])


def _judge_named_tests(sentence: Sentence, evidence: ThreadEvidence) -> Iterator[Correction]:
    """Judge that a test which a sentence says passes is none of those that failed last."""
    text = sentence.text
    if sentence.is_past or sentence.is_denied:
        return
    for check in _list_open_failures(evidence):
        for failed in check.failed_tests:
            name = _NAME_END.findall(failed)[-1:]
            at = text.find(name[0]) if name and len(name[0]) >= MIN_TEST_NAME else -1
            if at >= 0 and _PASSES_BEHIND.match(text, at + len(name[0])):
                yield sentence.correct(_describe_last(check), check.refs[-1])
                return


_NAME_END = compile_pattern(r"[A-Za-z_]\w*")
_PASSES_BEHIND = compile_pattern(
    r"(?i)[`'\"]*(?: test)? (?:now |also |still )*(?:passes|passing|pass|is (?:green|fixed)|succeeds|ist grün|läuft)\b"
)
MIN_TEST_NAME = 6
_EXPLAINS = compile_pattern(
    r"(?i)pass|fixed|pre-existing|unrelated|flaky|because|when|if |correctly|verified|partial|environment"
)
"""What says that not everything fails, or why."""
_KIND_WORDS = {"test": "test run", "lint": "lint or type check", "build": "build"}


def _describe_last(check: CommandFact) -> str:
    line = check.outcome if check.ok else check.error
    shown = f": `{shorten(line, 100 if check.ok else 120)}`" if line else ""
    command = shorten_check(check.command, (check.check,), 100)
    return f"the last run of `{command}` {'passed' if check.ok else 'FAILED'}{shown}"


def _describe_wrong_count(sentence: Sentence, evidence: ThreadEvidence) -> str:
    """Return what is wrong with a number of tests that is nowhere in the thread, or ''."""
    for match in _COUNT.finditer(sentence.text):
        number = match[1] or match[2]
        is_known = contains_verbatim(number, evidence.lookup.folded)
        if int(number) > 1 and evidence.is_whole and not is_known:
            return f"{number} is in no result; "
    return ""


def _has_wrong_failures(words: str, last: CommandFact) -> bool:
    """Return whether words give another number of failures than the last run printed."""
    match = _FAILED_COUNT.search(words)
    is_former = EARLIER.search(words) or _MENDED.search(words)
    if match is None or is_former or not _SAYS_LAST.search(words):
        return False
    count = _WORDS_OF_NUMBERS.get((match[1] or match[2]).lower(), match[1] or match[2])
    printed = _FAILED_COUNT.search(last.outcome)
    shown = (printed[1] or printed[2]) if printed else "0" if last.ok else ""
    return count != shown if shown else count == "0"


_WORDS_OF_NUMBERS = {
    word: str(n) for n, word in enumerate("no one two three four five six seven eight nine".split())
}
_FAILED_COUNT = compile_pattern(
    rf"(?i)\b(\d{{1,5}}|{'|'.join(_WORDS_OF_NUMBERS)}) (?:\w+ ){{0,2}}?(?:failed|failing|failures?)\b"
    r"|\bfail(?:ed|ing|ures?)?: (\d{1,5})\b"
)
_SAYS_LAST = compile_pattern(r"(?i)\b(?:last|latest|newest|current(?:ly)?|still|there are)\b")
_MENDED = compile_pattern(r"(?i)\b(?:until|fixed|were)\b")


def _is_about_a_part(text: str) -> bool:
    """Return whether a text speaks of some tests: `10 of 11`, `the other tests`, those of a folder."""
    counts = _OF_COUNT.search(text)
    return bool(counts and counts[1] != counts[2]) or bool(_PART.search(text))


_OF_COUNT = compile_pattern(r"(?i)\b(\d{1,6}) ?(?:/|of|out of|von) ?(?:the )?(\d{1,6})\b")
_PART = compile_pattern(
    r"(?i)\b(?:other|earlier|existing|remaining|previous|older|rest of the|übrigen|anderen|bisherigen) (?:\w+ )?(?:unit |integration )?tests?\b"
    r"|\ball [\w-]+ packages?\b|\btests? (?:in|under|for|of|from|von|für|unter) (?:the )?[`'\"]?[\w.-]*(?:/|::|\.\w)|他のテスト|その他のテスト|其他测试"
)


def _names_other_tests(words: str, last: CommandFact, evidence: ThreadEvidence) -> bool:
    """Return whether words speak of one test, or of those of a passed run, that did not fail last."""
    match = _NAMED_TESTS.search(words)
    if match is None:
        return bool(_TESTS_OF_PATHS.search(words))
    named = [word for word in match[1].lower().split() if len(word) >= MIN_PART]
    failure = " ".join((last.error, last.outcome, *last.failed_tests)).lower()
    if not named or any(word in failure for word in named):
        return False
    runs = [r for r in evidence.derived.runs if r.check == "test" and r.known]
    about = [r for r in runs if any(word in r.command.lower() for word in named)]
    return bool(about and about[-1].ok) if match[2] else not about or about[-1].ok


MIN_PART = 4
_TESTS_OF_PATHS = compile_pattern(r"(?i)\ball (?:the )?‹› tests\b")
"""`All cart/order tests`: its words are hidden as a path is."""
_NAMED_TESTS = compile_pattern(
    r"(?i)\b(?:the|all) (?:the )?((?:(?!all|full|whole|entire|last|latest)[\w-]+ ){1,4})test(s)?\b(?! (?:suite|run))"
)


def _list_open_failures(evidence: ThreadEvidence) -> list[CommandFact]:
    """Return the test runs, which name what failed, after which none passed that may have run the same, the newest first."""
    runs = [run for run in evidence.derived.runs if "test" in run.judged or not run.judged]
    return [
        build_fact([run], "test")
        for run in reversed(runs)
        if (judged := run.judged.get("test"))
        and judged.result == "failed"
        and list_failed_tests(run.output)
        and not any(
            later.ref > run.ref and not later.went_wrong and makes_up_for(later, run, "test")
            for later in runs
        )
    ]


def _tells_of_all(
    check: CommandFact, evidence: ThreadEvidence, among: Sequence[CommandRun] = ()
) -> bool:
    """Return whether what a sentence says of a check can only be about its last run, `among` those of a command or all.

    Not if that passed and may have left out what failed before it, or if it failed and something
    else, or the same on other files, passed before.
    """
    runs = {run.ref: run for run in evidence.derived.runs}
    last, kind = runs[check.refs[-1]], check.check
    judged = [run for run in among or runs.values() if kind in run.judged]
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


def _was_put_back(ref: int, evidence: ThreadEvidence) -> bool:
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
