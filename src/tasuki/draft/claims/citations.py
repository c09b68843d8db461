"""Whether the entries that an author cites bear what a sentence says: names, figures, causes, acts, failures."""

import re
from collections.abc import Collection, Iterator
from functools import cached_property

from tasuki.draft.claims.evidence import ThreadEvidence
from tasuki.draft.claims.sentences import OPEN, Sentence, split_clauses
from tasuki.draft.claims.support import (
    CITED_SHARE,
    MIN_STEMS,
    is_other_language,
    measure_mentioned,
)
from tasuki.draft.claims.user_words import judge_user_act
from tasuki.draft.text.entries import join_entry_text
from tasuki.draft.text.split import find_paths
from tasuki.patterns import compile_pattern

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
_CAUSE = compile_pattern(
    r"(?i)\b(?:because(?: of)?|due to|caused by|as a result of|thanks to) ([^.;]{4,200})"
)


class CitationCheck:
    """Compares what sentences say with the entries that they cite."""

    def __init__(self, evidence: ThreadEvidence) -> None:
        self.evidence, self.facts = evidence, evidence.facts
        self._runs = {run.ref: run for run in evidence.derived.runs}

    @cached_property
    def _entries(self) -> dict[int, str]:
        return {e.ref: join_entry_text(e).lower() for e in self.evidence.thread.entries}

    @cached_property
    def _done(self) -> dict[str, object]:
        state = self.facts.repository
        tests = [c for c in self.facts.last_check if c.check == "test"]
        return {"commit": state.commits, "push": state.published, "test": tests, "pull request": state.pull_requests}  # fmt: skip

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
        for clause in split_clauses(text):
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
            for doubt in judge_user_act(Sentence(clause), self.evidence):
                yield doubt.truth

    @cached_property
    def _was_changed(self) -> bool:
        """Whether the thread may have changed something."""
        facts = self.facts
        found = facts.uncommitted or facts.maybe_committed or facts.repository.commits
        return bool(found) or any(e.tool and e.tool.changes for e in self.evidence.thread.entries)

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


def _find_said(pattern: re.Pattern[str], clause: str) -> re.Match[str] | None:
    """Return a match that no negation or condition precedes."""
    found = pattern.search(clause)
    return None if found and OPEN.search(clause[: found.start()]) else found


def _is_counted(figure: str, numbers: Collection[str]) -> bool:
    """Return whether a figure is one of some numbers, or one of them rounded."""
    if figure in numbers or figure.count(".") > 1:
        return figure in numbers
    digits = len(figure.partition(".")[2])
    return any(f"{float(n):.{digits}f}" == figure for n in numbers if n.count(".") == 1)
