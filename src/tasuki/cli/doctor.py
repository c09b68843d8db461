"""`tasuki doctor`: what works with each harness, and what mends the rest."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from tasuki.cli.printing import print_json, wrapped
from tasuki.config import tilde
from tasuki.doctor import Examined, FleetState, Problem, Report, examine, install_line
from tasuki.plain import shown

WIDTH = 78
LABEL = 11


@click.command()
@click.argument("names", nargs=-1, metavar="[HARNESS]...")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def doctor(names: tuple[str, ...], as_json: bool) -> int:
    """Say what works with each harness here, and the one line that mends what does not.

    Looks for the program, its version and threads, for what `tasuki install` added, and for tmux.
    Where agents run in a fleet: for their hooks, the script that these run, and curl.
    Starts nothing but the programs' own --version. The exit code is 1 if something is broken.
    """
    report = examine(names)
    if as_json:
        _print_json(report)
    else:
        for line in _lines(report, named=bool(names)):
            click.echo(shown(line))
    return int(report.broken)


def _print_json(report: Report) -> None:
    import msgspec

    document = msgspec.to_builtins(report)
    print_json({"broken": report.broken, **document})


def _lines(report: Report, *, named: bool) -> Iterator[str]:
    yield f"tasuki {report.tasuki}"
    yield from _row("command", tilde_words(report.command))
    yield from _row("data", tilde_words(report.data))
    yield from _row(
        "tmux", report.tmux or "not found: a handoff inside an agent is kept, not shown"
    )
    extras = [name for name, there in report.extras.items() if there]
    lacking = [name for name, there in report.extras.items() if not there]
    text = f"{', '.join(extras) or 'none'}"
    yield from _row("extras", text + (f"; not installed: {', '.join(lacking)}" if lacking else ""))
    if report.fleet:
        yield from _row("fleet", _fleet(report.fleet))
    yield from _problems(report.problems)
    shown_ones = [h for h in report.harnesses if named or h.here]
    for harness in shown_ones:
        yield ""
        yield from _harness(harness, fleet=report.fleet is not None)
    if absent := [h.title for h in report.harnesses if h not in shown_ones]:
        yield ""
        yield from textwrap.wrap(f"Not here: {', '.join(absent)}.", WIDTH)


def _fleet(state: FleetState) -> str:
    waiting = f"; {state.waiting:,} events wait for it: tasuki serve" if state.waiting else ""
    return f"the hooks' script is {state.script}{waiting}"


def _harness(harness: Examined, *, fleet: bool) -> Iterator[str]:
    yield harness.title
    yield from _row("program", _program(harness))
    threads = harness.threads
    newest = "the newest can be read" if threads.readable else "the newest cannot be read"
    yield from _row("threads", f"{threads.count:,}, {newest}" if threads.count else "none yet")
    yield from _row("successor", _successor(harness))
    if harness.command:
        yield from _row("inside", _inside(harness))
    if fleet and harness.fleet:
        yield from _row("fleet", _agents(harness))
    yield from _problems(harness.problems)


def _program(harness: Examined) -> str:
    if not harness.program:
        how = install_line(harness)
        return f"not found{f'. Install it: {how}' if how else ''}"
    version = "of unknown version" if harness.version == "?" else harness.version
    tested = ""
    if harness.tested and harness.tested != harness.version:
        tested = f" (tested with {harness.tested})"
    return f"{version}{tested}, {tilde_words(harness.program)}"


def _successor(harness: Examined) -> str:
    if harness.can_start:
        how = "as its filled-in input" if harness.can_prefill else "pasted into its input"
        return f"can be started; the brief stands unsent, {how}"
    return "cannot be started: there is no program" if harness.tested else "read only"


def _inside(harness: Examined) -> str:
    if not harness.parts:
        return "cannot be told: one of its files cannot be read"
    if not harness.installed:
        return f"nothing yet. To hand off inside it: tasuki install {harness.name}"
    there = [part for part in harness.parts if part.state in ("there", "replace")]
    own = [part for part in harness.parts if part.state == "foreign"]
    more = f"; yours: {', '.join(part.what for part in own)}" if own else ""
    return f"{harness.command} ({len(there)} of {len(harness.parts)} parts{more})"


def _agents(harness: Examined) -> str:
    there = sum(part.state in ("there", "replace") for part in harness.fleet)
    if not there:
        return f"its agents are not seen. To see them: tasuki install {harness.name} --fleet"
    return f"its agents are seen ({there} of {len(harness.fleet)} parts)"


def _problems(problems: tuple[Problem, ...]) -> Iterator[str]:
    for problem in problems:
        yield from wrapped(problem.what, WIDTH, "  ! ", "    ")
        if problem.mend:
            yield from wrapped(problem.mend, WIDTH, "    → ", "      ")


def _row(label: str, text: str) -> list[str]:
    return wrapped(text, WIDTH, f"  {label:<{LABEL}}", " " * (LABEL + 2))


def tilde_words(text: str) -> str:
    """A path, or a command with paths, with `~` for the home folder."""
    return " ".join(tilde(Path(word)) if word.startswith("/") else word for word in text.split(" "))
