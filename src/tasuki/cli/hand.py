"""The steps of `tasuki handoff`: find, make, review, start. One object is one run."""

import sys
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

from tasuki import config, handoffs
from tasuki import harness as harnesses
from tasuki.cli.progress import BYTES_PER_SECOND, Progress
from tasuki.cli.starting import Starting, confirm_secrets, say_warnings
from tasuki.draft.goal import EXAMPLE, GUIDANCE, check_goal, why_vague
from tasuki.errors import UsageError
from tasuki.harness import plans
from tasuki.harness.protocol import Harness
from tasuki.model import Goal
from tasuki.plain import plain
from tasuki.threads import catalog
from tasuki.vault import Vault


class Hand:
    """One handoff from the command line."""

    def __init__(
        self,
        source: str,
        arguments: tuple[str, ...],
        *,
        to: str | None,
        author: str | None,
        author_model: str | None,
        strict: bool | None,
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
        no_fleet: bool,
    ) -> None:
        self.source = source
        self.printed = printed
        self.as_json = as_json
        self.copied = copied
        self.force = force
        self.fleet_may = not (no_fleet or printed or as_json or copied)
        """A brief that is only shown is nobody's successor."""
        self.own_flags = [name for name, value in (
            ("--to", to), ("--author", author), ("--author-model", author_model), ("--budget", budget),
            ("--editor", editor), ("--send", send), ("--tmux", tmux), ("--model", model),
            ("-- ARGUMENTS", arguments),
        ) if value]  # fmt: skip
        flags = {"budget": budget, "author": author, "to": to, "model": author_model,
                 "strict": strict}  # fmt: skip
        self.loaded = config.loaded(Path.cwd(), flags)
        self.settings = self.loaded.settings
        self.vault = Vault()
        self.starting = Starting(
            yes=yes,
            editor=editor,
            send=send,
            tmux=tmux,
            model=model or "",
            force=force,
            budget=self.settings.budget,
            arguments=arguments,
        )
        self.interactive = sys.stdin.isatty() and sys.stdout.isatty()

    def over(self, goal_text: str | None) -> int:
        """Do it; the exit code."""
        if self.settings.to:
            harnesses.get(self.settings.to)
        if self.fleet_may and self._is_handed_off_by_fleet(goal_text):
            return 0
        harness, path, elsewhere = catalog.find_near(self.source, Path.cwd())
        successor = harnesses.get(self.settings.to or harness.name)
        only_shown = self.printed or self.as_json or self.copied
        starting = not only_shown and (
            self.interactive or (self.starting.tmux and self.starting.yes)
        )
        if (starting or self.settings.to) and not successor.can_start:
            plans.none(successor.title)
        goal = self._goal(goal_text)
        self.offer = self._make(harness, path, goal, successor, must_keep=starting)
        if elsewhere:
            self.offer.warnings.insert(0, elsewhere)
        if not (starting or self.as_json):  # A program that asks for JSON goes on with the draft.
            self.offer.note_printed("copy" if self.copied else "print")
        if self.as_json:
            self._print_json()
        elif self.copied:
            self._copy()
        elif starting:
            return self.starting.review_and_start(self.offer)
        else:
            self._print()
        return 0

    def _is_handed_off_by_fleet(self, goal_text: str | None) -> bool:
        """Hand off the agent of the fleet that this runs in, if it does and is what is to be handed off."""
        from tasuki.cli import inside_fleet

        agent = inside_fleet.find_own_agent(inside_fleet.calling_sessions())
        if agent is None:
            return False
        if self.source and str(catalog.find(self.source, Path.cwd())[1]) != agent["thread"]:
            return False
        if self.own_flags:
            raise UsageError(
                f"The fleet hands agent {agent['id']} off as it was started; it takes no "
                f"{', '.join(self.own_flags)}.\n{inside_fleet.HOW_OUTSIDE}"
            )
        click.echo(inside_fleet.hand_off_own(agent, self._goal(goal_text).text))
        return True

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
        confirm_secrets(goal.text, asking=asking, force=self.force)
        return goal

    # -- making ------------------------------------------------------------------------

    def _make(
        self, harness: Harness, path: Path, goal: Goal, successor: Harness, *, must_keep: bool
    ) -> handoffs.Offer:
        try:
            size = path.stat().st_size
        except OSError:
            size = 0
        expected = size / BYTES_PER_SECOND
        expected += handoffs.usual_seconds(self.vault, self.settings.author)
        with Progress(phases=self.settings.show_progress_phases, expected=expected) as progress:
            return handoffs.offer(
                harness,
                path,
                goal,
                self.loaded,
                successor=successor,
                vault=self.vault,
                must_keep=must_keep,
                report=progress.phase,
            )

    # -- without starting --------------------------------------------------------------

    def _print(self) -> None:
        say_warnings(self.offer)
        if sys.stdout.isatty():
            click.echo(plain(self.offer.brief))
        else:  # Nothing is taken out: the goal is to the letter.
            click.echo(self.offer.brief, color=True)

    def _print_json(self) -> None:
        handoff = self.offer.handoff
        if not self.offer.stored:  # an id that opens nothing
            handoff = replace(handoff, id="")
        document = {
            "version": 1,
            "id": handoff.id,
            "stored": self.offer.stored,
            "goal": handoff.goal.text,
            "tokens": handoff.tokens,
            "brief": self.offer.brief,
            "authorship": self.offer.told,
            "warnings": self.offer.warnings,
            "notes": self.offer.notes,
            "handoff": handoff,
        }
        click.echo(msgspec.json.encode(document))

    def _copy(self) -> None:
        from tasuki.launch import copy

        way = copy(self.offer.brief)
        say_warnings(self.offer)
        kept = f" Handoff {self.offer.handoff.id[:8]}." if self.offer.stored else ""
        click.echo(f"The brief is on the clipboard ({way}).{kept}", err=True)
