"""`tasuki start`: start the successor of a handoff that was kept."""

import sys
from typing import TYPE_CHECKING

import click

from tasuki.cli.handoff import AfterDashes, name_of_harness, read_text

if TYPE_CHECKING:
    from tasuki.handoffs import Offer


@click.command(cls=AfterDashes)
@click.argument("id")
@click.option("--to", metavar="HARNESS", callback=name_of_harness,
              help="Harness of the successor. Default: the handoff's.")  # fmt: skip
@click.option("--yes", "-y", is_flag=True, help="Start without a review.")
@click.option("--editor", is_flag=True, help="Review in $VISUAL or $EDITOR.")
@click.option(
    "--send", is_flag=True, help="Send the first prompt at once instead of filling it in."
)
@click.option("--tmux", is_flag=True, help="Start in a new tmux window.")
@click.option("--model", metavar="MODEL", help="Model of the successor, as its harness names it.")
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
    help="Take an edited brief over first, - for standard input.",
)
@click.pass_context
def start(
    ctx: click.Context,
    id: str,
    to: str | None,
    yes: bool,
    editor: bool,
    send: bool,
    tmux: bool,
    model: str | None,
    force: bool,
    prepare: bool,
    brief_file: str | None,
) -> int:
    """Start the successor of a handoff that was kept: a saved draft, or one that an agent made.

    ID is the handoff's id or its beginning. The brief is shown for review first, as `tasuki handoff`
    shows it. Everything after -- goes to the successor's program.
    """
    from pathlib import Path

    from tasuki import config, handoffs
    from tasuki.cli.starting import Starting, revise
    from tasuki.errors import UsageError
    from tasuki.harness import plans
    from tasuki.vault import Vault

    settings = config.load(Path.cwd())
    offer = handoffs.kept(Vault(), id, to or "")
    if not offer.successor.can_start:
        plans.none(offer.successor.title)
    if brief_file is not None:
        text = read_text(brief_file, "brief")
        if not text.strip():
            raise UsageError("The brief is empty. Nothing was started; the draft is as it was.")
        revise(offer, text, force=force)
    if prepare:
        return _prepared(offer)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not (terminal or (yes and tmux)):
        raise click.UsageError(
            "There is no terminal to start it in. In tmux: --tmux --yes. "
            f"The brief alone: tasuki show {offer.handoff.id[:8]} --brief"
        )
    starting = Starting(
        yes=yes,
        editor=editor,
        send=send,
        tmux=tmux,
        model=model or "",
        force=force,
        budget=settings.budget,
        arguments=ctx.meta["arguments"],
    )
    return starting.review_and_start(offer)


def _prepared(offer: "Offer") -> int:
    """Write what the successor needs, for the program that opens it; the exit code."""
    from tasuki import handoffs
    from tasuki.cli.printing import print_json
    from tasuki.cli.starting import tell

    plan = handoffs.prepare(offer, tell)
    print_json({"id": offer.handoff.id, "thread": plan.thread_path, "text": plan.paste})
    return 0
