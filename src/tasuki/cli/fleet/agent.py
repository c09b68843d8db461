"""`tasuki agent`: agents of the fleet, from their start to their handoff."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tasuki.cli.completions import complete_program
from tasuki.cli.fleet.answer import answer
from tasuki.cli.fleet.changes import show_changes
from tasuki.cli.fleet.persona import create_client
from tasuki.cli.output import (
    JSON_OPTION,
    format_age,
    format_table,
    print_json,
    print_records,
    print_result,
    shorten_folder,
)
from tasuki.errors import NotPossible, ServerAway, UsageError
from tasuki.harness.reading.usage_limits import describe_reset
from tasuki.harness.registry import DEFAULT
from tasuki.text_safety import shorten_to_line

if TYPE_CHECKING:
    from tasuki.cli.fleet.client import FleetClient

NEXT_TO_REPOSITORY = ":next:"
"""The value of --worktree without a folder."""
ID_ARGUMENT = click.argument("id", type=int)
WATCH_OPTION = click.option(
    "--watch", is_flag=True, help="Show the steps until the end; exit code 1 on a failure."
)


@click.group()
def agent() -> None:
    """Start agents of the fleet in tmux, talk to them, hand them off.

    The server must be running: tasuki serve. It sees agents by the hooks of: tasuki install HARNESS --fleet
    """


agent.add_command(answer)
agent.add_command(show_changes)


@agent.command()
@ID_ARGUMENT
@click.option("--for", "span", default="", metavar="SPAN",
              help="30m, 1h, 2d or tomorrow. Default: until you unmute it.")  # fmt: skip
@click.option("--off", is_flag=True, help="Unmute it.")
@JSON_OPTION
def mute(id: int, span: str, off: bool, as_json: bool) -> None:
    """Mute an agent: its alerts are listed but notify nobody.

    It still counts among those that need you.
    """
    if span and off:
        raise UsageError("Give either --for or --off.")
    muted = create_client().post("agents", id, "mute", body={"for": "off" if off else span})
    sentence = f"Agent {id} is {muted['muted'] or 'no longer muted'}."
    print_result(as_json, {"agent": muted}, sentence)


@agent.command()
@click.option("--persona", default="", metavar="SLUG", help="Persona it works as.")
@click.option("--harness", default="", metavar="H", shell_complete=complete_program,
              help="Harness to run: claude, codex, pi, … Default: the persona's.")  # fmt: skip
@click.option("--cwd", default="", metavar="DIR", help="Folder to work in; default: this one.")
@click.option("--model", default="", metavar="M", help="Model, as the harness names it.")
@click.option(
    "--permission", default="", metavar="MODE", help="Permission mode, as the harness names it."
)
@click.option("--goal", default="", metavar="TEXT", help="Its first prompt.")
@click.option("--on", "on_host", default="", metavar="HOST",
              help="Host to run on. Default: this one. --cwd is then a folder there.")  # fmt: skip
@JSON_OPTION
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]")
def start(as_json: bool, arguments: tuple[str, ...], **values: str) -> None:
    """Start an agent in a new window of the tmux session `tasuki`.

    ARGS are passed on to the program.
    """
    cwd, on_host = values.pop("cwd"), values.pop("on_host")
    if on_host and not os.path.isabs(cwd):
        raise UsageError("Name a folder of that host, whole path: --cwd")
    folder = cwd if on_host else os.path.abspath(cwd or os.getcwd())
    body = {**values, "cwd": folder, "arguments": list(arguments), "host": on_host}
    started = create_client().post("agents", body=body)
    id, name = started["id"], _format_name(started)
    look = f"Look at it: tasuki agent attach {id}"
    print_result(as_json, {"agent": started}, f"Agent {id} ({name}) was started. {look}")


@agent.command("list")
@click.option("--all", "everything", is_flag=True, help="Include those that have ended.")
@click.option("--persona", default="", metavar="SLUG", help="Only those of one persona.")
@click.option("--host", default="", metavar="HOST", help="Only those of one host.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=30, show_default=True, help="How many."
)
@JSON_OPTION
def list_agents(everything: bool, persona: str, host: str, limit: int, as_json: bool) -> None:
    """List the agents of every host, the newest first."""
    ended = None if everything else False
    server = create_client()
    records = server.get_pages(
        "agents", limit, ended=ended, persona=persona or None, host=host or None
    )
    more = "" if everything else " (Those that ended: tasuki agent list --all.)"
    empty = f"No agents.{more} Start one: tasuki agent start --persona SLUG"
    print_records(as_json, "agents", records, _build_table(server, records), empty)


def _build_table(server: "FleetClient", records: list[dict[str, Any]]) -> Iterator[str]:
    hosts = server.get("hosts")["hosts"]
    labels: dict[str, str] = {}
    if len(hosts) > 1 or len({one["host"] for one in records}) > 1:
        for one in hosts:
            away = "" if one["state"] in ("here", "alive") else f" ({one['state']})"
            labels[one["id"]] = shorten_to_line(one["label"]) + away
    titles = ("id", "state", "since", "persona", "harness", "context", "host", "pane", "folder")
    rows = [_build_row(one, labels.get(one["host"], "")) for one in records]
    yield from format_table(titles, rows, right=(0, 2, 5))


@agent.command()
@ID_ARGUMENT
@JSON_OPTION
def show(id: int, as_json: bool) -> None:
    """Show what an agent does, where it runs, and its handoffs."""
    record = create_client().get("agents", id)
    print_result(as_json, {"agent": record}, _describe_agent(record))


def _describe_agent(record: dict[str, Any]) -> Iterator[str]:
    waiting = f", for: {shorten_to_line(record['waiting_for'])}" if record["waiting_for"] else ""
    ended = f": {shorten_to_line(record['end_reason'])}" if record["end_reason"] else ""
    source = f" ({shorten_to_line(record['context_source'])})" if record["context_source"] else ""
    before, origin = record["previous_agent_id"], record["forked_from"]
    context, pane = _format_context(record), _format_pane(record)
    rows = [
        ("agent", f"{record['id']}, {_format_name(record)}"),
        ("state", f"{record['state']} for {format_age(time.time() - record['state_at'])}{waiting}{ended}"),
        ("alerts", shorten_to_line(record["muted"])), ("limit" if record["limit_text"] else "error", _format_failure(record)),
        ("stuck", shorten_to_line(record["stuck_with"]) if record["state"] == "stuck" else ""),
        ("context", f"{context}{source}" if context else ""),
        ("running", "; ".join(map(shorten_to_line, record["children"]))),
        ("host", shorten_to_line(record["host_label"]) if record["elsewhere"] else ""),
        ("folder", shorten_to_line(record["cwd"])), ("model", shorten_to_line(record["model"])),
        ("permission", shorten_to_line(record["permission"])), ("goal", shorten_to_line(record["goal"])),
        ("pane", f"{pane} in {shorten_to_line(record['window']) or 'tmux'}" if pane else ""),
        ("session", shorten_to_line(record["session"])), ("thread", shorten_to_line(record["thread"])),
        ("successor of", f"agent {before}" if before is not None else ""),
        ("fork of", f"agent {origin}" if origin is not None else ""),
    ]  # fmt: skip
    yield from (f"{name:<12} {value}" for name, value in rows if value)
    for one in record["handoffs"]:
        kind = "fork" if one["fork"] else "handoff"
        yield f"{kind:<12} {one['id'][:8]}, {one['state']} at {one['step']}"


@agent.command()
@ID_ARGUMENT
def attach(id: int) -> None:
    """Go to an agent's pane; C-b d comes back."""
    from tasuki.launch.tmux.panes import attach as go

    record = create_client().get("agents", id)
    if record["elsewhere"]:
        raise NotPossible(shorten_to_line(record["elsewhere"]))
    if record["ended_at"] is not None or not record["pane"]:
        why = (
            f"Agent {id} has ended."
            if record["ended_at"] is not None
            else "Agent has no tmux pane that tasuki knows."
        )
        raise NotPossible(f"{why} Details: tasuki agent show {id}")
    go(record["pane"], record["tmux"])


@agent.command()
@ID_ARGUMENT
@click.argument("text", nargs=-1, required=True, metavar="TEXT…|-")
@click.option("--key", metavar="KEY", help="With the same key, a text is typed only once.")
@JSON_OPTION
def send(id: int, text: tuple[str, ...], key: str | None, as_json: bool) -> int:
    """Type a text to an agent as a prompt.

    `-` reads standard input. Exit code 1 if nothing proves that the text arrived.
    """
    from secrets import token_hex

    words = sys.stdin.read() if text == ("-",) else " ".join(text)
    key = key or token_hex(8)
    try:
        result = create_client().post("agents", id, "send", body={"text": words}, key=key)
    except ServerAway as error:
        if not error.__cause__ or isinstance(error.__cause__, ConnectionRefusedError):
            raise  # the request did not reach it
        raise ServerAway(
            f"uncertain: the server stopped before it reported whether the text was typed. Repeat with --key {key}: "
            "it is not typed twice."
        ) from error
    why = shorten_to_line(result.get("why") or "")
    code = _print_proof(
        id, result, f"Agent {id}: {why}." if why else f"Agent {id} received it.", as_json=as_json
    )
    if result.get("leftover") and not as_json:
        click.echo(f"Unsent text in its input: {shorten_to_line(result['leftover'])}", err=True)
    return code


def _print_proof(id: int, result: dict[str, Any], proven: str, *, as_json: bool) -> int:
    """Print whether a text is proven to have arrived; return the exit code."""
    if as_json:
        print_json({"sent": result})
    elif result["state"] == "proven":
        click.echo(proven)
    else:
        why = result.get("why") or "nothing shows that it was taken, nor that it was not"
        sentence = f"{shorten_to_line(result['state'])}: {shorten_to_line(why)}."
        click.echo(f"{sentence} Look at it: tasuki agent attach {id}", err=True)
    return 0 if result["state"] == "proven" else 1


@agent.command()
@ID_ARGUMENT
@click.option("--force", is_flag=True, help="Try even before the limit resets.")
@JSON_OPTION
def resume(id: int, force: bool, as_json: bool) -> int:
    """Tell an agent to go on after its usage limit has reset.

    Exit code 1 if nothing proves that its turn began.
    """
    result = create_client().post("agents", id, "resume", body={"force": force})
    return _print_proof(id, result, f"Agent {id} goes on.", as_json=as_json)


@agent.command()
@ID_ARGUMENT
def stop(id: int) -> None:
    """End an agent.

    It gets its own exit command, and a signal only if it does not react.
    """
    result = create_client().post("agents", id, "stop")
    click.echo(f"Agent {id} ended: {shorten_to_line(result['end_reason']) or 'it is gone'}")


@agent.command()
@click.argument("pane")
@click.option(
    "--harness",
    default=DEFAULT,
    show_default=True,
    metavar="H",
    shell_complete=complete_program,
    help="Which harness runs there.",
)
@click.option("--persona", default="", metavar="SLUG", help="Persona it works as from now on.")
@click.option("--session", default="", metavar="ID", help="Id of its thread, if you know it.")
@JSON_OPTION
def adopt(as_json: bool, **values: str) -> None:
    """Adopt an agent that is already running in a tmux PANE: %3.

    The pane you are in: tmux display-message -p '#{pane_id}'
    """
    adopted = create_client().post("agents", "adopt", body=values)
    sentence = f"Agent {adopted['id']} ({_format_name(adopted)}) was adopted."
    print_result(as_json, {"agent": adopted}, sentence)


# -- handoffs --------------------------------------------------------------------------


@agent.command()
@ID_ARGUMENT
@click.option("--reason", required=True, metavar="TEXT", help="Why, in a few words.")
@click.option("--context", default="", metavar="TEXT", help="A note for its successor.")
@click.option(
    "--force", is_flag=True, help="Do not wait for its sub-agents and background commands."
)
@click.option("--from-thread", is_flag=True,
              help="Write the document from its thread: for an agent that is dead or at its limit.")  # fmt: skip
@click.option("--to", default="", metavar="H", shell_complete=complete_program,
              help="Harness of its successor. Default: its own.")  # fmt: skip
@click.option("--to-host", default="", metavar="HOST",
              help="Move to this host, with uncommitted work, thread and document.")  # fmt: skip
@click.option("--to-cwd", default="", metavar="DIR",
              help="Checkout to use there. Default: one that tasuki finds.")  # fmt: skip
@click.option("--worktree", default="", metavar="DIR",
              help="Folder for a new worktree there, if no clean checkout can be used.")  # fmt: skip
@click.option("--with-secrets", is_flag=True,
              help="Move uncommitted work even if it seems to hold a secret.")  # fmt: skip
@click.option("--dry-run", is_flag=True,
              help="With --to-host: only show what would happen and what stands in the way. Exit code 3 if it cannot begin.")  # fmt: skip
@WATCH_OPTION
@JSON_OPTION
def handoff(id: int, dry_run: bool, watch: bool, as_json: bool, **body: Any) -> int:
    """Hand an agent off to a fresh one of its persona, here or on another host.

    It writes a handoff document and ends, and its successor continues with the document. If it is at a
    usage limit, the document is written from its thread. Exit code 3 while sub-agents, background
    commands or a compaction run; --force goes ahead anyway.
    """
    from tasuki.cli.fleet.handoffs import refuse_if_busy

    server = create_client()
    body["from"] = "thread" if body.pop("from_thread") else "agent"
    if not (body["force"] or body["from"] == "thread" or dry_run):
        refuse_if_busy(server.get("agents", id))
    if dry_run:
        preview = server.post("agents", id, "handoff", body={**body, "dry_run": True})
        return _print_preview(id, preview, as_json=as_json)
    begun_handoff = server.post("agents", id, "handoff", body=body)
    sentence = (
        f"Handoff {begun_handoff['id'][:8]} of agent {id} ({_format_name(begun_handoff)}) begins."
    )
    return _finish_start(server, begun_handoff, sentence, watch=watch, as_json=as_json)


def _print_preview(id: int, preview: dict[str, Any], *, as_json: bool) -> int:
    """Print what a move would do; return 3 where it cannot begin."""
    plan, obstacles = preview["plan"], preview["obstacles"]
    is_refused = any(one["blocks"] for one in obstacles)
    if as_json:
        print_json({"move": preview})
        return 3 if is_refused else 0
    label = shorten_to_line(preview["label"])
    for one in sorted(obstacles, key=lambda one: not one["blocks"]):
        click.echo(f"{'obstacle' if one['blocks'] else 'note':<9} {shorten_to_line(one['text'])}")
    if is_refused:
        click.echo(f"Agent {id} cannot move to {label} now. Nothing was done.", err=True)
        return 3
    where = (
        "in place"
        if plan["in_place"]
        else f"on the new branch {shorten_to_line(plan['place_branch'])}"
    )
    folder = shorten_to_line(plan["folder"])
    click.echo(
        f"Agent {id} can move to {label}: {folder}{f', {where}' if plan['checkout'] else ''}."
    )
    return 0


@agent.command()
@ID_ARGUMENT
@click.option(
    "--goal", required=True, metavar="TEXT", help="What the second agent should accomplish."
)
@click.option("--persona", default="", metavar="SLUG",
              help="Persona of the second agent. Default: a new one like the first one's.")  # fmt: skip
@click.option("--worktree", metavar="[DIR]", is_flag=False, flag_value=NEXT_TO_REPOSITORY,
              help="Give it its own git worktree and branch, in DIR or beside the repository.")  # fmt: skip
@WATCH_OPTION
@JSON_OPTION
def fork(id: int, goal: str, persona: str, worktree: str | None, watch: bool, as_json: bool) -> int:
    """Start a second agent from an agent's thread. The first goes on undisturbed.

    Nothing is typed to the first. The second begins with a brief of that thread, made for the goal,
    and has its own persona. Uncommitted changes stay with the first.
    """
    from tasuki.config.settings import load_settings
    from tasuki.draft.goal import check_goal

    check_goal(goal, min_length=load_settings(Path.cwd()).min_goal_length)
    folder: str | bool = worktree is not None
    if worktree not in (None, NEXT_TO_REPOSITORY):
        folder = os.path.abspath(worktree)
    server = create_client()
    body = {"goal": goal, "persona": persona, "worktree": folder}
    begun_fork = server.post("agents", id, "fork", body=body)
    where = f" in {shorten_to_line(begun_fork['worktree'])}" if begun_fork["worktree"] else ""
    sentence = (
        f"Fork {begun_fork['id'][:8]} of agent {id} begins, as {_format_name(begun_fork)}{where}."
    )
    return _finish_start(server, begun_fork, sentence, watch=watch, as_json=as_json)


@agent.command()
@click.option("--reason", default="it was lost", show_default=True, metavar="TEXT",
              help="Why, in a few words.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="List them, start nothing.")
@click.option("--watch", is_flag=True, help="Wait for all of them; exit code 1 if one fails.")
@JSON_OPTION
def recover(reason: str, dry_run: bool, watch: bool, as_json: bool) -> int:
    """Continue the work of every lost agent, for example after a reboot.

    Each is handed off from its thread, a few at a time. An agent whose program still runs is refused.
    Exit code 1 if an agent cannot be recovered.
    """
    from tasuki.cli.fleet.handoffs import await_handoffs, format_recovery

    server = create_client()
    if dry_run:
        records = server.get("agents", "lost")["agents"]
    else:
        records = server.post("agents", "recover", body={"reason": reason})["agents"]
    if watch and not dry_run:
        await_handoffs(server, records)
    empty = "No lost agent is without a successor."
    print_records(as_json, "agents", records, format_recovery(records), empty)
    failed = any((one["handoff"] or {}).get("state") in ("failed", "uncertain") for one in records)
    return int(failed or any(one["refused"] for one in records))


def _finish_start(
    server: "FleetClient", begun: dict[str, Any], sentence: str, *, watch: bool, as_json: bool
) -> int:
    """Say that a handoff or a fork has begun, and watch it if wanted; return the exit code."""
    from tasuki.cli.fleet.handoffs import watch_handoff

    if watch:
        if not as_json:
            click.echo(sentence)
        return watch_handoff(server, begun["id"], as_json=as_json)
    print_result(as_json, {"handoff": begun}, sentence, "Its steps: tasuki handoffs --agents")
    return 0


@agent.command()
@click.argument("id", metavar="HANDOFF")
@WATCH_OPTION
def retry(id: str, watch: bool) -> int:
    """Continue a failed handoff. HANDOFF is its id or the start of it."""
    from tasuki.cli.fleet.handoffs import watch_handoff

    result = create_client().post("handoffs", id, "retry")
    click.echo(f"Handoff {result['id'][:8]} continues with {result['step']}.")
    return watch_handoff(create_client(), result["id"]) if watch else 0


def _add_order(name: str, sentence: str, help: str) -> None:
    """Add a command that sends an order about a handoff and says what became of it."""

    @agent.command(name, help=help)
    @click.argument("id", metavar="HANDOFF")
    def send_order(id: str) -> None:
        click.echo(sentence.format(**create_client().post("handoffs", id, name)))


_add_order("cancel", "Handoff {id:.8} is cancelled, at {step}.",
           "Cancel a handoff; finished steps are not undone.")  # fmt: skip
_add_order("finish", "Handoff {id:.8} is done.",
           "Mark a failed handoff as done.\n\nFor when you did the rest by hand, or saw that the prompt arrived.")  # fmt: skip
_add_order("skip", "Handoff {id:.8} is done, without acknowledgement.",
           "Finish a handoff without waiting for the acknowledgement.")  # fmt: skip


# -- formatting ------------------------------------------------------------------------


def _build_row(record: dict[str, Any], host: str) -> tuple[str, ...]:
    origin = f" (fork of {record['forked_from']})" if record["forked_from"] is not None else ""
    name = f"{shorten_to_line(record['persona'] or '-')}{origin}"
    return (
        str(record["id"]), _format_state(record), format_age(time.time() - record["state_at"]), name,
        shorten_to_line(record["harness"]), _format_context(record), host, _format_pane(record), shorten_folder(shorten_to_line(record["cwd"])),
    )  # fmt: skip


def _format_failure(record: dict[str, Any]) -> str:
    if not (failure := record["failure"]):
        return ""
    text, until = shorten_to_line(failure["text"]), describe_reset(failure["resets_at"])
    return f"{text} (resets at {until})" if until else text


def _format_state(record: dict[str, Any]) -> str:
    """Format a state; that of a usage limit with the time at which it resets."""
    until = describe_reset(record["limited_until"]) if record["state"] == "limited" else ""
    return f"limited until {until}" if until else str(record["state"])


def _format_name(record: dict[str, Any]) -> str:
    return shorten_to_line(record["persona"] or record["harness"])


def _format_context(record: dict[str, Any]) -> str:
    """Format how full the context is, as reported; empty where it is unknown."""
    if record["context_used"] is not None:
        return f"{record['context_used']:.0f} %"
    return "" if record["context_tokens"] is None else f"{record['context_tokens'] / 1000:.0f}k"


def _format_pane(record: dict[str, Any]) -> str:
    """Format the pane; of an ended agent tmux may have given its number to another pane."""
    return "" if record["ended_at"] is not None else shorten_to_line(record["pane"])
