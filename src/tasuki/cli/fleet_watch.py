"""The steps of a handoff as they happen, and the list of handoffs: what the fleet's commands show."""

import queue
import shutil
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

import click

from tasuki.cli.fleet_client import Client
from tasuki.cli.printing import print_json, table
from tasuki.cli.threads import age
from tasuki.errors import ServerAway, TasukiError
from tasuki.plain import one_line

LOOK_SECONDS = 1.0
"""How often a handoff is asked for where no event tells of it."""
AWAY_SECONDS = 120.0
"""How long a server that is away is waited for."""
INTERRUPTED = 130
_SIGNS = {"ok": "✓", "failed": "✗", "skipped": "–", "": "…"}


def watched(server: Client, id: str, *, as_json: bool = False) -> int:
    """Show the steps of a handoff until it ends; 0 once it is done, 1 where it is not.

    A server that is killed meanwhile is waited for. With `as_json` the handoff is printed at the end.
    """
    steps = _Steps()
    news = _news(server, id)
    try:
        while True:
            found = server.patiently("handoffs", id, seconds=AWAY_SECONDS, away=_say_away)
            if not as_json:
                steps.show(found["steps"])
            if found["state"] != "running":
                break
            _next(news)
    except KeyboardInterrupt:
        click.echo(
            "\nThe handoff goes on. Its steps: tasuki handoffs --agents. "
            f"To end it: tasuki agent cancel {id[:8]}",
            err=True,
        )
        return INTERRUPTED
    if as_json:
        print_json({"handoff": found})
    else:
        steps.end()
        _show_end(found)
    return 0 if found["state"] == "done" else 1


def _news(server: Client, id: str) -> "queue.Queue[None]":
    """Gets an item whenever an event tells of the handoff."""
    news: queue.Queue[None] = queue.Queue()

    def listen() -> None:
        while True:
            try:
                for event in server.events():
                    if event.get("handoff_id") == id:
                        news.put(None)
            except TasukiError:
                pass
            time.sleep(LOOK_SECONDS)

    threading.Thread(target=listen, name="events", daemon=True).start()
    return news


def _next(news: "queue.Queue[None]") -> None:
    """Wait for news, or for the time of another look."""
    try:
        news.get(timeout=LOOK_SECONDS)
        while True:
            news.get_nowait()
    except queue.Empty:
        pass


class _Steps:
    """Prints the steps of a handoff as they end; on a terminal the one that runs stands below them."""

    def __init__(self) -> None:
        self._shown: set[tuple[str, ...]] = set()
        self._is_terminal = sys.stdout.isatty()

    def show(self, runs: Iterable[dict[str, Any]]) -> None:
        """Print what is new."""
        for run in runs:
            outcome, note = run["outcome"], one_line(run["note"], 300)
            key = (run["step"], str(run["attempt"]), outcome, "" if outcome else note)
            if key in self._shown or not (outcome or note or self._is_terminal):
                continue
            self._shown.add(key)
            took = f"{run['ended_at'] - run['started_at']:.1f} s" if run["ended_at"] else ""
            line = f"{_SIGNS.get(outcome, '?')} {run['step']:<12} {took:>8}  {note}".rstrip()
            if outcome or not self._is_terminal:
                self._print(line)
            else:
                self._print(line[: shutil.get_terminal_size().columns - 1])
                click.echo("\x1b[1A", nl=False)  # the next line takes its place

    def end(self) -> None:
        """Nothing more comes."""
        self._print("", nl=False)

    def _print(self, line: str, *, nl: bool = True) -> None:
        clear = "\r\x1b[J" if self._is_terminal else ""
        click.echo(f"{clear}{line}", nl=nl)


def _show_end(found: dict[str, Any]) -> None:
    id, state = found["id"][:8], found["state"]
    if state == "done":
        click.echo(f"Handoff {id} is done: agent {found['successor_id']} works on.")
        for note in found["notes"]:
            click.echo(f"  {one_line(note, 500)}", err=True)
        return
    click.echo(
        f"Handoff {id} {'is' if state == 'cancelled' else 'has'} {state} at {found['step']}.",
        err=True,
    )
    if failure := found["failure"]:
        click.echo(f"{one_line(failure['sentence'], 1000)}", err=True)
        click.echo(f"{one_line(failure['remedy'], 1000)}", err=True)
        click.echo(f"  tasuki agent retry {id} | cancel {id} | finish {id}", err=True)


def _say_away(error: ServerAway) -> None:
    click.echo(f"{error}\nWaiting for it; the handoff is carried on then.", err=True)


def print_handoffs(found: list[dict[str, Any]]) -> None:
    """A table of the fleet's handoffs, a failure under its line."""
    titles = ("id", "age", "state", "step", "agent", "persona", "reason")
    title, *lines = table(titles, list(map(_row, found)), right=(1,))
    click.echo(title)
    for of, line in zip(found, lines, strict=True):
        click.echo(line)
        for said in _failure(of):
            click.echo(f"    {said}")


def await_handoffs(server: Client, found: list[dict[str, Any]]) -> None:
    """Wait until the handoffs of some lost agents are no longer under way; each is put in as it is then."""
    for one in found:
        while one["handoff"] and one["handoff"]["state"] == "running":
            id = one["handoff"]["id"]
            one["handoff"] = server.patiently("handoffs", id, seconds=AWAY_SECONDS, away=_say_away)
            if one["handoff"]["state"] == "running":
                time.sleep(LOOK_SECONDS)


def print_recovery(found: list[dict[str, Any]]) -> None:
    """A line for each lost agent: what carries it on, or why nothing does."""
    if not found:
        click.echo("No agent is lost that nobody succeeded.", err=True)
    for one in found:
        of, made = one["agent"], one["handoff"]
        name = f"Agent {of['id']} ({one_line(of['persona'], 80)})"
        if one["refused"]:
            click.echo(f"{name}: refused. {one_line(one['refused'], 500)}")
        elif made is None:
            how = f"by handoff {one['retried'][:8]}" if one["retried"] else "from its thread"
            click.echo(f"{name}: can be carried on {how}.")
        elif made["state"] == "running":
            click.echo(f"{name}: handoff {made['id'][:8]} is under way.")
        elif made["state"] == "done":
            click.echo(
                f"{name}: handoff {made['id'][:8]} is done, agent {made['successor_id']} works on."
            )
        else:
            said = " ".join(_failure(made))
            click.echo(
                f"{name}: handoff {made['id'][:8]} {made['state']} at {made['step']}. {said}"
            )


def _failure(of: dict[str, Any]) -> Iterable[str]:
    if failure := of["failure"]:
        yield one_line(failure["sentence"], 500)
        yield one_line(failure["remedy"], 500)


def _row(of: dict[str, Any]) -> tuple[str, ...]:
    successor = f" → {of['successor_id']}" if of["successor_id"] is not None else ""
    return (
        of["id"][:8], age(time.time() - of["created_at"]), of["state"], of["step"],
        f"{of['agent_id']}{successor}", one_line(of["persona"], 80), one_line(of["reason"], 200),
    )  # fmt: skip
