"""The steps of `tasuki handoff`: find, make, review, start. One object is one run."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from tasuki import handoffs
from tasuki.cli.handoff.review import StartOptions, confirm_secrets, print_warnings
from tasuki.cli.output import BYTES_PER_SECOND, JSON_VERSION, ProgressSpinner
from tasuki.config import settings
from tasuki.draft.goal import EXAMPLE, GUIDANCE, check_goal, explain_vagueness
from tasuki.errors import UsageError
from tasuki.harness import plans
from tasuki.harness import registry as harnesses
from tasuki.model import Goal
from tasuki.text_safety import clean_text
from tasuki.threads import catalog
from tasuki.vault import Vault


class HandoffCommand:
    """One handoff from the command line."""

    def __init__(
        self,
        source: str,
        arguments: tuple[str, ...],
        *,
        printed: bool,
        as_json: bool,
        copied: bool,
        no_fleet: bool,
        budget: int | None,
        author: str | None,
        to: str | None,
        author_model: str | None,
        strict: bool | None,
        **start: Any,
    ) -> None:
        self.source = source
        self.printed = printed
        self.as_json = as_json
        self.copied = copied
        self.is_fleet_allowed = not (no_fleet or printed or as_json or copied)
        """A brief that is only shown has no successor."""
        flags = {"to": to, "author": author, "budget": budget, "strict": strict}
        self.own_flags = [name for name, value in (
            ("--to", to), ("--author", author), ("--author-model", author_model), ("--budget", budget),
            ("--editor", start["editor"]), ("--send", start["send"]), ("--tmux", start["tmux"]),
            ("--model", start["model"]), ("-- ARGUMENTS", arguments),
        ) if value]  # fmt: skip
        self.loaded = settings.load_with_sources(Path.cwd(), {**flags, "model": author_model})
        self.settings = self.loaded.settings
        self.vault = Vault()
        self.start_options = StartOptions(**start, budget=self.settings.budget, arguments=arguments)
        self.interactive = sys.stdin.isatty() and sys.stdout.isatty()

    def run(self, goal_text: str | None) -> int:
        """Run the handoff; return the exit code."""
        if self.settings.to:
            harnesses.get_harness(self.settings.to)
        if self.is_fleet_allowed and self._hand_off_by_fleet(goal_text):
            return 0
        harness, path, elsewhere = catalog.find_near(self.source, Path.cwd())
        successor = harnesses.get_harness(self.settings.to or harness.name)
        only_shown = self.printed or self.as_json or self.copied
        will_start = not only_shown and (
            self.interactive or (self.start_options.tmux and self.start_options.yes)
        )
        if (will_start or self.settings.to) and not successor.can_start:
            plans.refuse_start(successor.title)
        goal = self._ask_goal(goal_text)
        with self._show_progress(path) as progress:
            self.prepared = handoffs.prepare_handoff(
                harness,
                path,
                goal,
                self.loaded,
                successor=successor,
                vault=self.vault,
                must_keep=will_start,
                report=progress.begin_phase,
            )
        if self.prepared.thread.limit and not self.settings.to:
            from tasuki.cli.handoff import limits

            self.prepared = limits.offer_other_harness(
                self.prepared, can_ask=will_start and self.interactive
            )
        if elsewhere:
            self.prepared.warnings.insert(0, elsewhere)
        if not (will_start or self.as_json):  # Who asks for JSON continues with the draft.
            self.prepared.record_printed("copy" if self.copied else "print")
        if self.as_json:
            self._print_json()
        elif self.copied:
            from tasuki.launch import copy_text

            way = copy_text(self.prepared.brief)
            print_warnings(self.prepared)
            stored = f" Handoff {self.prepared.handoff.id[:8]}." if self.prepared.stored else ""
            click.echo(f"The brief is on the clipboard ({way}).{stored}", err=True)
        elif will_start:
            return self.start_options.review_and_start(self.prepared)
        else:
            print_warnings(self.prepared)
            if sys.stdout.isatty():
                click.echo(clean_text(self.prepared.brief))
            else:  # Nothing is removed: the goal is kept word for word.
                click.echo(self.prepared.brief, color=True)
        return 0

    def _hand_off_by_fleet(self, goal_text: str | None) -> bool:
        """Let the fleet hand off the agent that this runs in; return whether it did.

        It does not where this runs in no agent, or another thread should be handed off.
        """
        from tasuki.cli.fleet import client

        agent = client.find_own_agent(client.find_calling_sessions())
        if agent is None:
            return False
        if self.source and str(catalog.find_thread(self.source, Path.cwd())[1]) != agent["thread"]:
            return False
        if self.own_flags:
            raise UsageError(
                f"The fleet hands agent {agent['id']} off as it was started; it takes no "
                f"{', '.join(self.own_flags)}.\n{client.OUTSIDE_ADVICE}"
            )
        click.echo(client.hand_off_own(agent, self._ask_goal(goal_text).text))
        return True

    def _ask_goal(self, text: str | None) -> Goal:
        """Return the goal; ask for it again in a terminal while it is vague."""
        can_ask = self.interactive and not (self.printed or self.as_json)
        minimum = self.settings.min_goal_length
        while (
            can_ask
            and not self.start_options.force
            and (reason := explain_vagueness(text or "", minimum))
        ):
            if text is not None:
                click.echo(reason, err=True)
            click.echo(f"{GUIDANCE}\n{EXAMPLE}", err=True)
            text = click.prompt("Goal", prompt_suffix="> ", err=True)
        goal = check_goal(text or "", min_length=minimum, force=self.start_options.force)
        confirm_secrets(goal.text, can_ask=can_ask, force=self.start_options.force)
        return goal

    def _show_progress(self, path: Path) -> ProgressSpinner:
        try:
            size = path.stat().st_size
        except OSError:
            size = 0
        expected = size / BYTES_PER_SECOND
        expected += handoffs.estimate_seconds(self.vault, self.settings.author)
        return ProgressSpinner(phases=self.settings.show_progress_phases, expected=expected)

    def _print_json(self) -> None:
        handoff = self.prepared.handoff
        if not self.prepared.stored:  # an id that opens nothing
            handoff = replace(handoff, id="")
        document = {
            "version": JSON_VERSION,
            "id": handoff.id,
            "stored": self.prepared.stored,
            "goal": handoff.goal.text,
            "tokens": handoff.tokens,
            "brief": self.prepared.brief,
            "authorship": self.prepared.authorship_notes,
            "warnings": self.prepared.warnings,
            "notes": self.prepared.notes,
            "handoff": handoff,
        }
        click.echo(msgspec.json.encode(document))
