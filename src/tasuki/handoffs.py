"""Making a handoff, keeping it, and starting its successor: the steps that every surface shares."""

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from tasuki import harness as harnesses
from tasuki.config import Loaded, Settings
from tasuki.draft import brief as briefs
from tasuki.draft import drift, git, pipeline
from tasuki.draft.redact import Redactor
from tasuki.errors import HandoffNotFound, StoreFailed, TasukiError, UsageError
from tasuki.harness.protocol import Harness, LaunchPlan, LaunchRequest
from tasuki.model import Goal, Handoff, HandoffEvent, Thread
from tasuki.paths import is_possible
from tasuki.plain import visible
from tasuki.threads import opening
from tasuki.vault import Vault, new_id

if TYPE_CHECKING:
    from tasuki.launch import Launched

INSIDE = "TASUKI_INSIDE"
"""Environment variable of a review that was asked for inside the thread, which is open then."""
Tell = Callable[[str], None]
"""Takes a sentence for the user."""


class Offer:
    """A handoff that was made and kept, and not started yet.

    `brief` is the whole first prompt; `prefix` is how it invokes a skill, at its very beginning.
    `warnings` are sentences to act on, `notes` peculiarities of the file.
    """

    def __init__(
        self,
        handoff: Handoff,
        brief: str,
        thread: Thread,
        successor: Harness,
        vault: Vault,
        *,
        prefix: str = "",
        warnings: Iterable[str] = (),
        told: Iterable[str] = (),
    ) -> None:
        self.handoff = handoff
        self.brief = brief
        self.thread = thread
        self.successor = successor
        self.vault = vault
        self.prefix = prefix
        self.stored = False
        self.warnings = list(warnings)
        self.told = list(told)
        """Sentences on who wrote it and what that cost."""
        self.notes = [f"{thread.path}: {note}" for note in thread.report.notes]

    @property
    def context(self) -> str:
        """The brief without the goal, and without the skill that it invokes."""
        context, _ = briefs.split(self.brief)
        return context.removeprefix(f"{self.prefix}\n") if self.prefix else context

    def keep(self, *, must: bool) -> None:
        """Store it as a draft. Unless it `must` be kept, a failure is a warning: the brief is
        worth more than its copy on disk."""
        try:
            self.vault.save(self.handoff, self.brief)
            self.vault.append(self.handoff.id, event("drafted"))
            self.stored = True
        except StoreFailed as error:
            if must:
                raise
            self.brief = self.brief.replace(
                briefs.reference(self.handoff.id), briefs.thread_reference(self.thread)
            )
            self.warnings.append(
                f"{error} The brief is complete, but not kept: its references open the thread itself."
            )

    def note_printed(self, way: str) -> None:
        """Note that the brief was only shown: `print` or `copy`. Lists leave it out then."""
        if self.stored:
            try:
                self.vault.append(self.handoff.id, event("printed", way=way))
            except TasukiError as error:
                self.warnings.append(str(error))

    def revise(self, text: str) -> None:
        """Take an edited brief over as a new revision; what was stored stays as it was."""
        context, goal = briefs.split(text)
        context = Redactor().redact(visible(context))
        goal = goal.rstrip("\n") or self.handoff.goal.text
        old = self.handoff
        if goal != old.goal.text:  # Whoever proposed it, now it is the user's.
            old = msgspec.structs.replace(old, goal=Goal(text=goal, forced=old.goal.forced))
        revised = msgspec.structs.replace(
            old,
            id=new_id(),
            revises=old.id,
            created=now(),
            tokens=briefs.size(context),
        )
        context = context.replace(briefs.reference(old.id), briefs.reference(revised.id))
        text = brief_of(revised, context)
        self.vault.save(revised, text)
        self.vault.append(revised.id, event("revised"))
        self.handoff, self.brief = revised, text


def offer(
    harness: Harness,
    path: Path,
    goal: Goal,
    loaded: Loaded,
    *,
    successor: Harness,
    vault: Vault,
    must_keep: bool,
    report: Callable[[str], None] = lambda phase: None,
    id: str = "",
) -> Offer:
    """Make a handoff from a thread file and keep it as a draft, under `id` or a new one.

    A draft of that id, left by an attempt that did not come to its end, is replaced.
    Raises NothingToHandOff, ThreadUnreadable, StoreFailed, ModelUnavailable where a model is to
    write and none can be used, and with the setting `strict` AuthorFailed.
    """
    settings = loaded.settings
    made = pipeline.make(
        harness,
        path,
        goal,
        loaded,
        handoff_id=id or new_id(),
        to=successor.name if successor.can_start else "",
        report=report,
        resolve_parent=lambda prefix: whole_id(vault, prefix),
    )
    handoff, prefix = made.handoff, _skill_prefix(made, successor, settings)
    if not prefix:
        draft = msgspec.structs.replace(handoff.draft, skill="")
        handoff = msgspec.structs.replace(handoff, draft=draft)
    brief = brief_of(handoff, made.context, prefix)
    result = Offer(
        handoff,
        brief,
        made.thread,
        successor,
        vault,
        prefix=prefix,
        warnings=[*loaded.problems, *warnings_of(made)],
        told=authored(made),
    )
    if id:
        _drop_draft(vault, id)
    result.keep(must=must_keep)
    return result


def _drop_draft(vault: Vault, id: str) -> None:
    with suppress(HandoffNotFound, StoreFailed):
        if vault.state(id) == "draft":
            vault.remove(id)


def kept(vault: Vault, id: str, to: str = "") -> Offer:
    """A stored handoff, to be started now; `to` names another harness for the successor.

    Its thread may be gone: the brief holds what is needed. Raises HandoffNotFound, or UsageError
    where no harness is known.
    """
    handoff, brief = vault.get(id), vault.brief(id)
    origin = handoff.predecessor
    name = to or handoff.to
    if not name:
        raise UsageError(
            f"Handoff {handoff.id[:8]} names no successor: add --to claude, --to pi, …"
        )
    if handoff.goal.text not in brief:
        raise HandoffNotFound(
            f"The brief of handoff {handoff.id[:8]} is damaged: its goal is not in it. "
            f"What is left: tasuki show {handoff.id[:8]}"
        )
    successor, warnings = harnesses.get(name), []
    predecessor = opening.of_handoff(handoff)
    if (thread := predecessor.thread) is None:
        thread = Thread(
            harness=origin.harness, id=origin.thread_id, path=origin.path, cwd=origin.cwd
        )
        warnings = [f"The thread cannot be read any more: {predecessor.problem}"]
    skill = handoff.draft.skill
    prefix = _prefix_for(handoff.to, skill) if skill else ""
    if name != handoff.to:
        brief, prefix = brief.removeprefix(f"{prefix}\n") if prefix else brief, ""
        draft = msgspec.structs.replace(handoff.draft, skill="")
        handoff = msgspec.structs.replace(handoff, draft=draft, to=name)
    result = Offer(handoff, brief, thread, successor, vault, prefix=prefix, warnings=warnings)
    result.stored = True
    return result


def brief_of(handoff: Handoff, context: str, prefix: str = "") -> str:
    """The brief of a handoff from its past; `prefix` is how it invokes a skill."""
    if not handoff.goal.text:  # A running session writes handoffs without one.
        return context
    by_model = handoff.goal.said_by == "model"
    return briefs.join(context, handoff.goal.text, prefix, by_model=by_model)


FIRST_GUESS = {"model": 30.0, "agent": 60.0}
"""Seconds that an author is expected to take before one of its drafts is kept."""


def usual_seconds(vault: Vault, author: str) -> float:
    """How long an author took for the last drafts that are kept, by the median; a guess without any."""
    if author == "offline":
        return 0.0
    took = [by.seconds for h in vault.all() if (by := h.draft.authorship).author == author][:9]
    return sorted(took)[len(took) // 2] if took else FIRST_GUESS.get(author, 0.0)


def secrets_in(goal: str) -> str:
    """A sentence on the secrets that a goal seems to hold; empty if it holds none."""
    found = sorted({span.kind for span in Redactor().find(goal)})
    kinds = ", ".join(found)
    told = f"The goal seems to hold a secret ({kinds}); it would be handed on to the letter."
    return told if found else ""


def start(
    of: Offer,
    *,
    where: Literal["here", "tmux"],
    tell: Tell,
    send: bool = False,
    model: str = "",
    arguments: tuple[str, ...] = (),
) -> "Launched":
    """Start the successor of a kept handoff, and note each step among its events.

    Raises UsageError where the harness cannot start one, HarnessMissing or LaunchFailed; the
    message says where the brief is.
    """
    from tasuki.launch import start as launch

    handoff, vault = of.handoff, of.vault
    plan = _planned(of, tell, send=send, model=model, arguments=arguments)
    if plan.note:
        tell(plan.note)
    _note(of, tell, "started", harness=of.successor.name, where=where,
          successor_thread=plan.thread_id, successor_path=plan.thread_path)  # fmt: skip
    try:
        launched = launch(plan, where, f"handoff-{handoff.id[:8]}",
                          str(vault.root / handoff.id / "brief.md"))  # fmt: skip
    except TasukiError as error:
        reason = Redactor().redact(str(error))  # It may quote the successor's screen.
        _note(of, tell, "failed", reason=reason)
        raise type(error)(
            f"{reason}\nThe brief is safe: tasuki show {handoff.id[:8]} --brief"
        ) from error
    except KeyboardInterrupt:
        _note(of, tell, "failed", reason="interrupted")
        raise
    _settle(of, plan, launched, tell)
    return launched


def prepare(of: Offer, tell: Tell) -> LaunchPlan:
    """Write the session file of a successor that a program which runs already opens by itself.

    Its plan tells the file (`thread_path`) and what belongs into the input (`paste`). Raises
    UsageError where the harness keeps the past in no file of its own, LaunchFailed.
    """
    from tasuki.launch.prepare import planned_files

    plan = _planned(of, tell)
    if not plan.thread_path:
        raise UsageError(
            f"A successor in {of.successor.title} has no file that could be prepared; "
            f"start it: tasuki start {of.handoff.id[:8]}"
        )
    with planned_files(plan):
        _note(of, tell, "started", harness=of.successor.name, where="inside",
              successor_thread=plan.thread_id, successor_path=plan.thread_path)  # fmt: skip
    return plan


def _planned(
    of: Offer,
    tell: Tell,
    *,
    send: bool = False,
    model: str = "",
    arguments: tuple[str, ...] = (),
) -> LaunchPlan:
    """The plan of the successor, in the predecessor's folder if it is there; drift is told."""
    cwd = of.thread.cwd if os.path.isdir(of.thread.cwd) else os.getcwd()
    if cwd != of.thread.cwd:
        tell(f"{of.thread.cwd} is not here; starting in {cwd}.")
    _tell_drift(of, cwd, tell)
    return of.successor.plan(
        LaunchRequest(of.handoff, of.brief, of.context, cwd, send, model, arguments)
    )


def _settle(of: Offer, plan: LaunchPlan, launched: "Launched", tell: Tell) -> None:
    """Note what is known of the first prompt, and say so where it did not get there."""
    title = of.successor.title
    if launched.filled:
        _note(of, tell, "filled", target=launched.target)
    elif plan.paste:
        _note(of, tell, "uncertain", target=launched.target)
        tell(
            f"the first prompt could not be filled in ({title} asked for something else, or ended). "
            f"Paste it yourself: tasuki show {of.handoff.id[:8]} --brief"
        )
    if launched.code:
        _note(of, tell, "ended", code=str(launched.code))
        tell(f"{title} ended with status {launched.code}.")


def _tell_drift(of: Offer, cwd: str, tell: Tell) -> None:
    changed = drift.since_snapshot(cwd, of.handoff.snapshot, git.Probe(cwd).revision())
    if changed:
        _note(of, tell, "drift", what="; ".join(changed))
    for sentence in changed:
        tell(f"since the draft: {sentence}")


def _note(of: Offer, tell: Tell, kind: str, **detail: str) -> None:
    try:
        of.vault.append(of.handoff.id, event(kind, **detail))
    except TasukiError as error:
        tell(str(error))


def whole_id(vault: Vault, prefix: str) -> str:
    """The full id of the handoff that a thread began with, as far as it is stored here."""
    try:
        return vault.get(prefix).id if prefix else ""
    except HandoffNotFound:
        return prefix


def _skill_prefix(made: pipeline.Made, successor: Harness, settings: Settings) -> str:
    """How the successor invokes the skill that was used last; empty where it lacks it."""
    skill, cwd = made.facts.skill, made.thread.cwd
    if not (settings.include_skill and re.fullmatch(r"[\w.-]+", skill)):
        return ""
    folders = successor.skill_folders(Path(cwd if is_possible(cwd) else "."))
    if any((f / skill / "SKILL.md").is_file() or (f / f"{skill}.md").is_file() for f in folders):
        return successor.skill_command(skill)
    return ""


def warnings_of(made: pipeline.Made) -> list[str]:
    """Sentences to act on: what was odd in the thread, redacted, dropped, or is still running."""
    thread, handoff, report = made.thread, made.handoff, made.thread.report
    found = []
    if skipped := opening.broken_lines(thread):
        found.append(skipped)
    if report.truncated_tail:
        found.append(
            "The last line of the thread is incomplete and was left out; it may be under way."
        )
    if report.unknown:
        kinds = ", ".join(f"{k} ×{n}" for k, n in list(report.unknown.items())[:6])
        found.append(f"Line types this version does not know: {kinds}")
    for item in made.facts.running[-3:]:
        found.append(f"Not seen to end: {item.kind} {item.label!r} (#{item.ref})")
    if handoff.redactions:
        kinds = ", ".join(f"{n} {k}" for k, n in sorted(handoff.redactions.items()))
        found.append(f"Redacted: {kinds}")
    for dropped in handoff.draft.dropped:
        found.append(f"{dropped.way.capitalize()}: {dropped.text[:120]!r}: {dropped.reason}")
    redactor = Redactor()
    return [redactor.redact(warning) for warning in found]


def authored(made: pipeline.Made) -> list[str]:
    """Who wrote a draft, what it cost, and why it was not somebody else."""
    by = made.handoff.draft.authorship
    redactor = Redactor()
    told = [redactor.redact(sentence) for sentence in made.told]
    if by.author == "offline":
        return [*told, "Written offline, from facts and quotes alone."] if by.fell else told
    model = f" ({by.model})" if by.model else ""
    from tasuki.draft.authors.asker import spending

    cost = spending(by.requests, by.input_tokens, by.output_tokens, by.price)
    told.append(f"Written by the {by.author}{model} in {by.seconds:.1f} s: {cost}.")
    if by.whole_from > 1:
        told.append(f"Entries before #{by.whole_from} went in as facts and excerpts.")
    return told


def now() -> str:
    """This moment, UTC, ISO 8601 to the millisecond, so that handoffs of one second keep their order."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def event(kind: str, **detail: str) -> HandoffEvent:
    """An event that happens now; empty details are left out."""
    return HandoffEvent(at=now(), kind=kind, detail={k: v for k, v in detail.items() if v})


def resume_command(thread: Thread) -> tuple[str, ...]:
    """The command that goes back to a predecessor, empty if there is none, or nobody knows it."""
    if thread.harness not in harnesses.names():
        return ()
    return harnesses.get(thread.harness).resume_command(thread)


def _prefix_for(name: str, skill: str) -> str:
    return harnesses.get(name).skill_command(skill) if name in harnesses.names() else ""
