"""Judge what a text claims of a thread, by the thread's texts and by the facts in it.

A draft drops what is false or unknown, a compaction corrects what is false in a summary, and
`tasuki check` counts what is true.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal

from tasuki.draft.claims.lookup import ThreadLookup, contains_command, is_unique_tail
from tasuki.draft.facts.commands import CommandRun, normalize_command
from tasuki.draft.facts.derive import DerivedFacts
from tasuki.draft.runs.command_kinds import runs_project_script
from tasuki.draft.text.entries import TextClaim, extract_user_words
from tasuki.draft.text.polarity import list_words
from tasuki.draft.text.split import fold_for_comparison, fold_whitespace
from tasuki.model import CommandFact, FileFact, Goal, Thread
from tasuki.paths import is_outside, make_relative

Verdict = Literal["true", "false", "unknown"]


class ThreadEvidence:
    """The texts and the facts of one thread, put together on first use."""

    def __init__(
        self,
        thread: Thread,
        derived: DerivedFacts,
        goal: Goal | None = None,
        ends: Mapping[str, int] | None = None,
        instructions: str = "",
    ) -> None:
        """`ends` are byte offsets up to which the thread's files are searched, by their paths.

        `instructions` are words of the user that are not in the thread.
        """
        self.thread = thread
        self.derived, self.facts = derived, derived.facts
        self.lookup = ThreadLookup(thread, goal, ends)
        self.paths = [file.path for file in self.facts.files]
        self.instructions = instructions

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

    # -- what the thread shows of the work ----------------------------------------------------

    @property
    def is_whole(self) -> bool:
        """Whether the thread holds everything that the agent knew: else nothing can be missing."""
        return not self.thread.report.lacks_beginning

    @cached_property
    def has_all_work(self) -> bool:
        """Whether all work is in the thread: what sub-agents did is not."""
        return self.is_whole and not any(
            e.tool and e.tool.kind == "agent" for e in self.thread.entries
        )

    @cached_property
    def known_paths(self) -> dict[str, list[str]]:
        """The paths of the thread's files by their last part."""
        known: dict[str, list[str]] = {}
        for fact in (*self.facts.files, *self.facts.spoken_of):
            known.setdefault(fact.path.rpartition("/")[2], []).append(fact.path)
        return known

    def find_file(self, path: str) -> FileFact | None:
        """Return what the thread did to a file, None if the path names no file, or several."""
        wanted = make_relative(path, self.thread.cwd)
        is_known = wanted.rpartition("/")[2] in self.known_paths
        files = self.facts.files if is_known else ()
        fitting = [f for f in files if f"/{f.path}".endswith(f"/{wanted}")]
        return fitting[0] if len(fitting) == 1 else None

    @cached_property
    def last_checks(self) -> dict[str, CommandFact]:
        """The last run of each kind of check, where no newer one is without a result."""
        newest = max((run.ref for run in self.derived.runs if _may_have_passed_all(run)), default=0)
        return {
            c.check: c
            for c in self.facts.last_check
            if c.known and not c.unseen and (c.ok or c.refs[-1] >= newest)
        }

    def may_have_passed(self, kind: str) -> bool:
        """Return whether a check of a kind ever passed, or ran without a result."""
        return any(
            _may_have_passed_all(run)
            or ((judged := run.judged.get(kind)) and judged.result in ("passed", "not shown"))
            for run in self.derived.runs
        )

    @cached_property
    def command_words(self) -> frozenset[str]:
        """Every command of the thread on one line, also without its folder and variables."""
        return frozenset(form for line in self.commands for form in (line, normalize_command(line)))

    @cached_property
    def figures(self) -> frozenset[tuple[str, str]]:
        """Every number with a unit in the thread, with its unit."""
        from tasuki.draft.claims.sentences import find_figures  # Only summaries need it.

        return frozenset((f.number, f.unit) for f in find_figures(self.lookup.folded))

    @cached_property
    def uncommitted(self) -> frozenset[str]:
        """Files of the project that were edited after the last commit that included them."""
        return frozenset(path for path in self.facts.uncommitted if not is_outside(path))

    @cached_property
    def user_words(self) -> dict[int, frozenset[str]]:
        """The words of each message of the user, by its ref."""
        return {ref: frozenset(list_words(text)) for ref, text in self.user_messages.items()}

    @cached_property
    def user_messages(self) -> dict[int, str]:
        """What the user wrote in each message, folded, in lower case, by its ref."""
        return {
            entry.ref: fold_for_comparison(words).lower()
            for entry in self.thread.entries
            if entry.kind == "user" and (words := extract_user_words(entry))
        }


def _may_have_passed_all(run: CommandRun) -> bool:
    """Return whether a script of the project, which may run every check, did not go wrong."""
    return bool(run.check) and not run.went_wrong and runs_project_script(run.command)
