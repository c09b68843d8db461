"""The steps of `tasuki handoff`: find, make, keep, review, start. One object is one run."""

import os
import re
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from tasuki import config
from tasuki import harness as harnesses
from tasuki.cli.progress import BYTES_PER_SECOND, Progress
from tasuki.draft import brief as briefs
from tasuki.draft import drift, git, pipeline
from tasuki.draft.goal import EXAMPLE, GUIDANCE, check_goal, why_vague
from tasuki.draft.redact import Redactor
from tasuki.errors import GoalHasSecret, HandoffNotFound, ModelUnavailable, StoreFailed, TasukiError
from tasuki.harness import plans
from tasuki.harness.protocol import Harness, LaunchPlan, LaunchRequest
from tasuki.model import Goal, Handoff, HandoffEvent
from tasuki.plain import plain, shown
from tasuki.threads import catalog
from tasuki.vault import Vault, new_id

if TYPE_CHECKING:
    from tasuki.launch import Launched

NOTHING_STARTED = "Nothing was started."
CANCELLED = 130
"""Exit code of a review that was cancelled."""


class Hand:
    """One handoff from the command line."""

    def __init__(
        self,
        source: str,
        arguments: tuple[str, ...],
        *,
        to: str | None,
        author: str | None,
        budget: int | None,
        printed: bool,
        as_json: bool,
        yes: bool,
        editor: bool,
        send: bool,
        tmux: bool,
        copied: bool,
        model: str | None,
        force: bool,
    ) -> None:
        self.source = source
        self.arguments = arguments
        self.printed = printed
        self.as_json = as_json
        self.copied = copied
        self.yes = yes
        self.editor = editor
        self.send = send
        self.tmux = tmux
        self.model = model or ""
        self.force = force
        self.settings = config.load(Path.cwd(), {"budget": budget, "author": author, "to": to})
        self.vault = Vault()
        self.stored = False
        self.saved = False
        self.warnings: list[str] = []
        self.notes: list[str] = []
        """Peculiarities of the file, for the review and `--json`; nothing to act on."""
        self.interactive = sys.stdin.isatty() and sys.stdout.isatty()

    def over(self, goal_text: str | None) -> int:
        """Do it; the exit code."""
        if self.settings.author != "offline":
            raise ModelUnavailable(
                f"The author {self.settings.author!r} needs a model, and this version has none. "
                "Use --author offline, or take `author` out of your settings."
            )
        if self.settings.to:
            harnesses.get(self.settings.to)
        harness, path = catalog.find(self.source, Path.cwd())
        self.successor = harnesses.get(self.settings.to or harness.name)
        starting = not (self.as_json or self.copied or self.printed)
        if starting and self.interactive and not self.successor.can_start:
            plans.none(self.successor.title)
        self.goal = self._goal(goal_text)
        self.made = self._make(harness, path)
        self.prefix = self._skill_prefix()
        if not self.prefix:
            draft = msgspec.structs.replace(self.made.handoff.draft, skill="")
            self.made.handoff = msgspec.structs.replace(self.made.handoff, draft=draft)
        self.brief = briefs.join(self.made.context, self.goal.text, self.prefix)
        self._keep(self.made.handoff, self.brief, "drafted")
        self._warn()
        if self.as_json:
            self._print_json()
        elif self.copied:
            self._copy()
        elif self.printed or not (self.interactive or (self.tmux and self.yes)):
            self._print()
        else:
            return self._review_and_start()
        return 0

    # -- the goal ----------------------------------------------------------------------

    def _goal(self, text: str | None) -> Goal:
        """The goal, asked for again in a terminal while it is vague."""
        asking = self.interactive and not (self.printed or self.as_json)
        minimum = self.settings.min_goal_length
        while asking and not self.force and (reason := why_vague(text or "", minimum)):
            if text is not None:
                click.echo(reason, err=True)
            click.echo(f"{GUIDANCE}\n{EXAMPLE}", err=True)
            text = click.prompt("Goal", prompt_suffix="> ", err=True)
        goal = check_goal(text or "", min_length=minimum, force=self.force)
        self._check_secrets(goal, asking)
        return goal

    def _check_secrets(self, goal: Goal, asking: bool) -> None:
        found = sorted({span.kind for span in Redactor().find(goal.text)})
        if not found or self.force:
            return
        message = f"The goal seems to hold a secret ({', '.join(found)}); it would be handed on to the letter."
        if not (asking and click.confirm(f"{message} Go on?", default=False, err=True)):
            raise GoalHasSecret(f"{message} Take it out, or confirm with --force.")

    # -- making and keeping ------------------------------------------------------------

    def _make(self, harness: Harness, path: Path) -> pipeline.Made:
        try:
            size = path.stat().st_size
        except OSError:
            size = 0
        with Progress(
            phases=self.settings.show_progress_phases, expected=size / BYTES_PER_SECOND
        ) as progress:
            return pipeline.make(
                harness,
                path,
                self.goal,
                self.settings,
                handoff_id=new_id(),
                to=self.successor.name if self.successor.can_start else "",
                report=progress.phase,
                resolve_parent=self._parent,
            )

    def _parent(self, prefix: str) -> str:
        """The full id of the handoff that a thread began with, as far as it is stored here."""
        try:
            return self.vault.get(prefix).id if prefix else ""
        except HandoffNotFound:
            return prefix

    def _keep(self, handoff: Handoff, brief: str, kind: str) -> None:
        """Store a handoff. A brief that is only printed is worth more than its copy on disk."""
        try:
            self.vault.save(handoff, brief)
            self.vault.append(handoff.id, event(kind))
            self.stored = True
        except StoreFailed as error:
            if not (self.printed or self.as_json or self.copied or not self.interactive):
                raise
            self.warnings.append(f"{error} The brief is complete, but not kept.")

    def _event(self, handoff: Handoff, kind: str, **detail: str) -> None:
        try:
            self.vault.append(handoff.id, event(kind, **detail))
        except TasukiError as error:
            click.echo(f"tasuki: {error}", err=True)

    def _skill_prefix(self) -> str:
        """How the successor invokes the skill that was used last; empty where it lacks it."""
        skill, cwd = self.made.facts.skill, Path(self.made.thread.cwd or ".")
        if not (self.settings.include_skill and re.fullmatch(r"[\w.-]+", skill)):
            return ""
        folders = self.successor.skill_folders(cwd)
        if any(
            (f / skill / "SKILL.md").is_file() or (f / f"{skill}.md").is_file() for f in folders
        ):
            return self.successor.skill_command(skill)
        return ""

    def _warn(self) -> None:
        thread, handoff = self.made.thread, self.made.handoff
        report = thread.report
        if report.broken:
            numbers = ", ".join(str(b.line) for b in report.broken[:6])
            self.warnings.append(
                f"{len(report.broken)} broken line(s) skipped in {thread.path}: {numbers}"
            )
        if report.truncated_tail:
            self.warnings.append(
                "The last line of the thread is incomplete and was left out; it may be under way."
            )
        if report.unknown:
            kinds = ", ".join(f"{k} ×{n}" for k, n in list(report.unknown.items())[:6])
            self.warnings.append(f"Line types this version does not know: {kinds}")
        self.notes = [f"{thread.path}: {note}" for note in report.notes]
        for item in self.made.facts.running[-3:]:
            self.warnings.append(f"Not seen to end: {item.kind} {item.label!r} (#{item.ref})")
        if handoff.redactions:
            kinds = ", ".join(f"{n} {k}" for k, n in sorted(handoff.redactions.items()))
            self.warnings.append(f"Redacted: {kinds}")
        for dropped in handoff.draft.dropped:
            self.warnings.append(
                f"Dropped from {dropped.section}: {dropped.text[:120]!r}: {dropped.reason}"
            )
        redactor = Redactor()
        self.warnings = [redactor.redact(warning) for warning in self.warnings]

    # -- without starting --------------------------------------------------------------

    def _print(self) -> None:
        self._say_warnings()
        if sys.stdout.isatty():
            click.echo(plain(self.brief))
        else:
            click.echo(self.brief, color=True)  # Nothing is taken out: the goal is to the letter.

    def _print_json(self) -> None:
        handoff = self.made.handoff
        document = {
            "version": 1,
            "id": handoff.id,
            "stored": self.stored,
            "goal": handoff.goal.text,
            "tokens": handoff.tokens,
            "brief": self.brief,
            "warnings": self.warnings,
            "notes": self.notes,
            "handoff": handoff,
        }
        click.echo(msgspec.json.encode(document))

    def _copy(self) -> None:
        from tasuki.launch import copy

        way = copy(self.brief)
        self._say_warnings()
        click.echo(
            f"The brief is on the clipboard ({way}). Handoff {self.made.handoff.id[:8]}.", err=True
        )

    def _say_warnings(self) -> None:
        for warning in self.warnings:
            click.echo(f"tasuki: {briefs.plain(warning)}", err=True)

    # -- review and start --------------------------------------------------------------

    def _review_and_start(self) -> int:
        from tasuki.launch import running_elsewhere

        for where in running_elsewhere(self.made.thread):
            self.warnings.append(f"The thread is still open: {where}")
        handoff, text = self.made.handoff, self.brief
        if not self.yes:
            reviewed = self._review(text)
            if reviewed is None:
                return 0 if self.saved else CANCELLED
            if reviewed != text:
                handoff, text = self._revised(handoff, reviewed)
        else:
            self._say_warnings()
        self._start(handoff, text)
        return 0

    def _review(self, text: str) -> str | None:
        """The brief as the user left it; None if it was cancelled or only saved."""
        from tasuki.cli import reviewing

        result = reviewing.reviewed(
            text,
            self.made.thread,
            self.made.handoff,
            [*self.warnings, *self.notes],
            in_editor=self.editor,
            budget=self.settings.budget,
        )
        short = self.made.handoff.id[:8]
        if result.action == "start":
            return result.text
        if result.action == "save":
            if result.text != text:
                short = self._revised(self.made.handoff, result.text)[0].id[:8]
            self.saved = True
            click.echo(f"Saved as handoff {short}. See it: tasuki show {short}", err=True)
        else:
            click.echo(
                f"Cancelled. {NOTHING_STARTED} The draft is kept: tasuki show {short}", err=True
            )
        return None

    def _revised(self, handoff: Handoff, text: str) -> tuple[Handoff, str]:
        """An edited brief is a new revision; what was stored stays as it was."""
        context, goal = briefs.split(text)
        redactor = Redactor()
        context = redactor.redact(context)
        goal = goal.rstrip("\n") or handoff.goal.text
        if goal != handoff.goal.text:
            self._check_secrets(msgspec.structs.replace(handoff.goal, text=goal), asking=True)
        revised = msgspec.structs.replace(
            handoff,
            id=new_id(),
            revises=handoff.id,
            created=now(),
            goal=msgspec.structs.replace(handoff.goal, text=goal),
            tokens=briefs.size(context),
        )
        context = context.replace(
            f"tasuki read {handoff.id[:8]}#n", f"tasuki read {revised.id[:8]}#n"
        )
        text = briefs.join(context, goal)
        self._keep(revised, text, "revised")
        return revised, text

    def _start(self, handoff: Handoff, text: str) -> None:
        from tasuki.launch import start

        context, _ = briefs.split(text)
        if self.prefix:
            context = context.removeprefix(f"{self.prefix}\n")
        thread = self.made.thread
        cwd = thread.cwd if os.path.isdir(thread.cwd) else os.getcwd()
        if cwd != thread.cwd:
            click.echo(f"tasuki: {thread.cwd} is not here; starting in {cwd}.", err=True)
        self._say_drift(handoff, cwd)
        request = LaunchRequest(
            handoff=handoff,
            brief=text,
            context=context,
            cwd=cwd,
            send=self.send,
            model=self.model,
            arguments=self.arguments,
        )
        plan = self.successor.plan(request)
        where = "tmux" if self.tmux or os.environ.get("TMUX") else "here"
        if plan.note:
            click.echo(f"tasuki: {plan.note}", err=True)
        self._event(handoff, "started", harness=self.successor.name, where=where,
                    successor_thread=plan.thread_id, successor_path=plan.thread_path)  # fmt: skip
        try:
            launched = start(plan, "tmux" if where == "tmux" else "here", f"handoff-{handoff.id[:8]}",
                             str(self.vault.root / handoff.id / "brief.md"))  # fmt: skip
        except TasukiError as error:
            reason = Redactor().redact(str(error))  # It may quote the successor's screen.
            self._event(handoff, "failed", reason=reason)
            raise type(error)(
                f"{reason}\nThe brief is safe: tasuki show {handoff.id[:8]} --brief"
            ) from error
        except KeyboardInterrupt:
            self._event(handoff, "failed", reason="interrupted")
            raise
        self._settle(handoff, plan, launched)
        self._say_started(handoff, launched)

    def _settle(self, handoff: Handoff, plan: LaunchPlan, launched: "Launched") -> None:
        """Note what is known of the first prompt, and say so where it did not get there."""
        if launched.filled:
            self._event(handoff, "filled", target=launched.target)
        elif plan.paste:
            self._event(handoff, "uncertain", target=launched.target)
            click.echo(
                f"tasuki: the first prompt could not be filled in ({self.successor.title} asked for something "
                f"else, or ended). Paste it yourself: tasuki show {handoff.id[:8]} --brief",
                err=True,
            )
        if launched.code:
            self._event(handoff, "ended", code=str(launched.code))
            click.echo(
                f"tasuki: {self.successor.title} ended with status {launched.code}.", err=True
            )

    def _say_drift(self, handoff: Handoff, cwd: str) -> None:
        changed = drift.since_snapshot(cwd, handoff.snapshot, git.Probe(cwd).revision())
        if changed:
            self._event(handoff, "drift", what="; ".join(changed))
        for sentence in changed:
            click.echo(f"tasuki: since the draft: {sentence}", err=True)

    def _say_started(self, handoff: Handoff, launched: "Launched") -> None:
        thread = self.made.thread
        back = shlex.join(harnesses.get(thread.harness).resume_command(thread))
        where = f" in tmux {launched.target}" if launched.pane else ""
        attached = f" Attach: {shlex.join(launched.attach)}." if launched.attach else ""
        returning = f" Back to the predecessor: {shown(back)}" if back else ""
        click.echo(
            f"Handoff {handoff.id[:8]} started {self.successor.title}{where}.{attached}{returning}",
            err=True,
        )


def now() -> str:
    """This moment, UTC, ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def event(kind: str, **detail: str) -> HandoffEvent:
    """An event that happens now; empty details are left out."""
    return HandoffEvent(at=now(), kind=kind, detail={k: v for k, v in detail.items() if v})
