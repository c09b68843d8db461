"""What a summary is checked against: the thread's facts, prepared for the checks."""

from functools import cached_property

from msgspec import Struct

from tasuki.compaction.checks.summary_lines import find_figures
from tasuki.compaction.moment import Compaction
from tasuki.draft.claims.evidence import ThreadEvidence
from tasuki.draft.facts.commands import CommandRun, normalize_command
from tasuki.draft.facts.derive import DerivedFacts
from tasuki.draft.runs.command_kinds import runs_project_script
from tasuki.draft.text.entries import extract_user_words
from tasuki.draft.text.polarity import list_words
from tasuki.draft.text.split import fold_for_comparison
from tasuki.model import CommandFact, FileFact
from tasuki.paths import is_outside, make_relative


class Correction(Struct, frozen=True):
    """One thing that a summary gets wrong: its words, and what the thread shows instead."""

    claim: str
    truth: str
    refs: tuple[int, ...] = ()


class SummaryEvidence(ThreadEvidence):
    """The thread before a compaction, and what was derived from it."""

    def __init__(self, compaction: Compaction, derived: DerivedFacts) -> None:
        super().__init__(compaction.thread, derived, ends=compaction.ends)
        self.instructions = compaction.instructions

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
