"""`tasuki` alone: the threads of this folder, and an offer to hand off the newest."""

import sys
from pathlib import Path

import click

from tasuki.cli.output import get_width
from tasuki.cli.thread_list import find_heads, print_table
from tasuki.text_safety import wrap_text

SHOWN = 10
"""Threads that are listed."""


def offer_newest(ctx: click.Context) -> int:
    """List the newest threads of this folder, and hand off the first if a goal is given."""
    heads, are_some_unreadable = find_heads(None, None)
    if not heads:
        _explain_where_threads_are(are_some_unreadable)
        return 1 if are_some_unreadable else 0
    print_table(heads[:SHOWN])
    if len(heads) > SHOWN:
        click.echo(f"{len(heads) - SHOWN} more: tasuki threads --limit {len(heads)}", err=True)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        click.echo('To hand off @1: tasuki "what the next agent should do"', err=True)
        return 0
    question = "What should the next agent do? It continues @1. (Press Enter to quit.)"
    lines = "\n".join(wrap_text(question, get_width(100)))
    goal = click.prompt(lines, default="", show_default=False, prompt_suffix="\n> ", err=True)
    if not goal.strip():
        more = ' To hand off another one: tasuki --from @2 "…"' if len(heads) > 1 else ""
        click.echo(f"Nothing was started.{more}", err=True)
        return 0
    from tasuki.cli.handoff.command import handoff

    ctx.meta["arguments"] = ()
    code: int = ctx.invoke(handoff, goal=goal, source=heads[0].path)
    return code


def _explain_where_threads_are(are_some_unreadable: bool) -> None:
    from tasuki.harness import registry as harnesses
    from tasuki.threads import catalog

    if are_some_unreadable:
        text = f"No thread of {Path.cwd()} can be read."
    elif next(iter(catalog.list_heads(limit=1)), None):
        text = (
            f"There is no thread for {Path.cwd()}. Go to the folder of your project, or:\n"
            "  tasuki threads --all      list the threads of all folders\n"
            '  tasuki --from ID "GOAL"   hand off one of them'
        )
    else:
        titles = [harnesses.get_harness(name).title for name in harnesses.list_names()]
        text = (
            f"There is no thread on this machine. tasuki reads those of {', '.join(titles)}.\n"
            "Work with one of them in a project, then run tasuki there."
        )
    click.echo(f"{text}\nAll commands: tasuki --help", err=True)
