"""`tasuki handoff`, from a thread and a goal to a started successor, and `tasuki start`."""

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tasuki.cli.completions import complete_handoff, complete_program, complete_source
from tasuki.errors import HandoffNotFound, UsageError

if TYPE_CHECKING:
    from tasuki.vault import Vault

MOST_TEXT_BYTES = 4 << 20
"""Most bytes of a goal or a brief; a device would never end."""
EPILOG = """
\b
Examples:
  tasuki handoff "add retries to the upload client and test them"
  tasuki handoff --from codex --to claude "make the flaky test deterministic"
  tasuki handoff --print "document the API" > brief.md
"""


def check_harness_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check the value of `--to`; an empty one is a mistake, not the default."""
    if value is not None and not value.strip():
        raise click.UsageError("--to is empty. Name a harness, or leave --to out.", ctx)
    return value


DASH_ADVICE = (
    "A goal that begins with a dash: tasuki handoff -- '-1 is returned …', "
    "or from standard input: --goal-file -"
)


def _has_words(word: str) -> bool:
    """Tell whether an argument is a sentence, and not an option with a value."""
    return len(word.partition("=")[0].split()) > 1


def add_start_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options for the start of a successor."""
    for option in (
        click.option("--tmux", is_flag=True, help="Start in a new tmux window."),
        click.option(
            "--send", is_flag=True, help="Send the first prompt at once instead of filling it in."
        ),
        click.option("--editor", is_flag=True, help="Review in $VISUAL or $EDITOR."),
        click.option("--yes", "-y", is_flag=True, help="Start without a review."),
    ):
        function = option(function)
    return function


MODEL_OPTION = click.option(
    "--model", metavar="MODEL", help="Model of the successor, as its harness names it."
)


class AfterDashesCommand(click.Command):
    """A command whose arguments after `--` belong to the successor's program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        index = args.index("--") if "--" in args else len(args)
        ctx.meta["arguments"] = tuple(args[index + 1 :])
        try:
            return super().parse_args(ctx, args[:index])
        except click.NoSuchOption as error:
            if any(word.startswith("-") and _has_words(word) for word in args):
                raise click.UsageError(f"{error.message} {DASH_ADVICE}", ctx) from error
            raise

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- ARGUMENTS...]"]


@click.command(cls=AfterDashesCommand, epilog=EPILOG)
@click.argument("goal", required=False)
@click.argument("more", nargs=-1, metavar="")
@click.option(
    "--goal-file",
    type=click.Path(allow_dash=True),
    help="Read the goal from a file, - for standard input.",
)
@click.option(
    "--from",
    "source",
    default="",
    metavar="THREAD",
    shell_complete=complete_source,
    help="Path, id or its beginning, harness, or @N. Default: @1, the newest thread here.",
)
@click.option(
    "--to", metavar="HARNESS", callback=check_harness_name, shell_complete=complete_program,
    help="Harness of the successor.  [default: from the setting `to`, else the predecessor's]",
)  # fmt: skip
@click.option(
    "--author",
    type=click.Choice(["offline", "model", "agent"]),
    help="Who writes: offline uses facts and quotes alone, model asks a language model, agent asks "
    "the thread's own agent in a fork. If one fails, the next simpler one writes.  "
    "[default: from the setting `author`]",
)
@click.option(
    "--author-model",
    metavar="PROVIDER/MODEL",
    help="Model that writes, with --author model.  [default: from the setting `model`]",
)
@click.option(
    "--strict", is_flag=True, default=None, help="Fail if the author fails, with its reason."
)
@click.option(
    "--budget",
    type=int,
    metavar="TOKENS",
    help="Limit of the brief without the goal.  [default: from the setting `budget`]",
)
@click.option("--print", "printed", is_flag=True, help="Print the brief, start nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, start nothing.")
@add_start_options
@click.option(
    "--copy", "copied", is_flag=True, help="Put the brief on the clipboard, start nothing."
)
@MODEL_OPTION
@click.option("--force", is_flag=True, help="Accept a vague goal, and a goal that holds a secret.")
@click.option(
    "--no-fleet",
    is_flag=True,
    help="Inside an agent of the fleet: start a successor that the fleet does not know.",
)
@click.pass_context
def handoff(
    ctx: click.Context,
    /,
    goal: str | None,
    more: tuple[str, ...],
    goal_file: str | None,
    source: str,
    **flags: Any,
) -> int:
    """Hand a thread's work to a fresh one.

    GOAL says what the next thread should accomplish; it is at the end of the brief, verbatim.
    Everything after -- goes to the successor's program, except a goal that starts with a dash.

    In a terminal the draft is shown for review and the successor starts with it filled in, not yet
    sent. Without a terminal the brief is printed and nothing is started.

    Inside an agent of the fleet, the fleet hands that agent off with the goal: `tasuki agent handoff`.
    """
    gc.disable()  # A thread is one large, acyclic, short-lived graph.
    from tasuki.cli.handoff.run import HandoffCommand

    arguments = ctx.meta["arguments"]
    if goal is goal_file is None and len(arguments) == 1 and _has_words(arguments[0]):
        (goal,), arguments = arguments, ()
    elif goal is goal_file is None and arguments and not sys.stdin.isatty():
        raise click.UsageError(
            f"There is no goal; what is behind -- goes to the successor's program. {DASH_ADVICE}"
        )
    if more:
        raise click.UsageError(f'Put the goal in quotes: tasuki handoff "{goal} {more[0]} …"')
    if goal_file is not None:
        if goal is not None:
            raise click.UsageError("Give the goal, or a file with it, not both.")
        goal = read_text(goal_file, "goal")
    return HandoffCommand(source, arguments, **flags).run(goal)


@click.command(cls=AfterDashesCommand)
@click.argument("id", required=False, shell_complete=complete_handoff)
@click.option("--to", metavar="HARNESS", callback=check_harness_name, shell_complete=complete_program,
              help="Harness of the successor. Default: the handoff's.")  # fmt: skip
@add_start_options
@MODEL_OPTION
@click.option("--force", is_flag=True, help="Accept a goal that holds a secret.")
@click.option(
    "--prepare",
    is_flag=True,
    help="Write the successor's session file, print where it is as JSON, start nothing (pi, omp).",
)
@click.option(
    "--brief-file",
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="Apply an edited brief first, - for standard input.",
)
@click.pass_context
def start(
    ctx: click.Context,
    /,
    id: str | None,
    to: str | None,
    prepare: bool,
    brief_file: str | None,
    **flags: Any,
) -> int:
    """Start the successor of a stored handoff: a saved draft, or one that an agent made.

    ID is the handoff's id or its beginning. Without it, the newest draft that was never started is
    taken. The brief is shown for review first, as `tasuki handoff` shows it. Everything after -- goes to the successor's program.
    """
    from tasuki import handoffs
    from tasuki.cli.handoff.review import StartOptions, print_message, revise
    from tasuki.cli.output import print_json
    from tasuki.config import settings as config
    from tasuki.harness import plans
    from tasuki.vault import Vault

    settings = config.load_settings(Path.cwd())
    vault = Vault()
    prepared = handoffs.load_handoff(vault, id or _choose_draft(vault), to or "")
    if not prepared.successor.can_start:
        plans.refuse_start(prepared.successor.title)
    if brief_file is not None:
        text = read_text(brief_file, "brief")
        if not text.strip():
            raise UsageError("The brief is empty. Nothing was started; the draft is as it was.")
        revise(prepared, text, force=flags["force"])
    if prepare:  # For the program that opens the file.
        plan = handoffs.prepare_session_file(prepared, print_message)
        print_json({"id": prepared.handoff.id, "thread": plan.thread_path, "text": plan.paste})
        return 0
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not (terminal or (flags["yes"] and flags["tmux"])):
        raise click.UsageError(
            "There is no terminal to start it in. Inside tmux, use --tmux --yes. "
            f"The brief alone: tasuki show {prepared.handoff.id[:8]} --brief"
        )
    options = StartOptions(**flags, budget=settings.budget, arguments=ctx.meta["arguments"])
    return options.review_and_start(prepared)


def _choose_draft(vault: "Vault") -> str:
    """Choose the newest draft whose work was never started, and say which; return its id."""
    from tasuki.cli.handoff.review import print_message
    from tasuki.model import Handoff

    drafts = list[Handoff]()
    begun = set[tuple[str, str]]()
    for handoff in vault.list_handoffs():
        if vault.load_state(handoff.id) == "draft":
            drafts.append(handoff)
        else:
            begun.add((handoff.predecessor.thread_id, handoff.goal.text))
    for handoff in drafts:
        if (handoff.predecessor.thread_id, handoff.goal.text) not in begun:
            print_message(f"The newest draft is {handoff.id[:8]}: {handoff.goal.shown}")
            return handoff.id
    raise HandoffNotFound(
        'No draft waits to be started. Make one: tasuki handoff "what comes next". '
        "Start another one again: tasuki start ID; their ids: tasuki handoffs"
    )


def read_text(name: str, noun: str) -> str:
    """Read a goal or a brief from a file, `-` for standard input. Raises UsageError."""
    try:
        with click.open_file(name, "rb") as file:
            data: bytes = file.read(MOST_TEXT_BYTES + 1)
    except OSError as error:
        raise UsageError(f"Cannot read the {noun} from {name}: {error.strerror}.") from error
    if len(data) > MOST_TEXT_BYTES:
        raise UsageError(f"{name} is larger than {MOST_TEXT_BYTES >> 20} MB; that is no {noun}.")
    try:
        return data.decode().rstrip("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 text; the {noun} is kept verbatim.") from error
