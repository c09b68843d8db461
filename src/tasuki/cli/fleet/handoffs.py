"""The fleet's handoffs for the commands: their steps as they happen, their list, and what is stored.

The stored ones are read with the server or without it.
"""

import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from tasuki.cli.fleet.client import FleetClient
from tasuki.cli.output import format_age, format_table, print_json
from tasuki.errors import Refused, ServerAway, StoreFailed, TasukiError
from tasuki.files import get_data_folder
from tasuki.fleet.membership import URL_FILE
from tasuki.text_safety import format_plural, shorten_to_line
from tasuki.vault.fleet_records import FleetRecord, build_fleet_records, read_fleet_file

LOOK_SECONDS = 1.0
"""How often a handoff is requested where no event reports it."""
INTERRUPTED_CODE = 130
ORDERS = ("retry", "skip", "finish", "cancel")
"""What an operator can order about a handoff that failed, as `tasuki agent` and its advice name it."""
_SIGNS = {"ok": "✓", "failed": "✗", "skipped": "–", "": "…"}


def refuse_if_busy(record: dict[str, Any]) -> None:
    """Raise Refused while children run or a compaction does (D15): they would be cut off."""
    id = record["id"]
    if record["state"] == "compacting":
        raise Refused(f"Agent {id} compacts its context. Wait for that, or use --force.")
    if children := record["children"]:
        names = shorten_to_line("; ".join(children))
        still = format_plural(
            len(children), "sub-agent or background command", "sub-agents or background commands"
        )
        runs, them = ("still runs", "it") if len(children) == 1 else ("still run", "them")
        raise Refused(f"{still} of agent {id} {runs}: {names}. Wait for {them}, or use --force.")


def watch_handoff(server: FleetClient, handoff_id: str, *, as_json: bool = False) -> int:
    """Show the steps of a handoff until it ends; return 0 once it is done, else 1.

    A server that is killed meanwhile is waited for. With `as_json` the handoff is printed at
    the end.
    """
    steps = _StepPrinter()
    news = _listen_for_news(server, handoff_id)
    try:
        while True:
            record = server.await_server("handoffs", handoff_id)
            if not as_json:
                steps.show_steps(record["steps"])
            if record["state"] != "running":
                break
            with suppress(queue.Empty):
                news.get(timeout=LOOK_SECONDS)
                while True:
                    news.get_nowait()
    except KeyboardInterrupt:
        click.echo(
            "\nThe handoff continues. Its steps: tasuki handoffs --agents. "
            f"To end it: tasuki agent cancel {handoff_id[:8]}",
            err=True,
        )
        return INTERRUPTED_CODE
    is_done = record["state"] == "done"
    if as_json:
        print_json({"handoff": record})
    else:
        steps.end_line()
        id = record["id"][:8]
        if is_done:
            click.echo(f"Handoff {id} is done: agent {record['successor_id']} continues the work.")
            after = [f"  {shorten_to_line(note, 500)}" for note in record["notes"]]
        else:
            verb = "is" if record["state"] == "cancelled" else "has"
            ended = f"Handoff {id} {verb} {record['state']} at {record['step']}."
            after = [ended, *_format_failure(record)]
        for sentence in after:
            click.echo(sentence, err=True)
    return 0 if is_done else 1


def _listen_for_news(server: FleetClient, handoff_id: str) -> "queue.Queue[None]":
    """Return a queue that gets an item whenever an event concerns the handoff."""
    news: queue.Queue[None] = queue.Queue()

    def listen() -> None:
        while True:
            with suppress(TasukiError):
                for event in server.stream_events():
                    if event.get("handoff_id") == handoff_id:
                        news.put(None)
            time.sleep(LOOK_SECONDS)

    threading.Thread(target=listen, name="events", daemon=True).start()
    return news


class _StepPrinter:
    """Prints the steps of a handoff as they end; on a terminal the running one is below them."""

    def __init__(self) -> None:
        self._shown_keys: set[tuple[str, ...]] = set()
        self._is_terminal = sys.stdout.isatty()

    def show_steps(self, runs: Iterable[dict[str, Any]]) -> None:
        """Print the new steps."""
        for run in runs:
            outcome, note = run["outcome"], shorten_to_line(run["note"], 300)
            key = (run["step"], str(run["attempt"]), outcome, "" if outcome else note)
            if key in self._shown_keys or not (outcome or note or self._is_terminal):
                continue
            self._shown_keys.add(key)
            took = f"{run['ended_at'] - run['started_at']:.1f} s" if run["ended_at"] else ""
            line = f"{_SIGNS.get(outcome, '?')} {run['step']:<12} {took:>8}  {note}".rstrip()
            if outcome or not self._is_terminal:
                self._print(line)
            else:
                self._print(line[: shutil.get_terminal_size().columns - 1])
                click.echo("\x1b[1A", nl=False)  # the next line replaces it

    def end_line(self) -> None:
        """Clear the line of the running step: nothing more comes."""
        self._print("", nl=False)

    def _print(self, line: str, *, nl: bool = True) -> None:
        clear = "\r\x1b[J" if self._is_terminal else ""
        click.echo(f"{clear}{line}", nl=nl)


def format_handoffs(records: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table of the fleet's handoffs, a failure under its line."""
    titles = ("id", "age", "state", "step", "agent", "persona", "reason")
    title, *lines = format_table(titles, list(map(_build_row, records)), right=(1,))
    yield title
    for record, line in zip(records, lines, strict=True):
        yield line
        yield from (f"    {sentence}" for sentence in _format_failure(record))


def await_handoffs(server: FleetClient, records: list[dict[str, Any]]) -> None:
    """Wait until the handoffs of lost agents are no longer under way; update each record."""
    for one in records:
        while one["handoff"] and one["handoff"]["state"] == "running":
            one["handoff"] = server.await_server("handoffs", one["handoff"]["id"])
            if one["handoff"]["state"] == "running":
                time.sleep(LOOK_SECONDS)


def format_recovery(records: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each lost agent: what continues its work, or why nothing does."""
    for one in records:
        agent, handoff = one["agent"], one["handoff"]
        name = f"Agent {agent['id']} ({shorten_to_line(agent['persona'], 80)})"
        if one["refused"]:
            yield f"{name}: refused. {shorten_to_line(one['refused'], 500)}"
        elif handoff is None:
            way = f"by handoff {one['retried'][:8]}" if one["retried"] else "from its thread"
            yield f"{name}: can be recovered {way}."
        else:
            name, state = f"{name}: handoff {handoff['id'][:8]}", handoff["state"]
            if state == "running":
                yield f"{name} is under way."
            elif state == "done":
                yield f"{name} is done, agent {handoff['successor_id']} continues the work."
            else:
                failure = " ".join(_format_failure(handoff))
                yield f"{name} {state} at {handoff['step']}. {failure}"


def _format_failure(record: dict[str, Any]) -> Iterable[str]:
    """Format why a handoff failed, what to do, and the commands that this names.

    Of one that is over there is no advice, and of one that is done not even the failure.
    """
    failure, state = record["failure"], record["state"]
    if not failure or state == "done":
        return
    yield shorten_to_line(failure["sentence"], 1000)
    if state in ("failed", "uncertain"):
        remedy = shorten_to_line(failure["remedy"], 1000)
        yield remedy
        words = {word.strip(".,:;()") for word in remedy.lower().split()}
        if named := [f"{name} {record['id'][:8]}" for name in ORDERS if name in words]:
            yield f"tasuki agent {' | '.join(named)}"


def _build_row(record: dict[str, Any]) -> tuple[str, ...]:
    successor = f" → {record['successor_id']}" if record["successor_id"] is not None else ""
    return (
        record["id"][:8], format_age(time.time() - record["created_at"]), record["state"], record["step"],
        f"{record['agent_id']}{successor}", shorten_to_line(record["persona"], 80), shorten_to_line(record["reason"], 200),
    )  # fmt: skip


MOST_BYTES = 1 << 20
DAY_SECONDS = 86_400.0
RECENT_SECONDS = 3600.0
"""Seconds after which a document without a known handoff is no longer being written."""


class FleetHistory(Struct, frozen=True):
    """Handoffs of agents, oldest first.

    `problem` says why some may be missing; else it is empty.
    """

    records: tuple[FleetRecord, ...] = ()
    problem: str = ""


class PersonaDocument(Struct, frozen=True):
    """A handoff document in a persona's folder. `record` is its handoff, where that is known."""

    persona: str
    path: Path
    changed_at: float
    record: FleetRecord | None = None

    @property
    def created(self) -> str:
        """When it was written: UTC, ISO 8601 to the second."""
        return datetime.fromtimestamp(self.changed_at, UTC).isoformat(timespec="seconds")

    def read_text(self) -> str:
        """Read its text, at most 1 MiB; empty where it cannot be read, or is a link."""
        try:
            number = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(number, "rb") as file:
                return file.read(MOST_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""


_ASK_SERVER = "The fleet's handoffs are in a database that its server must be asked for. Start it: tasuki serve"


def read_fleet_history() -> FleetHistory:
    """Read the handoffs of the fleet's agents: from its server, else from its SQLite file."""
    folder = get_data_folder()
    if os.path.exists(folder / "fleet" / "address"):
        with suppress(ServerAway):  # Its database may be a file.
            client = FleetClient()
            handoffs = client.get_pages("handoffs")
            agents = client.get_pages("agents")
            return FleetHistory(tuple(build_fleet_records(handoffs, agents)))
    if os.path.exists(folder / "fleet" / URL_FILE):
        return FleetHistory(problem=_ASK_SERVER)
    try:
        records = tuple(read_fleet_file(folder / "fleet.db"))
    except StoreFailed as error:
        return FleetHistory(problem=str(error))
    if not records and _get_personas_folder().is_dir() and not (folder / "fleet.db").is_file():
        return FleetHistory(problem=_ASK_SERVER)
    return FleetHistory(records)


def find_documents(history: FleetHistory) -> list[PersonaDocument]:
    """Find the handoff documents of all personas, newest first. No link is followed."""
    by_path = {record.document: record for record in history.records if record.document}
    documents = []
    for path in _get_personas_folder().glob("*/handoffs/*.md"):
        if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
            continue
        persona = path.parent.parent.name
        documents.append(
            PersonaDocument(persona, path, path.stat().st_mtime, by_path.get(str(path)))
        )
    return sorted(documents, key=lambda document: (-document.changed_at, document.path))


def select_prunable_documents(
    documents: list[PersonaDocument], *, days: int, keep: int
) -> list[PersonaDocument]:
    """Select the documents that may be deleted, oldest first; the newest come in first.

    A document stays if its handoff is not over, or its successor works, or it was written just
    now.
    """
    before = time.time() - max(days * DAY_SECONDS, RECENT_SECONDS)
    prunable = [
        document
        for document in documents[keep:]
        if document.changed_at <= before and not (document.record and document.record.is_needed)
    ]
    return prunable[::-1]


def _get_personas_folder() -> Path:
    from tasuki.config import settings

    root = settings.find_fleet_root(settings.load_settings(Path.cwd()), get_data_folder())
    return root / "data" / "personas"
