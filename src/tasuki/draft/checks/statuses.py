"""Whether a thread refutes what a sentence says of outcomes: passed, failed, committed, merged, pushed, stopped, by the user."""

from collections.abc import Iterator, Sequence
from functools import cached_property

from tasuki.draft.checks.claims import is_attributed_to_user, strip_attribution
from tasuki.draft.checks.support import CITED_SHARE, measure_mentioned
from tasuki.draft.facts.derive import DerivedFacts
from tasuki.draft.text.entries import extract_user_words, join_entry_text
from tasuki.draft.text.split import find_paths
from tasuki.model import Thread
from tasuki.patterns import compile_pattern

_CLAUSES = compile_pattern(
    r"[.!?](?=\s|$)|[;:](?=\s)|,? (?:and|but|while|whereas|so|then) | [—–] |, "
)
_NEGATED = compile_pattern(
    r"(?i)\b(?:not|never|no longer|no|nothing|none|without|yet to|until|once|unless|if|should|must|would|could|will|to be"
    r"|before|used to|had|first|earlier|previously|instead of|rather than|except|zero|0)\b|n't\b"
)
_NOTHING_DONE = compile_pattern(r"(?i)\b(?:nothing|not|never|no|none|isn't|wasn't|hasn't|un)\b")
_PASSED = compile_pattern(r"(?i)\b(?:pass(?:es|ed|ing)?|green|succeed(?:s|ed)?)\b")
_FAILED = compile_pattern(r"(?i)\b(?:fail(?:s|ed|ing)?|red)\b")
_TESTS = compile_pattern(r"(?i)\b(?:all|the|every|full|whole)\b.{0,40}\b(?:tests?|suite|checks?)\b")
_COMMITTED = compile_pattern(r"(?i)\b(?:un)?committed\b|\bno commits?\b")
_PUSHED = compile_pattern(r"(?i)\bpushed\b")
_PULL_REQUEST = compile_pattern(r"(?i)\b(?:PR|pull request|MR|merge request) ?#?(\d{1,6})\b")
_PULL_REQUEST_STATE = compile_pattern(r"(?i)\b(merged|closed|open)\b")
_STOPPED = compile_pattern(r"(?i)\b(?:stopped|killed|ended|terminated|shut down)\b")
_REMOVED = compile_pattern(r"(?i)\b(?:removed|deleted)\b(?! (?:from|in)\b)")
_BY_USER = compile_pattern(r"(?i)\bby the (?:user|owner|operator)\b")
_CAUSE = compile_pattern(
    r"(?i)\b(?:because(?: of)?|due to|caused by|as a result of|thanks to) ([^.;]{4,200})"
)
_PUBLISHES = compile_pattern(
    r"\bgit\b.*\bpush\b|\bgh\s+pr\s+(?:create|merge)\b|\bjj\s+git\s+push\b"
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

    def find_refuted(self, text: str, refs: Sequence[int]) -> str:
        """Return why a sentence is not so, in words for its author; empty if nothing refutes it."""
        return next(self._list_refuted(text, refs), "")

    def find_missing_cause(self, text: str, refs: Sequence[int]) -> str:
        """Return the cause that a sentence gives and of which the entries it cites say nothing."""
        match = _CAUSE.search(text)
        if match is None or not refs:
            return ""
        near = (self._entries.get(n, "") for r in refs for n in (r - 1, r, r + 1))
        share, weight = measure_mentioned(match[1], "\n".join(near))
        return match[1] if weight >= MIN_STEMS and share < CITED_SHARE else ""

    def _list_refuted(self, text: str, refs: Sequence[int]) -> Iterator[str]:
        for clause in filter(None, map(str.strip, _CLAUSES.split(text))):
            yield from self._list_refuted_in(clause, refs)
            if why := self._find_user_act(clause):
                yield why

    def _list_refuted_in(self, clause: str, refs: Sequence[int]) -> Iterator[str]:
        if _COMMITTED.search(clause) and (why := self._find_commit_fault(clause)):
            yield why
        if (named := _PULL_REQUEST.search(clause)) and (said := _PULL_REQUEST_STATE.search(clause)):
            state = self._find_pull_request_state(int(named[1]))
            is_denied = bool(_NOTHING_DONE.search(clause))
            if state and (state == said[1].lower()) == is_denied:
                yield f"the thread shows it {state}"
        if _NEGATED.search(clause):
            return
        results = {run.result for r in refs if (run := self._runs.get(r)) and run.check}
        is_passed, is_failed = _PASSED.search(clause), _FAILED.search(clause)
        if is_passed and not is_failed and results == {"failed"}:
            yield "the run that it cites failed"
        elif (
            is_passed
            and not is_failed
            and "passed" not in results
            and self._has_failed_tests(clause)
        ):
            yield "the last test run of the thread failed"
        elif is_failed and not is_passed and results == {"passed"}:
            yield "the run that it cites passed"
        if _PUSHED.search(clause) and not self._was_pushed:
            yield "the thread shows no push"
        if _STOPPED.search(clause) and (why := self._find_running(clause)):
            yield why
        if _REMOVED.search(clause) and (why := self._find_kept_file(clause)):
            yield why

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

    def _find_pull_request_state(self, number: int) -> str:
        states = {p.state for p in self.facts.repository.pull_requests if p.number == number}
        state = states.pop() if len(states) == 1 else ""
        return "open" if state == "draft" else state

    def _has_failed_tests(self, clause: str) -> bool:
        tests = [c for c in self.facts.last_check if c.check == "test"]
        return bool(_TESTS.search(clause)) and any(
            c.result == "failed" and not c.unseen for c in tests
        )

    @cached_property
    def _was_pushed(self) -> bool:
        published = self.facts.repository.published or self.facts.repository.pull_requests
        return bool(published) or any(_PUBLISHES.search(run.command) for run in self._runs.values())

    def _find_running(self, clause: str) -> str:
        for one in self.facts.running:
            share, weight = measure_mentioned(clause, one.label.lower())
            if weight >= MIN_STEMS and share >= CITED_SHARE:
                return "it still runs, as far as the thread shows"
        return ""

    def _find_kept_file(self, clause: str) -> str:
        match = _REMOVED.search(clause)
        after = clause[match.end() :] if match else ""
        for path in find_paths(after[:80])[:1]:
            known = [f for f in self.facts.files if f.path.endswith(path)]
            is_named_alone = after.strip().strip("`").startswith(path)
            if is_named_alone and known and not any(f.deleted for f in known):
                return f"the thread did not remove `{path}`"
        return ""

    def _find_user_act(self, clause: str) -> str:
        """Return a complaint where something is called the user's of which they wrote nothing."""
        if not (_BY_USER.search(clause) or is_attributed_to_user(clause)):
            return ""
        said = strip_attribution(_BY_USER.sub(" ", clause))
        found = [measure_mentioned(said, message) for message in self._user_messages]
        if found and found[0][1] >= MIN_STEMS and max(share for share, _ in found) < CITED_SHARE:
            return "the user wrote nothing of it"
        return ""
