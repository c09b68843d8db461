"""Judge what a text claims of a thread, by the thread's texts and by the facts in it.

A draft drops what is false or unknown, a compaction corrects what is false in a summary, and
`tasuki check` counts what is true.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal

from tasuki.draft.claims.lookup import ThreadLookup, contains_command, is_unique_tail
from tasuki.draft.facts.derive import DerivedFacts
from tasuki.draft.text.entries import TextClaim
from tasuki.draft.text.split import fold_whitespace
from tasuki.model import Goal, Thread

Verdict = Literal["true", "false", "unknown"]


class ThreadEvidence:
    """The texts and the facts of one thread, put together on first use."""

    def __init__(
        self,
        thread: Thread,
        derived: DerivedFacts,
        goal: Goal | None = None,
        ends: Mapping[str, int] | None = None,
    ) -> None:
        """`ends` are byte offsets up to which the thread's files are searched, by their paths."""
        self.thread = thread
        self.derived, self.facts = derived, derived.facts
        self.lookup = ThreadLookup(thread, goal, ends)
        self.paths = [file.path for file in self.facts.files]

    @cached_property
    def names(self) -> set[str]:
        """The paths of its files and the hashes of its commits."""
        return {*self.paths, *(q.text.split()[0] for q in self.facts.revision.commits)}

    @cached_property
    def commands(self) -> set[str]:
        """Every command of the thread on one line."""
        return {fold_whitespace(run.command) for run in self.derived.runs}

    @cached_property
    def about(self) -> str:
        """What is known of the thread apart from its entries, one thing a line."""
        return "\n".join(map(fold_whitespace, self._list_descriptions()))

    def _list_descriptions(self) -> Iterator[str]:
        thread = self.thread
        yield from (thread.id, thread.path, thread.cwd, thread.name, thread.harness, thread.version)
        yield from (thread.model, thread.thinking, thread.git_branch, thread.git_head)
        yield from (thread.parent, thread.started, thread.updated)
        yield from (*thread.tools, *thread.skills, *thread.artifacts)
        yield from (f"/skill:{name}" for name in thread.skills)
        yield from (item.label for item in thread.background)

    def is_fact(self, claim: TextClaim, *, may_lack_words: bool = False) -> bool:
        """Return whether a claim is a file, a commit or a command of the thread.

        `may_lack_words` accepts a command of which some arguments are left out.
        """
        text = claim.text
        if text in self.names or is_unique_tail(text, self.paths):
            return True
        if claim.kind != "command":
            return False
        line, words = fold_whitespace(text), text.split()
        start = " ".join(words[:2])
        return any(
            contains_command(command, line, is_cut=True)
            or (
                may_lack_words
                and start in command
                and {*words} <= {*command.replace(",", " ").split()}
            )
            for command in self.commands
        )

    def judge(
        self,
        claim: TextClaim,
        refs: Sequence[int] = (),
        *,
        by_user: bool = False,
        is_plain: bool = False,
        may_lack_words: bool = False,
    ) -> Verdict:
        """Judge a claim; `refs` are the entries that are cited for it.

        `by_user`: it is called the user's own words. `is_plain`: it is a word of prose, whose
        case tells nothing.
        """
        if by_user:
            return "true" if self.lookup.is_user_quote(claim.text) else "false"
        is_known = self.is_fact(claim, may_lack_words=may_lack_words)
        is_known = is_known or self.lookup.has_claim(claim, refs)
        is_known = is_known or (
            is_plain and claim.text.isalpha() and self.lookup.has_name(claim.text)
        )
        return "true" if is_known else "unknown"
