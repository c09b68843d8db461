"""The `tasuki` command. Nothing heavy is imported here: commands load when they are called."""

import io
import os
import signal
import sys
from importlib import import_module
from types import FrameType
from typing import Any

import click

from tasuki import __version__
from tasuki.errors import TasukiError
from tasuki.plain import shown

COMMANDS = {
    "handoff": ("tasuki.cli.handoff:handoff", "Hand a thread's work to a fresh one."),
    "start": ("tasuki.cli.start:start", "Start the successor of a handoff that was kept."),
    "threads": ("tasuki.cli.threads:threads", "List the threads of this folder, newest first."),
    "handoffs": ("tasuki.cli.kept:handoffs", "List, find and prune the handoffs that were kept."),
    "show": ("tasuki.cli.kept:show", "Show one handoff."),
    "lineage": ("tasuki.cli.kept:lineage", "Draw the chain of threads and handoffs."),
    "find": ("tasuki.cli.find:find", "Search all threads of all harnesses."),
    "read": ("tasuki.cli.read:read", "Open a thread or entries of it, or ask it a question."),
    "chat": ("tasuki.cli.chat:chat", "Talk to any agent that speaks ACP, with /handoff."),
    "check": ("tasuki.cli.check:check", "Score a handoff document against its thread."),
    "eval": (
        "tasuki.cli.eval:eval",
        "Measure handoffs: on threads, by questions, on made-up cases, by a judge, by hand.",
    ),
    "install": ("tasuki.cli.install:install", "Add /handoff, hooks and tools to a harness."),
    "uninstall": ("tasuki.cli.install:uninstall", "Take out of a harness what was added."),
    "doctor": ("tasuki.cli.doctor:doctor", "Say what works with each harness, and what mends it."),
    "hook": ("tasuki.cli.hook:hook", "Answer a hook of a harness; harnesses call it."),
    "status": ("tasuki.cli.hook:status", "Print the part of a status line with context use."),
    "acp": ("tasuki.cli.acp:acp", "Put /handoff between an editor and any agent that speaks ACP."),
    "mcp": ("tasuki.cli.mcp:mcp", "Serve these as tools to agents, by the Model Context Protocol."),
    "serve": ("tasuki.cli.serve:serve", "Serve a fleet of agents: personas, hooks, handoffs."),
    "dashboard": ("tasuki.cli.dashboard:dashboard", "Print the link that opens the dashboard."),
    "persona": ("tasuki.cli.persona:persona", "Add, list and edit the personas of the fleet."),
    "agent": ("tasuki.cli.agent:agent", "Start agents of the fleet, talk to them, hand them off."),
    "docs": ("tasuki.cli.docs:docs", "Print a page of the documentation, or list them."),
    "config": ("tasuki.cli.config:config", "Show every setting and where its value came from."),
    "completion": ("tasuki.cli.completion:completion", "Print the shell completion script."),
}


class Lazy(click.Group):
    """A group whose commands are imported when they are called, not when they are listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean: tasuki {near[0]}?" if near else " Commands: tasuki --help"
            raise click.UsageError(f"No command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="tasuki", message="%(prog)s %(version)s")
def cli() -> None:
    """Hand a coding agent's work from one thread to a fresh one.

    Reads the thread that Claude Code, Codex, pi, Gemini CLI or another agent keeps on disk, derives
    what your next goal needs, checks every claim against the thread, and starts the successor with it.

    \b
    tasuki handoff "add retries to the upload client and test them"
    """


def main() -> None:
    """Entry point: errors become one message and an exit code.

    0 done, 1 failed, 2 wrong usage, 3 refused, 130 interrupted.
    """
    try:
        _standard_streams()
        code: Any = cli.main(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo(f"\n{_INTERRUPTED.get(_command(), 'Interrupted.')}", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except TasukiError as error:
        click.echo(f"tasuki: {shown(str(error))}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        _quiet_stdout()
        sys.exit(1)
    except OSError as error:
        _quiet_stdout()
        click.echo(f"tasuki: {shown(_tell(error))}", err=True)
        sys.exit(1)
    except Exception as error:  # A traceback helps nobody who is in the middle of their work.
        _quiet_stdout()
        click.echo(f"tasuki: {shown(_keep_traceback(error))}", err=True)
        sys.exit(1)


_INTERRUPTED = {
    "handoff": "Interrupted; nothing was started.",
    "start": "Interrupted; nothing was started.",
    "handoffs prune": "Interrupted. What was deleted until then is gone.",
    "install": "Interrupted. What was written until then stays; tasuki uninstall takes it out.",
    "uninstall": "Interrupted. What was taken out until then is gone; the rest stays.",
}
"""What is true of a command that was broken off, where there is more to say than that."""
_OF_THREADS = frozenset({"handoff", "start", "threads", "find", "read", "check", "eval", "hook", "mcp", "doctor"})  # fmt: skip
"""Commands of which a user may fear for their threads."""


def _command() -> str:
    """The command that was called, with `prune` where it is that of `handoffs`."""
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    return " ".join(words[:2] if words[1:2] == ["prune"] else words[:1])


def _tell(error: OSError) -> str:
    """What the system refused, with the file that it is about."""
    reason = error.strerror or str(error)
    if error.filename:
        return f"{error.filename}: {reason}."
    if isinstance(error, FileNotFoundError):
        return f"{reason}: is the folder that you are in still there?"
    if _is_of_output(error):
        return f"The output could not be written: {reason}."
    return f"A file that tasuki uses could not be read or written: {reason}. {_where_files_are()}"


def _is_of_output(error: OSError) -> bool:
    """Whether it was raised where something is printed, and not where a file is written."""
    import traceback

    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    inside = [frame.f_globals.get("__name__", "") for frame in frames[-2:]]
    return any(name.startswith(_PRINTING) for name in inside)


_PRINTING = ("click.", "rich.", "textual.", "tasuki.cli.", "tasuki.session.chat.")
"""Modules that print."""


def _where_files_are() -> str:
    from tasuki.data_folder import data_folder

    try:
        return f"Look whether there is room in {data_folder()}, or name another folder: TASUKI_DATA=/some/folder"
    except TasukiError as unknown:
        return str(unknown)


def _keep_traceback(error: Exception) -> str:
    """A sentence on a defect of tasuki itself; its traceback, without secrets, goes into a file of the user's alone."""
    import tempfile
    import traceback

    from tasuki.data_folder import data_folder
    from tasuki.draft.redact import redact

    if os.environ.get("TASUKI_TRACEBACK"):
        traceback.print_exception(error)
    told = f"This is a defect of tasuki: {type(error).__name__}: {redact(str(error))[0][:300]}."
    try:
        folder = data_folder() / "defects"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        number, path = tempfile.mkstemp(prefix="defect-", suffix=".txt", dir=folder)
        with os.fdopen(number, "w", errors="backslashreplace") as file:
            file.write(
                f"tasuki {__version__}\n{redact(''.join(traceback.format_exception(error)))[0]}"
            )
    except (OSError, ValueError, TasukiError) as failed:
        why = getattr(failed, "strerror", None) or str(failed).rstrip(".")
        return f"{told} Its traceback could not be kept ({why}); TASUKI_TRACEBACK=1 prints it."
    safe = " Threads are never written to." if _command() in _OF_THREADS else ""
    return f"{told}{safe} Please report it with {path}"


def _standard_streams() -> None:
    """Make the streams fit to work with: none missing, and no character that cannot be printed.

    What the caller closed would otherwise be None here, and its number would go to the next file
    that is opened. An order to end becomes an exit, so that files and terminals are put back.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:  # Writing to a closed standard output must fail, so it is opened to read.
            os.open(os.devnull, mode)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            utf8 = stream.encoding.lower().replace("-", "") == "utf8"
            stream.reconfigure(errors="surrogateescape" if utf8 else "backslashreplace")
    for order in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(order) == signal.SIG_DFL:
            signal.signal(order, _end)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _quiet_stdout() -> None:
    """Keep the interpreter from complaining again about a pipe that is closed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
