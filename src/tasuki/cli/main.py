"""The `tasuki` command, its documentation and completion.

Nothing heavy is imported here: other commands load when they are called.
"""

import atexit
import errno
import gc
import io
import os
import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from tasuki.errors import TasukiError
from tasuki.interpreter import pause_collector
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_for_display, shorten_to_line

if TYPE_CHECKING:
    from pathlib import Path

    from click.shell_completion import CompletionItem

COMMANDS = {
    "handoff": (".handoff.command", "Hand a thread's work to a fresh one."),
    "start": (".handoff.command", "Start the successor of a stored handoff."),
    "threads": (".thread_list", "List the threads in this folder, newest first."),
    "handoffs": (".handoff.handoffs", "List, find and prune the stored handoffs."),
    "show": (".handoff.handoffs", "Show one handoff."),
    "lineage": (".handoff.handoffs", "Draw the chain of threads and handoffs."),
    "find": (".thread_list", "Search all threads of all harnesses."),
    "read": (".read", "Open a thread or entries of it, or ask it a question."),
    "chat": (".setup.protocols", "Talk to any agent that speaks ACP, with /handoff."),
    "check": (".handoff.check", "Score a handoff document against its thread."),
    "eval": (
        "tasuki_evals.cli.main",
        "Measure handoffs: on threads, by questions, on made-up cases, by a judge, by hand.",
    ),
    "install": (".setup.install", "Add /handoff, hooks and tools to a harness."),
    "uninstall": (".setup.install", "Remove from a harness what was added."),
    "doctor": (".setup.reports", "Check what works with each harness, and how to fix the rest."),
    "hook": (".setup.protocols", "Answer a hook; harnesses call this."),
    "status": (".setup.protocols", "Print context use for a status line."),
    "acp": (".setup.protocols", "Put /handoff between an editor and any agent that speaks ACP."),
    "mcp": (".setup.protocols", "Serve handoffs and threads as tools to agents (MCP)."),
    "serve": (".fleet.serve", "Serve a fleet of agents: personas, hooks, handoffs."),
    "dashboard": (".fleet.serve", "Print the link that opens the dashboard."),
    "persona": (".fleet.persona", "Add, list and edit the personas of the fleet."),
    "agent": (".fleet.agent", "Start agents of the fleet, talk to them, hand them off."),
    "template": (".fleet.goal_template", "Keep goals for reuse, start agents from them."),
    "host": (".fleet.host", "Add hosts to the fleet, join it, retire hosts."),
    "docs": (".main", "Print a page of the documentation, or list them."),
    "config": (".setup.reports", "Show every setting and where its value came from."),
    "completion": (".main", "Print the shell completion script."),
}
"""Each command by its name: its module, seen from here, which has it by the same name; and its help."""
SECTIONS = {
    "Hand off": "handoff start handoffs show lineage",
    "Look things up": "threads find read",
    "Inside your programs": "install uninstall doctor chat acp mcp",
    "Run a fleet": "serve dashboard agent persona template host",
    "More": "config docs completion check eval hook status",
}
"""The commands as `--help` shows them."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called, not when they are listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        with pause_collector():  # What a module makes stays.
            module = import_module(COMMANDS[cmd_name][0], "tasuki.cli")
        command: click.Command = getattr(module, cmd_name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Offer the commands without importing them, and options."""
        from click.shell_completion import CompletionItem

        named = ((name, text) for name, (_, text) in COMMANDS.items())
        offered = [CompletionItem(n, help=text) for n, text in named if n.startswith(incomplete)]
        return offered + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<10}", COMMANDS[name][1]) for name in names.split()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Hand off where the words are no command but a goal, or options of `tasuki handoff`."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        is_option = bool(args) and args[0].startswith("-")
        if (is_option and args[0] not in OWN_OPTIONS) or (args and is_goal(args[0])):
            args = ["handoff", *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not ctx.resilient_parsing:
            import difflib

            usual = OTHER_WORDS.get(args[0])
            near = [usual] if usual else difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"Did you mean: tasuki {near[0]}?" if near else "Commands: tasuki --help"
            if not near:
                words = " ".join([args[0], *(w for w in args[1:2] if w[:1] not in ("", "-"))])
                hint = f'A goal has several words, in quotes: tasuki "{words} …". {hint}'
            raise click.UsageError(f"No command {args[0]!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)


OTHER_WORDS = {"version": "--version", "list": "threads", "ls": "threads", "history": "handoffs",
               "resume": "start", "undo": "uninstall", "remove": "uninstall", "delete": "handoffs prune"}  # fmt: skip
"""What people type, and the command that does it."""
OWN_OPTIONS = ("-h", "--help", "--version")
_LETTERS_WITHOUT_BLANKS = compile_pattern(r"[぀-ヿ㐀-鿿가-힯฀-๿]")


def is_goal(word: str) -> bool:
    """Tell whether a first argument is a goal, and not a command, perhaps a mistyped one.

    A goal has several words, or is in a script that needs no blanks between words.
    """
    return len(word.split()) > 1 or bool(_LETTERS_WITHOUT_BLANKS.search(word))


def _print_version(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not context.resilient_parsing:
        from tasuki.cli.version import describe_version

        click.echo(f"tasuki {describe_version()}")
        context.exit()


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.pass_context
def cli(ctx: click.Context) -> int:
    """Hand a coding agent's work from one thread to a fresh one.

    Reads the thread that Claude Code, Codex, pi, Gemini CLI or another agent keeps on disk, derives
    what your next goal needs, checks every claim against the thread, and starts the successor with it.

    \b
    tasuki                                   list the threads here, offer to hand off the newest
    tasuki "add retries to the upload"       hand off the newest, as `tasuki handoff` does
    tasuki --to codex "add retries to the upload"
    """
    if ctx.invoked_subcommand is not None:
        return 0
    from tasuki.cli.thread_list import offer_newest

    return offer_newest(ctx)


@click.command()
@click.argument("page", required=False)
def docs(page: str | None) -> None:
    """Print a page of the documentation, or list the pages.

    PAGE is a name of the list, such as `start` or `fleet`. They belong to the installed version.
    """
    folder = find_docs_folder()
    pages = {str(p.relative_to(folder).with_suffix("")): p for p in sorted(folder.rglob("*.md"))}
    if page is None:
        for name, path in pages.items():
            title = path.read_text("utf-8").partition("\n")[0].removeprefix("# ")
            click.echo(f"{name:<16} {title}")
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in pages:
        import difflib

        near = difflib.get_close_matches(name, pages, n=1)
        hint = f"Did you mean: tasuki docs {near[0]}?" if near else "The pages: tasuki docs"
        raise click.UsageError(f"No page {page!r}. {hint}")
    click.echo_via_pager(pages[name].read_text("utf-8"))


def find_docs_folder() -> "Path":
    """Find the folder of the pages: in the package of a wheel, or `docs/` of a checkout.

    Raises UsageError.
    """
    from pathlib import Path

    package = Path(__file__).parent.parent
    for folder in (package / "docs", package.parent.parent / "docs"):
        if (folder / "start.md").is_file():
            return folder
    raise click.UsageError(
        "This installation holds no documentation; the checkout has it in docs/."
    )


@click.command()
@click.argument("shell", type=click.Choice(["bash", "fish", "zsh"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  echo 'command -v tasuki >/dev/null && eval "$(tasuki completion bash)"' >> ~/.bashrc
    zsh:   echo 'command -v tasuki >/dev/null && eval "$(tasuki completion zsh)"' >> ~/.zshrc
    fish:  tasuki completion fish > ~/.config/fish/completions/tasuki.fish
    """
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(cli, {}, "tasuki", COMPLETION_VARIABLE).source())


COMPLETION_VARIABLE = "_TASUKI_COMPLETE"
"""Set by a shell that wants to know what may come next; click knows it by this name."""


def main() -> None:
    """Run the command line: errors become one message and an exit code.

    0 done, 1 failed, 2 wrong usage, 3 refused, 130 interrupted.
    """
    atexit.register(gc.freeze)  # A process that ends need not look for cycles in all it has.
    try:
        _prepare_streams()
        if COMPLETION_VARIABLE in os.environ:  # A shell has no place for an error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        code: Any = cli.main(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo(f"\n{_INTERRUPTION_MESSAGES.get(_find_command(), 'Interrupted.')}", err=True)
        sys.exit(130)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        click.echo(_redact(shown.getvalue()), err=True, nl=False)
        sys.exit(error.exit_code)
    except TasukiError as error:
        _print_error(str(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        _silence_stdout()
        sys.exit(1)
    except OSError as error:
        _silence_stdout()
        _print_error(_describe_os_error(error))
        sys.exit(1)
    except Exception as error:  # A traceback does not help a user in the middle of their work.
        _silence_stdout()
        _print_error(_keep_traceback(error))
        sys.exit(1)


def _print_error(sentence: str) -> None:
    """Print an error on standard error. It may quote what was typed, a thread or a file: no secret of it."""
    click.echo(f"tasuki: {_redact(sentence)}", err=True)


def _redact(sentence: str) -> str:
    from tasuki.draft.redact.redactor import redact

    return redact(clean_for_display(sentence))[0]


_INTERRUPTION_MESSAGES = {
    "handoff": "Interrupted; nothing was started.",
    "start": "Interrupted; nothing was started.",
    "handoffs prune": "Interrupted. What was deleted until then is gone.",
    "install": "Interrupted. What was written until then stays; tasuki uninstall removes it.",
    "uninstall": "Interrupted. What was removed until then is gone; the rest stays.",
}
"""What to add after an interruption, for commands where there is more to say."""
_THREAD_COMMANDS = frozenset({"handoff", "start", "threads", "find", "read", "check", "eval", "hook", "mcp", "doctor"})  # fmt: skip
"""Commands after whose failure a user may fear for their threads."""


def _find_command() -> str:
    """Find the command that was called, with `prune` where it is that of `handoffs`."""
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    if not words or words[0] not in COMMANDS:
        return "handoff"
    return " ".join(words[:2] if words[1:2] == ["prune"] else words[:1])


def _describe_os_error(error: OSError) -> str:
    from tasuki.files import FULL, explain_error, get_data_folder

    reason = explain_error(error)
    if error.filename:
        return f"{error.filename}: {reason}."
    if isinstance(error, FileNotFoundError):
        return f"{reason}: does the current folder still exist?"
    import traceback

    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    modules = [frame.f_globals.get("__name__", "") for frame in frames[-2:]]
    if any(name.startswith(_PRINTING_MODULES) for name in modules):
        return f"The output could not be written: {reason}."
    try:
        advice, folder = "or name another one: TASUKI_DATA=/some/folder", get_data_folder()
        advice = f"{'Free some space in' if error.errno in FULL else 'Look at'} {folder}, {advice}"
        if error.errno in (errno.ENOLCK, errno.ESTALE):
            advice = f"Name a folder on this machine instead of {folder}: TASUKI_DATA=/some/folder"
    except TasukiError as unknown:
        advice = str(unknown)
    return f"A file that tasuki uses could not be read or written: {reason}. {advice}"


_PRINTING_MODULES = ("click.", "rich.", "textual.", "tasuki.cli.", "tasuki.session.chat.")
"""Modules that print."""


def _keep_traceback(error: Exception) -> str:
    """Return a sentence on a defect of tasuki; write its traceback into a file.

    The file is for the user alone, without secrets.
    """
    import tempfile
    import traceback

    from tasuki.cli.version import describe_version
    from tasuki.draft.redact.redactor import redact
    from tasuki.files import get_data_folder

    if os.environ.get("TASUKI_TRACEBACK"):
        traceback.print_exception(error)
    sentence = f"This is a defect of tasuki: {type(error).__name__}: {shorten_to_line(redact(str(error))[0], 300)}."
    try:
        folder = get_data_folder() / "defects"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        number, path = tempfile.mkstemp(prefix="defect-", suffix=".txt", dir=folder)
        with os.fdopen(number, "w", errors="backslashreplace") as file:
            file.write(
                f"tasuki {describe_version()}\n{redact(''.join(traceback.format_exception(error)))[0]}"
            )
    except (OSError, ValueError, TasukiError) as failed:
        reason = getattr(failed, "strerror", None) or str(failed).rstrip(".")
        return (
            f"{sentence} Its traceback could not be kept ({reason}); TASUKI_TRACEBACK=1 prints it."
        )
    safe = " Threads are never written to." if _find_command() in _THREAD_COMMANDS else ""
    return f"{sentence}{safe} Please report it with {path}"


def _prepare_streams() -> None:
    """Prepare the streams: none missing, and no character that cannot be printed.

    A stream that the caller closed would be None here, and its number would go to the next
    opened file. An order to end becomes an exit, so that files and terminals are restored.
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
            signal.signal(order, lambda number, _: sys.exit(128 + number))


def _silence_stdout() -> None:
    """Keep the interpreter from complaining again about a closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
