"""What a summary says of the work: checks that passed, commits, edited files, todos."""

from collections.abc import Iterator

from tasuki.compaction.checks.evidence import Correction, SummaryEvidence
from tasuki.compaction.checks.run_results import (
    NEGATED_ELSEWHERE,
    PASSES_ELSEWHERE,
    check_run_results,
    find_open_failure,
    is_about_a_part,
    list_open_failures,
    names_other_tests,
    tells_of_all,
)
from tasuki.compaction.checks.summary_lines import SummaryLine
from tasuki.draft.claims.literals import extract_claims
from tasuki.draft.claims.lookup import contains_command, matches_shortened
from tasuki.draft.facts.commands import find_change_since, shorten_check
from tasuki.draft.repository.lines import name_paths
from tasuki.draft.text.entries import contains_verbatim
from tasuki.draft.text.split import extract_terms, fold_whitespace, shorten
from tasuki.model import CommandFact
from tasuki.patterns import compile_pattern

MOST_NAMED = 4
"""Files that a correction names."""
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
    rf"|\b(?:lint|build)\w* (?:is )?clean\b|\bcompiles\b|{PASSES_ELSEWHERE}"
)
_PASSED = compile_pattern(r"(?i)\bpassed\b|\bsucceeded\b|\bwere green\b|\bsuccessful(?:ly)?\b")
_FAILS_NOW = compile_pattern(
    r"(?i)\b(?:is|are|still|currently)\b[^.;]{0,40}\b(?:fail(?:s|ing)?|red|broken)\b|\bfails\b|\bstill (?:reports|shows|has) (?:an? |\d+ )?errors?\b"
)
_NEGATED = compile_pattern(
    rf"(?i)\b(?:not|n't|never|no longer|fail\w*|without|except|apart from|aside from|other than|but|only|some|most|half)\b|n't\b|{NEGATED_ELSEWHERE}"
)
_COUNT = compile_pattern(
    r"(?i)\b(\d{1,5}) (?:\w+ ){0,2}?(?:tests?|specs?|checks?)\b|\b(\d{1,5}) (?:passed|passing|failed|failing|failures)\b"
)
_NOT_COMMITTED = compile_pattern(
    r"(?i)\b(?:un-?committed|not (?:yet )?(?:been )?committed|un-?staged|not (?:yet )?staged|working tree only)\b"
)
_COMMITTED = compile_pattern(
    r"(?i)\bcommitt?ed\b|\bcommitt?et\b|コミット(?:済み|した|しました)|已提交"
)
_ALL_COMMITTED = compile_pattern(
    r"(?i)\b(?:all|everything|every change|the work|all changes|all files)\b[^.;]{0,60}\bcommitted\b|\bworking (?:tree|directory) (?:is |was )?clean\b|\bfully committed\b"
    r"|\bno uncommitted\b|\bnothing (?:is )?(?:left )?(?:un-?committed|to commit)\b"
)
_NONE_COMMITTED = compile_pattern(
    r"(?i)\b(?:nothing|none)\b[^.;]{0,40}\b(?:been )?committed\b|\bno commits?\b (?:was|were|has|have|made|yet)|\bno commits? (?:made|yet)"
)
_PUSHED = compile_pattern(
    r"(?i)\b(?:was|were|been|is|are|and|committed|then)\s+(?:\w+ )?pushed\b|^(?:\W*\[x\] |✅ )?pushed\b|\bpushed (?:to|it|them|the|all|both)\b"
    r"|\b(?:wurden?|ist|sind|und) (?:\w+ )?gepusht\b|プッシュ(?:済み|した|しました)|已推送"
)
_NOT_PUSHED = compile_pattern(
    r"(?i)\b(?:not|n't|never|nothing|no)\b[^.;]{0,40}\bpush|\bunpushed\b|\b(?:nicht|nichts|nie)\b[^.;]{0,40}\bgepusht|まだ|ていない|未推送|没有推送"
)
_NONE_PUSHED = compile_pattern(
    r"(?i)\bnothing (?:\w+ ){0,3}pushed\b|\bno (?:commit|branch)\w* (?:\w+ ){0,3}pushed\b|\bbranch (?:‹› )?(?:has|is|was)(?: not|n't) (?:yet )?(?:been )?pushed\b|\bnichts (?:\w+ ){0,2}gepusht\b"
)
_CHANGED = compile_pattern(
    r"(?i)\b(?:created|modified|edited|updated|changed|wrote|added|deleted|removed|renamed|refactored|fixed)\b|\bNEW FILE\b"
)
_NOT_CHANGED = compile_pattern(
    r"(?i)\b(?:not|n't|never|without|only read|read only|unchanged|no)\b"
)
_RAN = compile_pattern(
    r"(?i)\b(?:ran|executed|was run|were run|re-?ran|have run|has run|i run)\b"
    r"|\b(?:deployed|published|released|installed|added|migrated)\b[^.;]{0,60}\b(?:with|via|by|using)\b|‹› (?:passed|succeeded)\b"
)
_DONE_MARK = compile_pattern(r"(?i)✅|☑|✔|\[x\]|\b(?:completed?|done|finished)\b")
_OPEN_MARK = compile_pattern(r"(?i)⏳|☐|🔄|\[ \]|\b(?:pending|in[ _-]progress|not started|open)\b")
_NOT_DONE = compile_pattern(r"(?i)(?:\bnot|n't)\b[^.;]{0,20}\b(?:completed?|done|finished)\b")
_NAMES_LIST = compile_pattern(r"(?i)\bto-?dos?\b")
_STILL_RUNS = compile_pattern(
    r"(?i)\b(?:still|currently|is|are) (?:running|in the background)|\bin the background\b"
)


def check_work(line: SummaryLine, evidence: SummaryEvidence) -> Iterator[Correction]:
    """Yield what a line says wrongly of the work."""
    yield from _check_todo(line, evidence)
    if line.is_plan:
        return
    found = list(_check_results(line, evidence)) or list(check_run_results(line, evidence))
    yield from found
    if not found:
        yield from _check_failed_names(line, evidence)
    yield from _check_commits(line, evidence)
    yield from _check_changes(line, evidence)
    yield from _check_runs(line, evidence)


# -- checks -----------------------------------------------------------------------------


def _check_results(line: SummaryLine, evidence: SummaryEvidence) -> Iterator[Correction]:
    for kind, words in _CHECK_WORDS:
        last = evidence.last_checks.get(kind)
        if not words.search(line.text) or is_about_a_part(line.text):
            continue
        if kind == "test" and last and names_other_tests(line.words, last, evidence):
            continue
        if _PASSES_NOW.search(line.words) and not _NEGATED.search(line.words):
            yield from _check_passing(kind, last, line, evidence)
        elif _PASSED.search(line.words) and not _NEGATED.search(line.words):
            if last and not last.ok and not evidence.may_have_passed(kind):
                yield Correction(line.text, _describe_last(last), last.refs[-1:])
            elif last and evidence.has_all_work and (n := _find_wrong_count(line, evidence)):
                truth = f"{n} is in no result; {_describe_last(last)}"
                yield Correction(line.text, truth, last.refs[-1:])
        elif last and not line.is_past:
            says_failing = _FAILS_NOW.search(line.words) and not _EXPLAINS.search(line.text)
            says_failing = says_failing and tells_of_all(last, evidence)
            wrong_count = kind == "test" and _has_wrong_failures(line, last)
            if (last.ok and says_failing) or wrong_count:
                yield Correction(line.text, _describe_last(last), last.refs[-1:])


def _check_passing(
    kind: str, last: CommandFact | None, line: SummaryLine, evidence: SummaryEvidence
) -> Iterator[Correction]:
    if last is None:
        if not evidence.may_have_passed(kind) and evidence.has_all_work:
            yield Correction(line.text, f"no {_KIND_WORDS[kind]} that passed is in the thread")
    elif not last.ok:
        if not line.is_past and tells_of_all(last, evidence):
            yield Correction(line.text, _describe_last(last), last.refs[-1:])
    elif kind == "test" and (failed := find_open_failure(line, evidence)):
        yield Correction(line.text, _describe_last(failed), failed.refs[-1:])
    elif wrong := _find_wrong_count(line, evidence):
        truth = f"{wrong} is in no result; {_describe_last(last)}"
        yield Correction(line.text, truth, last.refs[-1:])


def _check_failed_names(line: SummaryLine, evidence: SummaryEvidence) -> Iterator[Correction]:
    """Check that a test which a line says passes is none of those that failed last."""
    if line.is_past or _NEGATED.search(line.words):
        return
    for check in list_open_failures(evidence):
        for failed in check.failed_tests:
            name = _NAME_END.findall(failed)[-1:]
            at = line.text.find(name[0]) if name and len(name[0]) >= MIN_TEST_NAME else -1
            if at >= 0 and _PASSES_BEHIND.match(line.text, at + len(name[0])):
                yield Correction(line.text, _describe_last(check), check.refs[-1:])
                return


_NAME_END = compile_pattern(r"[A-Za-z_]\w*")
_PASSES_BEHIND = compile_pattern(
    r"(?i)[`'\"]*(?: test)? (?:now |also |still )*(?:passes|passing|pass|is (?:green|fixed)|succeeds|ist grün|läuft)\b"
)
MIN_TEST_NAME = 6


_EXPLAINS = compile_pattern(r"(?i)pass|fixed|pre-existing|unrelated|flaky|because|when|if ")
"""What says that not everything fails, or why."""
_KIND_WORDS = {"test": "test run", "lint": "lint or type check", "build": "build"}


def _describe_last(check: CommandFact) -> str:
    command = shorten_check(check.command, (check.check,), 100)
    if not check.ok:
        error = f": `{shorten(check.error, 120)}`" if check.error else ""
        return f"the last run of `{command}` FAILED{error}"
    outcome = f": `{shorten(check.outcome, 100)}`" if check.outcome else ""
    return f"the last run of `{command}` passed{outcome}"


def _find_wrong_count(line: SummaryLine, evidence: SummaryEvidence) -> str:
    """Return a number of tests that stands nowhere in the thread, or ''."""
    for match in _COUNT.finditer(line.text):
        number = match[1] or match[2]
        is_known = contains_verbatim(number, evidence.lookup.folded)
        if int(number) > 1 and evidence.is_whole and not is_known:
            return number
    return ""


def _has_wrong_failures(line: SummaryLine, last: CommandFact) -> bool:
    """Return whether a line gives another number of failures than the last run printed."""
    match = _FAILED_COUNT.search(line.words)
    says_last = _SAYS_LAST.search(line.words) and not _SAYS_FIRST.search(line.words)
    if match is None or not says_last:
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
_SAYS_FIRST = compile_pattern(
    r"(?i)\b(?:initially|first|originally|earlier|before|previous\w*|until|fixed|were)\b"
)


# -- commits ----------------------------------------------------------------------------


def _check_commits(line: SummaryLine, evidence: SummaryEvidence) -> Iterator[Correction]:
    text, repository = line.text, evidence.facts.repository
    live = [c for c in repository.commits if not c.gone]
    named = [
        f for c in extract_claims(text) if c.kind == "path" and (f := evidence.find_file(c.text))
    ]
    says_all = _ALL_COMMITTED.search(line.words)
    if says_all and not _NEGATED.search(_NO_UNCOMMITTED.sub("", line.words)):
        left = sorted(evidence.uncommitted)
        if left and not line.is_past:
            yield Correction(text, f"edited after the last commit: {name_paths(left, MOST_NAMED)}")
    elif _NOT_COMMITTED.search(line.words):
        done = [f for f in named if f.edits and f.path not in evidence.uncommitted and live]
        known = any(c.ref > f.edits[-1] for f in done for c in live)
        known = known and find_change_since(evidence.thread.entries, live[-1].ref) == ""
        if done and known and len(done) == len(named) and not line.is_past:
            paths = ", ".join(f"`{f.path}`" for f in done)
            truth = f"a commit after the last edit includes {paths}"
            yield Correction(text, truth, (live[-1].ref,))
    elif _NONE_COMMITTED.search(line.words):
        if live and not line.is_past:
            subjects = (f"`{c.hash}` {shorten(c.subject, 60)}".strip() for c in live[:-4:-1])
            yield Correction(text, f"the thread committed {', '.join(subjects)}", (live[-1].ref,))
    elif _COMMITTED.search(line.words) and not _NEGATED.search(line.words) and not line.is_past:
        left = [f.path for f in named if f.edits and f.path in evidence.uncommitted]
        if left and len(left) == len(named):
            names = name_paths(left, MOST_NAMED)
            yield Correction(text, f"edited since the last commit that includes it: {names}")
    yield from _check_push(line, evidence)
    yield from _check_merge(line, evidence)


def _check_merge(line: SummaryLine, evidence: SummaryEvidence) -> Iterator[Correction]:
    """Check a merge or a pull request in a thread where nothing speaks of one."""
    if not evidence.has_all_work or _NEGATED.search(line.words):
        return
    known = evidence.lookup.lower
    if _MERGED.search(line.words) and "merg" not in known:
        yield Correction(line.text, "no merge is in the thread")
    elif _OPENED.search(line.words) and not _KNOWN_PULL.search(known):
        yield Correction(line.text, "no pull request is in the thread")


_MERGED = compile_pattern(r"(?i)\bmerged (?:\S+ )?(?:into|to|with|back)\b")
_OPENED = compile_pattern(
    r"(?i)\b(?:opened|created|submitted|raised) (?:a |the |an )?(?:draft )?(?:PR|MR|pull request|merge request)\b"
)
_KNOWN_PULL = compile_pattern(r"\bprs?\b|\bmrs?\b|pull|merge request|#\d")


_NO_UNCOMMITTED = compile_pattern(r"(?i)\b(?:no|nothing (?:is )?(?:left )?)\W*un-?committed\b")


def _check_push(line: SummaryLine, evidence: SummaryEvidence) -> Iterator[Correction]:
    live = [c for c in evidence.facts.repository.commits if not c.gone]
    if _NONE_PUSHED.search(line.words) and live and not line.is_past:
        if all(c.pushed for c in live):
            yield Correction(line.text, f"`{live[-1].hash}` was pushed", (live[-1].ref,))
        return
    if _NOT_PUSHED.search(line.words) or not _PUSHED.search(line.words):
        return
    runs = evidence.derived.runs
    has_pushed = any("git push" in run.command and not run.went_wrong for run in runs)
    has_pushed = has_pushed or "pushed" in evidence.lookup.user_text
    if evidence.facts.repository.commits and not has_pushed and evidence.has_all_work:
        yield Correction(line.text, "no push is in the thread")


# -- files and commands -----------------------------------------------------------------


def _check_changes(line: SummaryLine, evidence: SummaryEvidence) -> Iterator[Correction]:
    """Check that a file which a line calls changed was changed, by a tool or a command."""
    if not _CHANGED.search(line.words) or _NOT_CHANGED.search(line.words):
        return
    paths = [c.text for c in extract_claims(line.text) if c.kind == "path"]
    if len(paths) != 1:
        return
    text, at = line.text, line.text.find(paths[0])
    before, after = text[max(0, at - 24) : at], text[at + len(paths[0]) :][:24]
    if not (_VERB_BEFORE.search(before) or _NOTE_AFTER.match(after)):
        return
    file = evidence.find_file(paths[0])
    if file is None or file.edits or file.created or file.deleted or not file.reads:
        return
    name = file.path.rpartition("/")[2]
    if any(name in run.command for run in evidence.derived.runs) or not evidence.has_all_work:
        return
    yield Correction(line.text, f"`{file.path}` was only read, not changed", file.reads[-1:])


_VERB_BEFORE = compile_pattern(
    r"(?i)\b(?:created|modified|edited|updated|changed|wrote|deleted|renamed|refactored)(?: (?:the|a|new|file|existing))*[:\s`'\"*]*$"
)
_NOTE_AFTER = compile_pattern(
    r"(?i)[`'\"*]*\s*(?:\((?:new|modified|created|updated|edited|deleted)\b|(?:was|has been|is now) (?:created|modified|edited|updated|changed|deleted|rewritten)\b)"
)


def _check_runs(line: SummaryLine, evidence: SummaryEvidence) -> Iterator[Correction]:
    if not _RAN.search(line.words) or _NEGATED.search(line.words):
        return
    for claim in extract_claims(line.text):
        command = fold_whitespace(claim.text)
        if claim.kind != "command" or f"`{claim.text}`" not in line.text:
            continue
        known = all(
            any(
                contains_command(run, part, is_cut=True)
                or matches_shortened(part, run)
                or part in run
                for run in evidence.command_words
            )
            for part in command.split(" && ")
        )
        if not known and not evidence.lookup.has_claim(claim, ()) and evidence.has_all_work:
            yield Correction(line.text, f"`{command}` was not run in the thread")


# -- todos and background ---------------------------------------------------------------


def _check_todo(line: SummaryLine, evidence: SummaryEvidence) -> Iterator[Correction]:
    """Check a todo item that a line calls done or open against the list as last written."""
    todos, ref = evidence.facts.todos, (evidence.facts.todos_ref,)
    done, is_open = _DONE_MARK.search(line.text), _OPEN_MARK.search(line.text)
    if _NOT_DONE.search(line.words):
        return
    is_listed = bool(_NAMES_LIST.search(line.text))
    if todos and bool(done) != bool(is_open):
        for todo in todos:
            if fold_whitespace(todo.text).lower() not in line.text.lower():
                continue
            is_undone = todo.status == "pending" or (todo.status == "in_progress" and is_listed)
            if done and is_undone:
                yield Correction(line.text, "in the todo list it is open", ref)
            elif is_open and todo.status == "done":
                yield Correction(line.text, "in the todo list it is done", ref)
            return
    if _STILL_RUNS.search(line.words) and not line.is_plan and not _NEGATED.search(line.words):
        for item in evidence.thread.background:
            terms = set(extract_terms(item.label))
            shared = sum(term in line.text.lower() for term in terms)
            has_ended = item.state in ("done", "failed")
            if has_ended and terms and shared >= max(2, len(terms) * 0.6):
                yield Correction(line.text, f"it has ended ({item.state})", (item.ref,))
                return
