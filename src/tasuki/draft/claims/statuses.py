"""Whether a thread refutes what a sentence says of outcomes: passed, failed, committed, merged, pushed, stopped, by the user."""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

from tasuki.draft.claims.literals import is_attributed_to_user, strip_attribution
from tasuki.draft.claims.sentences import FAILED, PUBLISHES, SUCCEEDED
from tasuki.draft.claims.support import CITED_SHARE, is_other_language, measure_mentioned
from tasuki.draft.facts.derive import DerivedFacts
from tasuki.draft.text.entries import extract_user_words, join_entry_text
from tasuki.draft.text.split import find_paths
from tasuki.model import Thread
from tasuki.patterns import compile_pattern

_CLAUSES = compile_pattern(
    r"[.!?](?=\s|$)|[;:](?=\s)|,? (?:and|but|while|whereas|so|then) | [—–] |, "
)
_OPEN = compile_pattern(
    r"(?i)\b(?:not|never|no longer|no|nothing|none|without|yet to|until|once|unless|if|should|must|would|could|will|to be)\b|n't\b"
)
_NEGATED = compile_pattern(
    rf"{_OPEN.pattern}|\b(?:before|used to|had|first|earlier|previously|instead of|rather than|except|zero|0)\b"
)
_NOTHING_DONE = compile_pattern(r"(?i)\b(?:nothing|not|never|no|none|isn't|wasn't|hasn't|un)\b")
_WENT_WRONG = compile_pattern(
    r"(?i)\b(?:fail(?:ed|ing)|broken?|crash(?:e[sd])?|did(?:n't| not) (?:compile|build|work|start|pass|run|link|load)"
    r"|(still) .*\b(?:fails?|breaks?|errors?|vulnerabilit))"
)
_TROUBLE = compile_pattern(
    r"fail|error|cannot|can't|could(?: not|n't)|not found|crash|brok|panic|exception|refus|reject|denied|invalid|abort"
    r"|time[sd]? ?out|no such|fatal|✗|✘|exit(?:ed)? (?:with )?(?:code|status)? ?[1-9]"
)
_CHECK_ROW = compile_pattern(r'"conclusion": ?"([a-z_]+)"|\t(pass|fail)\t')
_GREEN_ROWS = frozenset(("success", "skipped", "neutral", "pass"))
_ACT = compile_pattern(
    r"(?i)\b(merg|rebas|post|publish|deploy|tagg|revert|re(?:start|open|nam)|upload|install|(?:up|down)grad|approv)e?d\b"
)
_WROTE = compile_pattern(
    r"(?i)\bagent (?:has |had |also |then )*(?:added|changed|edited|implemented|removed|deleted|fixed|replaced|moved|wrote|rewrote)\b"
)
_MERGED = r"merged|(?:git|pr|merge) (?:merge|pull request|branch)"
_CODE = compile_pattern(r"`([^`\n]+)`")
_FIGURE = compile_pattern(
    r"(?<![\w.,:#/-])(?:\d+(?:\.\d+)+|\d{2,4})(?![\w.,:]*[\w-])(?! ?(?:%|[kMG]B))"
)
_NUMBER = compile_pattern(r"\d+(?:\.\d+)*")
_ABSENCE = compile_pattern(
    r"(?i)^(?:nothing \w+ (?:been )?|no )(commit|push|test|pull request)\w*(?: (?:was|were|has been|have been|exists?|ran|run|made|created|opened|yet))*$"
)
_TESTS = compile_pattern(r"(?i)\b(?:all|the|every|full|whole)\b.{0,40}\b(?:tests?|suite|checks?)\b")
_COMMITTED = compile_pattern(r"(?i)\b(?:un)?committed\b|\bno commits?\b")
_PUSHED = compile_pattern(r"(?i)\bpushed\b")
_PULL_REQUEST = compile_pattern(r"(?i)\b(?:PR|pull request|MR|merge request) ?#?(\d{1,6})\b")
_PULL_REQUEST_STATE = compile_pattern(r"(?i)\b(merged|closed|open)\b")
_STOPPED = compile_pattern(r"(?i)\b(?:stopped|killed|ended|terminated|shut down)\b")
_REMOVED = compile_pattern(r"(?i)\b(?:removed|deleted)\b(?! (?:from|in)\b)")
_BY_USER = compile_pattern(r"(?i)\bby the (?:user|owner|operator)\b")
_USER = compile_pattern(r"(?i)\b(?:user|owner|operator|maintainer|developer)s?\b")
"""In other languages no verb tells whether something is called the user's."""
_PRONOUN = compile_pattern(r"(?i)\b(?:they|he|she)\b")
_CAUSE = compile_pattern(
    r"(?i)\b(?:because(?: of)?|due to|caused by|as a result of|thanks to) ([^.;]{4,200})"
)
MIN_STEMS = 1.0
"""Weight of the words of a clause below which nothing can be said of it."""


class StatusCheck:
    """Compares what sentences say of outcomes with the calls that they cite and with the facts."""

    def __init__(self, thread: Thread, derived: DerivedFacts) -> None:
        self.thread = thread
        self.facts = derived.facts
        self._runs = {run.ref: run for run in derived.runs}

    @cached_property
    def _entries(self) -> dict[int, str]:
        return {e.ref: join_entry_text(e).lower() for e in self.thread.entries}

    @cached_property
    def _user_messages(self) -> list[str]:
        words = (extract_user_words(entry).lower() for entry in self.thread.entries)
        return [text for text in words if text]

    @cached_property
    def _done(self) -> dict[str, object]:
        state = self.facts.repository
        tests = [c for c in self.facts.last_check if c.check == "test"]
        return {"commit": state.commits, "push": state.published, "test": tests, "pull request": state.pull_requests}  # fmt: skip

    def find_refuted(self, text: str, refs: Sequence[int]) -> str:
        """Return why a sentence is not so, in words for its author; empty if nothing refutes it."""
        for clause in filter(None, map(str.strip, _CLAUSES.split(text))):
            if why := next(self._list_refuted_in(clause, refs), ""):
                return why
            if _USER.search(clause) and (why := self._find_user_act(clause)):
                return why
        return ""

    def find_unproven(self, text: str, refs: Collection[int]) -> str:
        """Return what a sentence says and the entries that it cites do not bear, in words for its author."""
        near = "\n".join(self._entries.get(n, "") for r in refs for n in (r - 1, r, r + 1))
        return next(self._list_unproven(text, refs, near), "") if refs else ""

    def _list_unnamed(self, text: str, refs: Collection[int], near: str) -> Iterator[str]:
        """Yield names and figures that cited entries do not hold; in any language."""
        names = [name for name in _CODE.findall(text) if len(name) > 2]
        is_checked = any((run := self._runs.get(r)) and run.check for r in refs)
        unnamed = []  # Neither whole nor by a path's last part, a member, a command's words.
        for name in names:
            low = name.lower()
            parts = (low.rstrip("/").rpartition("/")[2], re.split(r"[.:#]", low)[-1].rstrip("()"))
            is_whole = all(word in near for word in low.split())
            if not is_whole and not any(len(p) > 3 and p in near for p in parts):
                unnamed.append(name)
        if unnamed != names:
            unnamed = [name for name in unnamed if name.startswith("--") or find_paths(name)]
        if unnamed and not is_checked:
            yield f"the entries that it cites do not name `{unnamed[0]}`"
        numbers = set(_NUMBER.findall(near))
        figures = (n for n in _FIGURE.findall(text) if not _is_counted(n, numbers))
        yield from (f"the entries that it cites do not say {n}" for n in figures)

    def _list_unproven(self, text: str, refs: Collection[int], near: str) -> Iterator[str]:
        yield from self._list_unnamed(text, refs, near)
        if is_other_language(text, near):
            return
        if match := _CAUSE.search(text):
            plain = _CODE.sub(" ", match[1])
            said = plain if measure_mentioned(plain, near)[1] >= MIN_STEMS else match[1]
            share, weight = measure_mentioned(said, near)
            if weight >= MIN_STEMS and share < CITED_SHARE:
                yield f"the cause, {match[1].strip()}, is not in the entries that it cites"
        for clause in filter(None, map(str.strip, _CLAUSES.split(text))):
            act, failure = _find_said(_ACT, clause), _find_said(_WENT_WRONG, clause)
            if act and not re.search(_MERGED if act[1] == "merg" else act[1].lower(), near):
                yield f"the entries that it cites do not say “{act[0]}”"
            if not self._was_changed and _find_said(_WROTE, clause):
                yield "the thread shows no change"
            passed = [o.passed for o in self.facts.lessons if o.failed in refs and o.passed]
            if failure and not self._shows_trouble(refs):
                yield "the entries that it cites show no failure"
            elif failure and failure[1] and passed:
                yield f"it passed in #{passed[-1]}"
            if (denied := _ABSENCE.match(clause)) and self._done[denied[1].lower()]:
                yield "the thread shows the opposite"
            if why := self._find_user_act(clause):
                yield why

    @cached_property
    def _was_changed(self) -> bool:
        """Whether the thread may have changed something."""
        facts = self.facts
        found = facts.uncommitted or facts.maybe_committed or facts.repository.commits
        return bool(found) or any(e.tool and e.tool.changes for e in self.thread.entries)

    def _shows_trouble(self, refs: Collection[int]) -> bool:
        """Return whether some entries tell of a failure; what ran or lists checks decides first."""
        results = {run.result for r in refs if (run := self._runs.get(r)) and run.check}
        if results and results <= {"passed", "failed"}:
            return "failed" in results
        for text in (self._entries.get(r, "") for r in refs):
            rows = {a or b for a, b in _CHECK_ROW.findall(text)}
            if rows - _GREEN_ROWS or (not rows and _TROUBLE.search(text)):
                return True
        return False

    def _list_refuted_in(self, clause: str, refs: Sequence[int]) -> Iterator[str]:
        if _COMMITTED.search(clause) and (why := self._find_commit_fault(clause)):
            yield why
        if (named := _PULL_REQUEST.search(clause)) and (said := _PULL_REQUEST_STATE.search(clause)):
            pulls = self.facts.repository.pull_requests
            states = {p.state for p in pulls if p.number == int(named[1])}
            state = states.pop() if len(states) == 1 else ""
            state = "open" if state == "draft" else state
            is_denied = bool(_NOTHING_DONE.search(clause))
            if state and (state == said[1].lower()) == is_denied:
                yield f"the thread shows it {state}"
        if _NEGATED.search(clause):
            return
        if why := self._find_other_result(clause, refs):
            yield why
        if _PUSHED.search(clause) and not self._was_pushed:
            yield "the thread shows no push"
        for one in self.facts.running if _STOPPED.search(clause) else ():
            share, weight = measure_mentioned(clause, one.label.lower())
            if weight >= MIN_STEMS and share >= CITED_SHARE:
                yield "it still runs, as far as the thread shows"
        if removed := _REMOVED.search(clause):
            after = clause[removed.end() :]
            for path in find_paths(after[:80])[:1]:
                known = [f for f in self.facts.files if f.path.endswith(path)]
                is_named_alone = after.strip().strip("`").startswith(path)
                if is_named_alone and known and not any(f.deleted for f in known):
                    yield f"the thread did not remove `{path}`"

    def _find_other_result(self, clause: str, refs: Sequence[int]) -> str:
        results = {run.result for r in refs if (run := self._runs.get(r)) and run.check}
        is_passed, is_failed = SUCCEEDED.search(clause), FAILED.search(clause)
        if bool(is_passed) == bool(is_failed):
            return ""
        if is_failed:
            return "the run that it cites passed" if results == {"passed"} else ""
        if results == {"failed"}:
            return "the run that it cites failed"
        checks = (c for c in self.facts.last_check if c.check == "test" and not c.unseen)
        has_failed = any(check.result == "failed" for check in checks)
        is_told = "passed" not in results and _TESTS.search(clause) and has_failed
        return "the last test run of the thread failed" if is_told else ""

    def _find_commit_fault(self, clause: str) -> str:
        commits = [c for c in self.facts.repository.commits if not c.gone]
        is_denied = bool(_NOTHING_DONE.search(clause)) or "uncommitted" in clause.lower()
        open_files = {*self.facts.uncommitted, *self.facts.maybe_committed}
        named = [p for p in find_paths(clause) if any(f.endswith(p) for f in open_files)]
        if is_denied:
            is_all_in = commits and not open_files and not self.facts.repository.maybe_ref
            return "the thread committed it" if is_all_in and not find_paths(clause) else ""
        if not (commits or self.facts.subjects or self.facts.repository.maybe_ref):
            return "the thread shows no commit"
        kept = [p for p in named if any(f.endswith(p) for f in self.facts.uncommitted)]
        return f"`{kept[0]}` was edited after the last commit" if kept else ""

    @cached_property
    def _was_pushed(self) -> bool:
        published = self.facts.repository.published or self.facts.repository.pull_requests
        return bool(published) or any(PUBLISHES.search(run.command) for run in self._runs.values())

    def _find_user_act(self, clause: str) -> str:
        """Return a complaint where something is called the user's of which they wrote nothing."""
        clause = _PRONOUN.sub(" ", clause)  # Who they are it does not tell.
        if not (_BY_USER.search(clause) or is_attributed_to_user(clause)):
            return ""
        said = strip_attribution(_BY_USER.sub(" ", clause))
        found = [measure_mentioned(said, message) for message in self._user_messages]
        if found and found[0][1] >= MIN_STEMS and max(share for share, _ in found) < CITED_SHARE:
            return "the user wrote nothing of it"
        return ""


def _find_said(pattern: re.Pattern[str], clause: str) -> re.Match[str] | None:
    """Return a match that no negation or condition precedes."""
    found = pattern.search(clause)
    return None if found and _OPEN.search(clause[: found.start()]) else found


def _is_counted(figure: str, numbers: Collection[str]) -> bool:
    """Return whether a figure is one of some numbers, or one of them rounded."""
    if figure in numbers or figure.count(".") > 1:
        return figure in numbers
    digits = len(figure.partition(".")[2])
    return any(f"{float(n):.{digits}f}" == figure for n in numbers if n.count(".") == 1)
