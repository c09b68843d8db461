"""What a sentence says of the work: commits, pushes, pull requests, files, commands, todos."""

from collections.abc import Iterator

from tasuki.draft.claims.evidence import ThreadEvidence
from tasuki.draft.claims.literals import extract_claims
from tasuki.draft.claims.lookup import contains_command, matches_shortened
from tasuki.draft.claims.outcomes import judge_outcomes
from tasuki.draft.claims.sentences import DENIED, PUBLISHES, Correction, Sentence
from tasuki.draft.facts.commands import find_change_since
from tasuki.draft.repository.lines import name_paths
from tasuki.draft.text.split import extract_terms, fold_whitespace, shorten
from tasuki.patterns import compile_pattern

MOST_NAMED = 4
"""Files that a correction names."""
_NOT_COMMITTED = compile_pattern(
    r"(?i)\b(?:un-?committed|not (?:yet )?(?:been )?committed|un-?staged|not (?:yet )?staged|working tree only)\b"
)
_COMMITTED = compile_pattern(
    r"(?i)\bcommitt?ed\b|\bcommitt?et\b|コミット(?:済み|した|しました)|已提交"
)
_ALL_COMMITTED = compile_pattern(
    r"(?i)\b(?:all|everything|every change|the work|all changes|all files)\b(?:(?!nothing|none)[^.;]){0,60}(?<!the )(?<!a )\bcommitted\b|\bworking (?:tree|directory) (?:is )?clean\b|\bfully committed\b"
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


def judge_work(sentence: Sentence, evidence: ThreadEvidence) -> Iterator[Correction]:
    """Yield what a sentence says wrongly of the work."""
    yield from _judge_todo(sentence, evidence)
    if sentence.is_plan:
        return
    yield from judge_outcomes(sentence, evidence)
    yield from _judge_commits(sentence, evidence)
    yield from _judge_push(sentence, evidence)
    yield from _judge_merge(sentence, evidence)
    yield from _judge_changes(sentence, evidence)
    yield from _judge_runs(sentence, evidence)
    yield from _judge_background(sentence, evidence)


# -- commits ----------------------------------------------------------------------------


def _judge_commits(sentence: Sentence, evidence: ThreadEvidence) -> Iterator[Correction]:
    words, repository = sentence.words, evidence.facts.repository
    live = [c for c in repository.commits if not c.gone]
    if sentence.is_past:
        return
    named = [
        file
        for claim in extract_claims(sentence.text)
        if claim.kind == "path" and (file := evidence.find_file(claim.text))
    ]
    left = [f.path for f in named if f.edits and f.path in evidence.uncommitted]
    if _ALL_COMMITTED.search(words) and not DENIED.search(_NO_UNCOMMITTED.sub("", words)):
        if evidence.uncommitted:
            names = name_paths(sorted(evidence.uncommitted), MOST_NAMED)
            yield sentence.correct(f"edited after the last commit: {names}")
    elif _NOT_COMMITTED.search(words):
        done = [f for f in named if f.edits and f.path not in evidence.uncommitted and live]
        known = any(c.ref > f.edits[-1] for f in done for c in live)
        known = known and find_change_since(evidence.thread.entries, live[-1].ref) == ""
        if known and len(done) == len(named):
            paths = ", ".join(f"`{f.path}`" for f in done)
            yield sentence.correct(f"a commit after the last edit includes {paths}", live[-1].ref)
    elif _NONE_COMMITTED.search(words):
        if live:
            subjects = (f"`{c.hash}` {shorten(c.subject, 60)}".strip() for c in live[:-4:-1])
            yield sentence.correct(f"the thread committed {', '.join(subjects)}", live[-1].ref)
    elif _COMMITTED.search(words) and not sentence.is_denied and left and len(left) == len(named):
        names = name_paths(left, MOST_NAMED)
        yield sentence.correct(f"edited since the last commit that includes it: {names}")


_NO_UNCOMMITTED = compile_pattern(r"(?i)\b(?:no|nothing (?:is )?(?:left )?)\W*un-?committed\b")


def _judge_push(sentence: Sentence, evidence: ThreadEvidence) -> Iterator[Correction]:
    words, repository = sentence.words, evidence.facts.repository
    live = [c for c in repository.commits if not c.gone]
    if _NONE_PUSHED.search(words) and live and not sentence.is_past:
        if all(c.pushed for c in live):
            yield sentence.correct(f"`{live[-1].hash}` was pushed", live[-1].ref)
        return
    if _NOT_PUSHED.search(words) or not _PUSHED.search(words):
        return
    was_pushed = (
        repository.published
        or repository.pull_requests
        or "pushed" in evidence.lookup.user_text
        or any(
            PUBLISHES.search(run.command) and not run.went_wrong for run in evidence.derived.runs
        )
    )
    if not was_pushed and repository.commits and evidence.has_all_work:
        yield sentence.correct("no push is in the thread")


def _judge_merge(sentence: Sentence, evidence: ThreadEvidence) -> Iterator[Correction]:
    """Judge a merge or a pull request in a thread where nothing speaks of one."""
    if not evidence.has_all_work or sentence.is_denied:
        return
    known = evidence.lookup.lower
    if _MERGED.search(sentence.words) and "merg" not in known:
        yield sentence.correct("no merge is in the thread")
    elif _OPENED.search(sentence.words) and not _KNOWN_PULL.search(known):
        yield sentence.correct("no pull request is in the thread")


_MERGED = compile_pattern(r"(?i)\bmerged (?:\S+ )?(?:into|to|with|back)\b")
_OPENED = compile_pattern(
    r"(?i)\b(?:opened|created|submitted|raised) (?:a |the |an )?(?:draft )?(?:PR|MR|pull request|merge request)\b"
)
_KNOWN_PULL = compile_pattern(r"\bprs?\b|\bmrs?\b|pull|merge request|#\d")


# -- files and commands -----------------------------------------------------------------


def _judge_changes(sentence: Sentence, evidence: ThreadEvidence) -> Iterator[Correction]:
    """Judge whether a file which a sentence calls changed was changed, by a tool or a command."""
    if not _CHANGED.search(sentence.words) or _NOT_CHANGED.search(sentence.words):
        return
    paths = [c.text for c in extract_claims(sentence.text) if c.kind == "path"]
    if len(paths) != 1:
        return
    text, at = sentence.text, sentence.text.find(paths[0])
    before, after = text[max(0, at - 24) : at], text[at + len(paths[0]) :][:24]
    if not (_VERB_BEFORE.search(before) or _NOTE_AFTER.match(after)):
        return
    file = evidence.find_file(paths[0])
    if file is None or file.edits or file.created or file.deleted or not file.reads:
        return
    name = file.path.rpartition("/")[2]
    if any(name in run.command for run in evidence.derived.runs) or not evidence.has_all_work:
        return
    yield sentence.correct(f"`{file.path}` was only read, not changed", file.reads[-1])


_VERB_BEFORE = compile_pattern(
    r"(?i)\b(?:created|modified|edited|updated|changed|wrote|deleted|renamed|refactored)(?: (?:the|a|new|file|existing))*[:\s`'\"*]*$"
)
_NOTE_AFTER = compile_pattern(
    r"(?i)[`'\"*]*\s*(?:\((?:new|modified|created|updated|edited|deleted)\b|(?:was|has been|is now) (?:created|modified|edited|updated|changed|deleted|rewritten)\b)"
)


def _judge_runs(sentence: Sentence, evidence: ThreadEvidence) -> Iterator[Correction]:
    if not _RAN.search(sentence.words) or sentence.is_denied:
        return
    for claim in extract_claims(sentence.text):
        command = fold_whitespace(claim.text)
        if claim.kind != "command" or f"`{claim.text}`" not in sentence.text:
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
            yield sentence.correct(f"`{command}` was not run in the thread")


# -- todos and what runs in the background ----------------------------------------------


def _judge_todo(sentence: Sentence, evidence: ThreadEvidence) -> Iterator[Correction]:
    """Judge a todo item that a sentence calls done or open by the list as last written."""
    todos, ref = evidence.facts.todos, evidence.facts.todos_ref
    done, is_open = _DONE_MARK.search(sentence.text), _OPEN_MARK.search(sentence.text)
    if _NOT_DONE.search(sentence.words):
        return
    is_listed = bool(_NAMES_LIST.search(sentence.text))
    if todos and bool(done) != bool(is_open):
        for todo in todos:
            if fold_whitespace(todo.text).lower() not in sentence.text.lower():
                continue
            is_undone = todo.status == "pending" or (todo.status == "in_progress" and is_listed)
            if done and is_undone:
                yield sentence.correct("in the todo list it is open", ref)
            elif is_open and todo.status == "done":
                yield sentence.correct("in the todo list it is done", ref)
            return


def _judge_background(sentence: Sentence, evidence: ThreadEvidence) -> Iterator[Correction]:
    """Judge whether a sub-agent or a command in the background still runs."""
    words, low = sentence.words, sentence.text.lower()
    if sentence.is_denied:
        return
    for item in evidence.thread.background if _STILL_RUNS.search(words) else ():
        terms = set(extract_terms(item.label))
        shared = sum(term in low for term in terms)
        has_ended = item.state in ("done", "failed")
        if has_ended and terms and shared >= max(2, len(terms) * 0.6):
            yield sentence.correct(f"it has ended ({item.state})", item.ref)
            return
