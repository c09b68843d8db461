"""Make a handoff, store it, and start its successor: the steps that every surface shares."""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.draft import brief as briefs
from tasuki.draft import pipeline
from tasuki.draft.authors.author import format_cost
from tasuki.draft.facts import git
from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import HandoffNotFound, StoreFailed, TasukiError, UsageError
from tasuki.files import is_possible
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import Harness, LaunchPlan, LaunchRequest
from tasuki.interpreter import pause_collector
from tasuki.model import Goal, Handoff, HandoffEvent, Thread
from tasuki.text_safety import cut_text, format_plural, remove_invisible
from tasuki.threads import catalog, references
from tasuki.vault import Vault, create_handoff_id

if TYPE_CHECKING:
    from tasuki.launch import LaunchResult

INSIDE = "TASUKI_INSIDE"
"""Environment variable of a review that was requested inside the thread, which is open then."""
Tell = Callable[[str], None]
"""Takes a sentence for the user."""


class PreparedHandoff(msgspec.Struct, eq=False):
    """A handoff that was made and stored, and not started yet.

    `brief` is the whole first prompt; `prefix` is how it invokes a skill, at its very
    beginning. `warnings` are sentences to act on.
    """

    handoff: Handoff
    brief: str
    thread: Thread
    successor: Harness
    vault: Vault
    prefix: str = ""
    warnings: list[str] = []
    authorship_notes: list[str] = []
    """Sentences on who wrote it and what that cost."""
    stored: bool = False

    @property
    def notes(self) -> list[str]:
        """Peculiarities of the thread's file, as sentences."""
        return [f"{self.thread.path}: {note}" for note in self.thread.report.notes]

    @property
    def context(self) -> str:
        """The brief without the goal, and without the skill that it invokes."""
        context, _ = briefs.split_brief(self.brief)
        return context.removeprefix(f"{self.prefix}\n") if self.prefix else context

    def store_draft(self, *, is_required: bool) -> None:
        """Store it as a draft.

        Unless `is_required`, a failure is a warning: the brief is worth more than its copy on disk.
        """
        try:
            self.vault.save(self.handoff, self.brief)
            self.vault.append_event(self.handoff.id, create_event("drafted"))
            self.stored = True
        except StoreFailed as error:
            if is_required:
                raise
            self.brief = self.brief.replace(
                briefs.format_reference(self.handoff.id),
                briefs.format_thread_reference(self.thread),
            )
            self.warnings.append(
                f"{error} The brief is complete, but was not stored: its references open the thread itself."
            )

    def record_printed(self, way: str) -> None:
        """Record that the brief was only shown: `print` or `copy`. Lists then leave it out."""
        if self.stored:
            try:
                self.vault.append_event(self.handoff.id, create_event("printed", way=way))
            except TasukiError as error:
                self.warnings.append(str(error))

    def revise(self, text: str) -> None:
        """Accept an edited brief as a new revision; what was stored is not changed."""
        context, goal = briefs.split_brief(text)
        context = Redactor().redact(remove_invisible(context))
        goal = goal.rstrip("\n") or self.handoff.goal.text
        old = self.handoff
        if goal != old.goal.text:  # Now it is the user's, whoever proposed it.
            old = msgspec.structs.replace(old, goal=Goal(text=goal, forced=old.goal.forced))
        revised = msgspec.structs.replace(
            old,
            id=create_handoff_id(),
            revises=old.id,
            created=format_now(),
            tokens=briefs.count_context_tokens(context),
        )
        context = context.replace(
            briefs.format_reference(old.id), briefs.format_reference(revised.id)
        )
        text = build_brief(revised, context)
        self.vault.save(revised, text)
        self.vault.append_event(revised.id, create_event("revised"))
        self.handoff, self.brief = revised, text


def prepare_handoff(
    harness: Harness,
    path: Path,
    goal: Goal,
    loaded: LoadedSettings,
    *,
    successor: Harness,
    vault: Vault,
    must_keep: bool,
    report: Callable[[str], None] = lambda phase: None,
    id: str = "",
) -> PreparedHandoff:
    """Make a handoff from a thread file and store it as a draft, under `id` or a new one.

    A draft of that id, left by an attempt that did not finish, is replaced.
    Raises NothingToHandOff, ThreadUnreadable, StoreFailed, ModelUnavailable where a model is to
    write and none can be used, and with the setting `strict` AuthorFailed.
    """
    settings = loaded.settings
    with pause_collector():
        result_draft = pipeline.make_handoff(
            harness,
            path,
            goal,
            loaded,
            handoff_id=id or create_handoff_id(),
            to=successor.name if successor.can_start else "",
            report=report,
            resolve_parent=lambda prefix: complete_id(vault, prefix),
        )
    handoff, prefix = result_draft.handoff, _build_skill_prefix(result_draft, successor, settings)
    if not prefix:
        draft = msgspec.structs.replace(handoff.draft, skill="")
        handoff = msgspec.structs.replace(handoff, draft=draft)
    brief = build_brief(handoff, result_draft.context, prefix)
    result = PreparedHandoff(
        handoff,
        brief,
        result_draft.thread,
        successor,
        vault,
        prefix=prefix,
        warnings=[*loaded.problems, *collect_warnings(result_draft)],
        authorship_notes=describe_authorship(result_draft),
    )
    if id:
        with suppress(HandoffNotFound, StoreFailed):
            if vault.load_state(id) == "draft":
                vault.remove(id)
    result.store_draft(is_required=must_keep)
    result.warnings += keep_copy(harness, path, settings)
    result_draft.cached.save()  # It comes last: it can be made anew.
    return result


def keep_copy(harness: Harness, path: Path, settings: Settings) -> list[str]:
    """Keep a copy of a thread that is handed off, where the settings say so; return warnings."""
    if settings.keep_threads == "off":
        return []
    from tasuki.threads.kept.policy import keep_at_handoff

    problem = keep_at_handoff(harness, path, settings)
    return [Redactor().redact(problem)] if problem else []


def load_handoff(vault: Vault, id: str, to: str = "") -> PreparedHandoff:
    """Load a stored handoff, to be started now; `to` names another harness for the successor.

    Its thread may be gone: the brief holds what is needed. Raises HandoffNotFound, or
    UsageError where no harness is known.
    """
    handoff, brief = vault.get(id), vault.load_brief(id)
    origin = handoff.predecessor
    name = to or handoff.to
    if not name:
        raise UsageError(
            f"Handoff {handoff.id[:8]} names no successor: add --to claude, --to pi, …"
        )
    if handoff.goal.text not in brief:
        raise HandoffNotFound(
            f"The brief of handoff {handoff.id[:8]} is damaged: its goal is not in it. "
            f"The rest: tasuki show {handoff.id[:8]}"
        )
    successor, warnings = harnesses.get_harness(name), []
    predecessor = references.open_predecessor(handoff)
    if (thread := predecessor.thread) is None:
        thread = Thread(
            harness=origin.harness, id=origin.thread_id, path=origin.path, cwd=origin.cwd
        )
        warnings = [f"The thread can no longer be read: {predecessor.problem}"]
    skill, prefix = handoff.draft.skill, ""
    if skill and handoff.to in harnesses.list_names():
        prefix = harnesses.get_harness(handoff.to).format_skill_command(skill)
    if name != handoff.to:
        brief, prefix = brief.removeprefix(f"{prefix}\n") if prefix else brief, ""
        draft = msgspec.structs.replace(handoff.draft, skill="")
        handoff = msgspec.structs.replace(handoff, draft=draft, to=name)
    if changed := _describe_drift(handoff, thread):
        brief = briefs.add_section(brief, CHANGED_SINCE, changed)
        warnings += [f"Changed since the draft: {sentence}" for sentence in changed]
    return PreparedHandoff(
        handoff, brief, thread, successor, vault, prefix=prefix, warnings=warnings, stored=True
    )


CHANGED_SINCE = "Changed since this brief was written"


def _describe_drift(handoff: Handoff, thread: Thread) -> list[str]:
    """Describe what changed in the folder and in the thread since a draft was made."""
    cwd, known = handoff.predecessor.cwd, handoff.predecessor.entries
    changed = (
        git.describe_snapshot_drift(cwd, handoff.snapshot, git.GitProbe(cwd).read_revision())
        if handoff.snapshot and os.path.isdir(cwd)
        else []
    )
    later = thread.entries[known:] if known else []
    if said := [e.ref for e in later if e.kind == "user" and e.is_prompt]:
        changed.append(
            f"the thread went on with {format_plural(len(said), 'message')} of the user, from #{said[0]}"
        )
    return [Redactor().redact(sentence) for sentence in changed]


def build_brief(handoff: Handoff, context: str, prefix: str = "") -> str:
    """Build the brief of a handoff from its past; `prefix` is how it invokes a skill."""
    if not handoff.goal.text:  # A running session writes handoffs without a goal.
        return context
    by_model = handoff.goal.said_by == "model"
    return briefs.join_brief(context, handoff.goal.text, prefix, by_model=by_model)


FIRST_GUESS = {"model": 30.0, "agent": 60.0}
"""Seconds that an author is expected to take before one of its drafts is stored."""


def estimate_seconds(vault: Vault, author: str) -> float:
    """Estimate an author's time by the median of its last stored drafts; a guess without any."""
    if author == "offline":
        return 0.0
    durations = [
        by.seconds for h in vault.list_handoffs() if (by := h.draft.authorship).author == author
    ][:9]
    return sorted(durations)[len(durations) // 2] if durations else FIRST_GUESS.get(author, 0.0)


def describe_secrets(goal: str) -> str:
    """Describe in a sentence the secrets that a goal seems to hold; empty for none."""
    kinds = ", ".join(sorted({span.kind for span in Redactor().find_secrets(goal)}))
    sentence = f"The goal seems to contain a secret ({kinds}); it would be handed on verbatim."
    return sentence if kinds else ""


def start_successor(
    prepared: PreparedHandoff,
    *,
    where: Literal["here", "tmux"],
    tell: Tell,
    send: bool = False,
    model: str = "",
    arguments: tuple[str, ...] = (),
    socket: str = "",
) -> "LaunchResult":
    """Start the successor of a stored handoff, and record each step among its events.

    `socket` names the tmux server (`tmux -L`), where that is not the one of `$TMUX`. Raises UsageError where the harness cannot start one, HarnessMissing or LaunchFailed; the
    message says where the brief is.
    """
    from tasuki.launch import start as launch

    handoff, vault = prepared.handoff, prepared.vault
    plan = _plan_successor(prepared, tell, send=send, model=model, arguments=arguments)
    if plan.note:
        tell(plan.note)
    _record_start(prepared, tell, plan, where)
    try:
        launched = launch(plan, where, f"handoff-{handoff.id[:8]}",
                          str(vault.root / handoff.id / "brief.md"), socket)  # fmt: skip
    except TasukiError as error:
        reason = Redactor().redact(str(error))  # It may quote the successor's screen.
        _record_event(prepared, tell, "failed", reason=reason)
        raise type(error)(
            f"{reason}\nThe brief is safe: tasuki show {handoff.id[:8]} --brief"
        ) from error
    except KeyboardInterrupt:
        _record_event(prepared, tell, "failed", reason="interrupted")
        raise
    _record_outcome(prepared, plan, launched, tell)
    return launched


def prepare_session_file(prepared: PreparedHandoff, tell: Tell) -> LaunchPlan:
    """Write the session file of a successor that a running program itself opens.

    Its plan names the file (`thread_path`) and the text for the input (`paste`). Raises
    UsageError where the harness does not keep the past in its own file, LaunchFailed.
    """
    from tasuki.launch.prepare import write_planned_files

    plan = _plan_successor(prepared, tell)
    if not plan.thread_path:
        raise UsageError(
            f"A successor in {prepared.successor.title} has no file that can be prepared; start "
            f"it: tasuki start {prepared.handoff.id[:8]}"
        )
    with write_planned_files(plan):
        _record_start(prepared, tell, plan, "inside")
    return plan


def _plan_successor(
    prepared: PreparedHandoff,
    tell: Tell,
    *,
    send: bool = False,
    model: str = "",
    arguments: tuple[str, ...] = (),
) -> LaunchPlan:
    """Plan the successor, in the predecessor's folder if that exists; drift is reported."""
    cwd = prepared.thread.cwd if os.path.isdir(prepared.thread.cwd) else os.getcwd()
    if cwd != prepared.thread.cwd:
        tell(f"{prepared.thread.cwd} does not exist here; starting in {cwd}.")
    snapshot, now = prepared.handoff.snapshot, git.GitProbe(cwd).read_revision()
    changed = git.describe_snapshot_drift(cwd, snapshot, now)
    if changed:
        _record_event(prepared, tell, "drift", what="; ".join(changed))
    for sentence in changed:
        tell(f"since the draft: {sentence}")
    return prepared.successor.plan(
        LaunchRequest(
            prepared.handoff, prepared.brief, prepared.context, cwd, send, model, arguments
        )
    )


def _record_outcome(
    prepared: PreparedHandoff, plan: LaunchPlan, launched: "LaunchResult", tell: Tell
) -> None:
    """Record what is known of the first prompt, and report it if it did not arrive."""
    title = prepared.successor.title
    if launched.filled:
        _record_event(prepared, tell, "filled", target=launched.target)
    elif plan.paste:
        _record_event(prepared, tell, "uncertain", target=launched.target)
        tell(
            f"the first prompt could not be filled in ({title} asked for something else, or ended). "
            f"Paste it yourself: tasuki show {prepared.handoff.id[:8]} --brief"
        )
    if launched.code:
        _record_event(prepared, tell, "ended", code=str(launched.code))
        tell(f"{title} ended with status {launched.code}.")


def _record_start(prepared: PreparedHandoff, tell: Tell, plan: LaunchPlan, where: str) -> None:
    place = {"successor_thread": plan.thread_id, "successor_path": plan.thread_path}
    _record_event(prepared, tell, "started", harness=prepared.successor.name, where=where, **place)


def _record_event(prepared: PreparedHandoff, tell: Tell, kind: str, **detail: str) -> None:
    try:
        prepared.vault.append_event(prepared.handoff.id, create_event(kind, **detail))
    except TasukiError as error:
        tell(str(error))


def complete_id(vault: Vault, prefix: str) -> str:
    """Return the full id of the handoff that a thread began with, if it is stored here."""
    try:
        return vault.get(prefix).id if prefix else ""
    except HandoffNotFound:
        return prefix


def _build_skill_prefix(
    result: pipeline.HandoffResult, successor: Harness, settings: Settings
) -> str:
    """Build how the successor invokes the skill that was used last; empty where it lacks it."""
    skill, cwd = result.facts.skill, result.thread.cwd
    if not (settings.include_skill and re.fullmatch(r"[\w.-]+", skill)):
        return ""
    folders = successor.list_skill_folders(Path(cwd if is_possible(cwd) else "."))
    if any((f / skill / "SKILL.md").is_file() or (f / f"{skill}.md").is_file() for f in folders):
        return successor.format_skill_command(skill)
    return ""


def collect_warnings(result: pipeline.HandoffResult) -> list[str]:
    """Collect sentences to act on: what was odd in the thread, redacted, dropped, or still runs."""
    thread, handoff, report = result.thread, result.handoff, result.thread.report
    warnings = [report.lacks_end] if report.lacks_end else []
    if skipped := references.describe_broken_lines(thread):
        warnings.append(skipped)
    if report.truncated_tail:
        warnings.append(
            "The last line of the thread is incomplete and was skipped; perhaps it is still being written."
        )
    for item in result.facts.running[-3:]:
        warnings.append(f"No end recorded: {item.kind} {item.label!r} (#{item.ref})")
    if handoff.redactions:
        kinds = ", ".join(f"{n} {k}" for k, n in sorted(handoff.redactions.items()))
        warnings.append(f"Redacted: {kinds}")
    kinds_of_dropped: dict[tuple[str, str], list[str]] = {}
    for dropped in handoff.draft.dropped:
        kinds_of_dropped.setdefault((dropped.way, dropped.reason), []).append(dropped.text)
    for (way, reason), texts in kinds_of_dropped.items():
        more = f" and {len(texts) - 1} more" if len(texts) > 1 else ""
        warnings.append(f"{way.capitalize()}: {cut_text(texts[0], 120)!r}{more}: {reason}")
    redactor = Redactor()
    return [redactor.redact(warning) for warning in warnings]


def describe_authorship(result: pipeline.HandoffResult) -> list[str]:
    """Describe who wrote a draft, what it cost, and why another author did not."""
    authorship = result.handoff.draft.authorship
    redactor = Redactor()
    sentences = [redactor.redact(sentence) for sentence in result.messages]
    if authorship.author == "offline":
        if authorship.fell:
            sentences.append("Written offline, from facts and quotes alone.")
        return sentences
    model = f" ({authorship.model})" if authorship.model else ""
    cost = format_cost(
        authorship.requests, authorship.input_tokens, authorship.output_tokens, authorship.price
    )
    sentences.append(
        f"Written by the {authorship.author}{model} in {authorship.seconds:.1f} s: {cost}."
    )
    if authorship.whole_from > 1:
        sentences.append(
            f"Entries before #{authorship.whole_from} were included as facts and excerpts."
        )
    return sentences


def format_now() -> str:
    """Format this moment: UTC, ISO 8601 to the millisecond.

    So handoffs of one second keep their order.
    """
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def create_event(kind: str, **detail: str) -> HandoffEvent:
    """Create an event that happens now, without secrets; empty details are left out."""
    shown = {
        name: text if name in _PLACES else Redactor().redact(text)
        for name, text in detail.items()
        if text
    }
    return HandoffEvent(at=format_now(), kind=kind, detail=shown)


_PLACES = ("successor_path", "successor_thread")
"""Details of an event by which files are found."""


def build_resume_command(thread: Thread) -> tuple[str, ...]:
    """Build the command that resumes a predecessor, empty if there is none or it is unknown."""
    if thread.harness not in harnesses.list_names():
        return ()
    return catalog.get_reader(thread.harness, Path(thread.path)).build_resume_command(thread)
