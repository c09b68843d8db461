"""Review a stored handoff on the screen or in an editor, and start its successor."""

import contextlib
import os
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
from msgspec import Struct

from tasuki import handoffs
from tasuki.draft import brief as briefs
from tasuki.errors import GoalHasSecret, TasukiError, UsageError
from tasuki.text_safety import clean_for_display, clean_text

if TYPE_CHECKING:
    from tasuki.cli.handoff.first_frame import ReviewDecision

FALLBACK_EDITORS = ("sensible-editor", "nano", "vi")


def edit_in_editor(text: str) -> str | None:
    """Return the text as edited in `$VISUAL` or `$EDITOR`, or None where the user gave up.

    Giving up means: the editor ended with an error, or the file is empty or gone. The file is
    the user's alone and is removed. Raises UsageError where there is no editor, TasukiError
    where the file cannot be written.
    """
    import subprocess

    command = _find_editor()
    path = _write_file(text)
    try:
        try:
            process = subprocess.Popen([*command, str(path)])
        except OSError as error:
            raise UsageError(f"{command[0]} cannot be run: {error.strerror}.") from error
        while (status := process.poll()) is None:
            with contextlib.suppress(KeyboardInterrupt):  # It is for the editor alone.
                process.wait()
        edited = path.read_bytes().decode("utf-8", "replace") if status == 0 else ""
    except FileNotFoundError:
        return None
    finally:
        path.unlink(missing_ok=True)
    if not edited.strip():
        return None
    # A newline at the end that the editor added is not an edit.
    return edited if text.endswith("\n") else edited.removesuffix("\n")


def _find_editor() -> list[str]:
    """Find the editor's command; a setting that names a missing program is an error."""
    import shutil

    for name in ("VISUAL", "EDITOR"):
        if value := os.environ.get(name, "").strip():
            with contextlib.suppress(ValueError):
                command = shlex.split(value)
                if command and shutil.which(command[0]):
                    return command
            raise UsageError(f"${name} is {value!r}, which cannot be run. Set it to your editor.")
    for program in FALLBACK_EDITORS:
        if shutil.which(program):
            return [program]
    from tasuki.config.installation import build_install_line

    raise UsageError(
        "There is no editor to review in. Set EDITOR, or install the extra `review`: "
        f"{build_install_line('review')}"
    )


def _write_file(text: str) -> Path:
    import tempfile

    try:
        number, name = tempfile.mkstemp(prefix="tasuki-", suffix=".md")
        with os.fdopen(number, "wb") as stream:
            stream.write(text.encode("utf-8", "replace"))
    except OSError as error:
        raise TasukiError(f"The brief cannot be written for the editor: {error}.") from error
    return Path(name)


CANCELLED_CODE = 130
"""Exit code of a review that was cancelled."""


class StartOptions(Struct, frozen=True):
    """How the user wants a successor to be started."""

    yes: bool = False
    editor: bool = False
    send: bool = False
    tmux: bool = False
    model: str | None = None
    force: bool = False
    budget: int = 0
    arguments: tuple[str, ...] = ()

    def review_and_start(self, prepared: handoffs.PreparedHandoff) -> int:
        """Let the user review the brief, then start the successor; return the exit code."""
        from tasuki.launch import find_running_programs

        inside_agent = os.environ.pop(handoffs.INSIDE, "")
        for program in () if inside_agent else find_running_programs(prepared.thread):
            prepared.warnings.append(f"The thread is still open: {program}")
        if self.yes:
            print_warnings(prepared)
        elif (code := self._review_brief(prepared)) is not None:
            if inside_agent and not code:  # The window would close over what was said.
                click.pause("[Press any key to close this window.]", err=True)
            return code
        launched = handoffs.start_successor(
            prepared,
            where="tmux" if self.tmux or os.environ.get("TMUX") else "here",
            tell=print_message,
            send=self.send,
            model=self.model or "",
            arguments=self.arguments,
        )
        resume = shlex.join(handoffs.build_resume_command(prepared.thread))
        place = f" in tmux {launched.target}" if launched.pane else ""
        way = f" Attach: {shlex.join(launched.attach)}." if launched.attach else ""
        if launched.back:
            way = f" From there back to this window: {launched.back}."
        way += f" Back to the predecessor: {clean_for_display(resume)}" if resume else ""
        started = f"Handoff {prepared.handoff.id[:8]} started {prepared.successor.title}{place}."
        click.echo(f"{started}{way}", err=True)
        return 0

    def _review_brief(self, prepared: handoffs.PreparedHandoff) -> int | None:
        """Review the brief; return the exit code if nothing should be started, else None."""
        action, text = self._let_decide(prepared)
        if action != "cancel" and text != prepared.brief:
            revise(prepared, text, force=self.force, can_ask=True)
        short = prepared.handoff.id[:8]
        if action == "start":
            return None
        if action == "save":
            click.echo(f"Saved as handoff {short}. Start it: tasuki start {short}", err=True)
            return 0
        click.echo(
            f"Cancelled. Nothing was started. The draft is kept: tasuki show {short}, "
            f"tasuki start {short}",
            err=True,
        )
        return CANCELLED_CODE

    def _let_decide(self, prepared: handoffs.PreparedHandoff) -> "ReviewDecision":
        """Show a brief for review; return what the user decided, and the brief as they left it.

        An editor that leaves an empty file, or fails, cancels.
        """
        text = prepared.brief
        is_screen = not self.editor and os.environ.get("TERM", "dumb") != "dumb"
        if is_screen and find_spec("textual"):
            from tasuki.cli.handoff.first_frame import format_title, show_first_frame

            title = format_title(text, prepared.thread, self.budget)
            frame = show_first_frame(clean_text(text), title)
            with contextlib.suppress(ImportError), frame:
                from tasuki.cli.handoff.review_screen import show_review

                notes = [*prepared.authorship_notes, *prepared.warnings, *prepared.notes]
                left_out = prepared.handoff.draft.left_out
                return show_review(text, prepared.thread, left_out, notes, self.budget)
        if (edited := edit_in_editor(text)) is None:
            return "cancel", text
        answer = click.prompt(
            "Start the successor, save only, or cancel?",
            type=click.Choice(["start", "save", "cancel"]),
            default="start",
            err=True,
        )
        return cast("ReviewDecision", (answer, edited))


def revise(
    prepared: handoffs.PreparedHandoff, text: str, *, force: bool, can_ask: bool = False
) -> None:
    """Apply an edited brief. Raises GoalHasSecret where its new goal has one."""
    _, goal = briefs.split_brief(text)
    if goal.rstrip("\n") not in ("", prepared.handoff.goal.text):
        confirm_secrets(goal, can_ask=can_ask, force=force)
    prepared.revise(text)


def confirm_secrets(goal: str, *, can_ask: bool, force: bool) -> None:
    """Ask whether to hand on a goal that seems to contain a secret. Raises GoalHasSecret."""
    message = handoffs.describe_secrets(goal)
    if not message or force:
        return
    if not (can_ask and click.confirm(f"{message} Continue?", default=False, err=True)):
        raise GoalHasSecret(f"{message} Remove it, or confirm with --force.")


def print_warnings(prepared: handoffs.PreparedHandoff) -> None:
    """Print the author and the warnings on standard error, one a line."""
    for warning in (*prepared.authorship_notes, *prepared.warnings):
        print_message(briefs.clean_line(warning))


def print_message(sentence: str) -> None:
    """Print a sentence on standard error."""
    click.echo(f"tasuki: {sentence}", err=True)
