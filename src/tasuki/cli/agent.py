"""`tasuki agent`: agents of the fleet, from their start to their handoff."""

import os
import sys
import time
from typing import Any

import click

from tasuki.cli.persona import AS_JSON, client
from tasuki.cli.printing import print_json, table
from tasuki.cli.threads import age, short_folder
from tasuki.errors import NotPossible, Refused, ServerAway
from tasuki.plain import one_line

WIDTH = 200


@click.group()
def agent() -> None:
    """Start agents of the fleet in tmux, talk to them, hand them off.

    Needs the server: tasuki serve. What a harness tells comes by hooks: tasuki install HARNESS --fleet
    """


@agent.command()
@click.option("--persona", default="", metavar="SLUG", help="As whom it works.")
@click.option("--harness", default="", metavar="H",
              help="What it runs: claude, codex, pi, …; else that of the persona.")  # fmt: skip
@click.option("--cwd", default="", metavar="DIR", help="Where it works; else in this folder.")
@click.option("--model", default="", metavar="M", help="Its model, in the harness's words.")
@click.option(
    "--permission", default="", metavar="MODE", help="Permission mode, in the harness's words."
)
@click.option("--goal", default="", metavar="TEXT", help="Its first prompt.")
@AS_JSON
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]")
def start(
    persona: str, harness: str, cwd: str, model: str, permission: str, goal: str, as_json: bool,
    arguments: tuple[str, ...],
) -> None:  # fmt: skip
    """Start an agent in a new window of the tmux session `tasuki`.

    ARGS go to the harness's program as they are.
    """
    folder = os.path.abspath(cwd or os.getcwd())
    body = {"persona": persona, "harness": harness, "cwd": folder, "model": model,
            "permission": permission, "goal": goal, "arguments": list(arguments)}  # fmt: skip
    made = client().post("agents", body=body)
    if as_json:
        print_json({"agent": made})
        return
    id = made["id"]
    click.echo(f"Agent {id} ({_who(made)}) was started. Look at it: tasuki agent attach {id}")


@agent.command("list")
@click.option("--all", "everything", is_flag=True, help="Those that ended too.")
@click.option("--persona", default="", metavar="SLUG", help="Only those of one persona.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=30, show_default=True, help="How many."
)
@AS_JSON
def list_agents(everything: bool, persona: str, limit: int, as_json: bool) -> None:
    """List the agents, the newest first."""
    ended = None if everything else False
    found = client().get_pages("agents", limit, ended=ended, persona=persona or None)
    if as_json:
        print_json({"agents": found})
    elif not found:
        more = "" if everything else " (Those that ended: tasuki agent list --all.)"
        click.echo(f"No agents.{more} Start one: tasuki agent start --persona SLUG", err=True)
    else:
        titles = ("id", "state", "since", "persona", "harness", "context", "pane", "folder")
        click.echo("\n".join(table(titles, [_row(one) for one in found], right=(0, 2, 5))))


@agent.command()
@click.argument("id", type=int)
@AS_JSON
def show(id: int, as_json: bool) -> None:
    """Show an agent: what it does, where it runs, its handoffs."""
    found = client().get("agents", id)
    if as_json:
        print_json({"agent": found})
        return
    waiting = f", for: {_line(found['waiting_for'])}" if found["waiting_for"] else ""
    ended = f": {_line(found['end_reason'])}" if found["end_reason"] else ""
    told = f" ({_line(found['context_source'])})" if found["context_source"] else ""
    before = found["previous_agent_id"]
    rows = [
        ("agent", f"{found['id']}, {_who(found)}"),
        ("state", f"{found['state']} for {_since(found['state_at'])}{waiting}{ended}"),
        ("context", f"{_context(found)}{told}" if _context(found) else ""),
        ("running", "; ".join(map(_line, found["children"]))),
        ("folder", _line(found["cwd"])), ("model", _line(found["model"])),
        ("permission", _line(found["permission"])), ("goal", _line(found["goal"])),
        ("pane", f"{_pane(found)} in {_line(found['window']) or 'tmux'}" if _pane(found) else ""),
        ("session", _line(found["session"])), ("thread", _line(found["thread"])),
        ("successor of", f"agent {before}" if before is not None else ""),
    ]  # fmt: skip
    for name, value in rows:
        if value:
            click.echo(f"{name:<12} {value}")
    for of in found["handoffs"]:
        click.echo(f"{'handoff':<12} {of['id'][:8]}, {of['state']} at {of['step']}")


@agent.command()
@click.argument("id", type=int)
def attach(id: int) -> None:
    """Go to an agent's pane; C-b d comes back."""
    from tasuki.launch.attaching import attach as go

    found = client().get("agents", id)
    if found["elsewhere"]:
        raise NotPossible(_line(found["elsewhere"]))
    if not found["pane"] or found["ended_at"] is not None:
        why = (
            f"Agent {id} has ended."
            if found["ended_at"] is not None
            else "Agent has no tmux pane that tasuki knows."
        )
        raise NotPossible(f"{why} What is known of it: tasuki agent show {id}")
    go(found["pane"], found["tmux"])


@agent.command()
@click.argument("id", type=int)
@click.argument("text", nargs=-1, required=True, metavar="TEXT…|-")
@click.option(
    "--key",
    metavar="KEY",
    help="A name of this sending: under it the text is typed once, however often you ask.",
)
@AS_JSON
def send(id: int, text: tuple[str, ...], key: str | None, as_json: bool) -> int:
    """Type a text to an agent as a prompt.

    Exit code 1 where nothing shows that its turn began. - reads standard input.
    """
    from secrets import token_hex

    words = sys.stdin.read() if text == ("-",) else " ".join(text)
    key = key or token_hex(8)
    try:
        told = client().post("agents", id, "send", body={"text": words}, key=key)
    except ServerAway as error:
        if not error.__cause__ or isinstance(error.__cause__, ConnectionRefusedError):
            raise  # it was not asked
        raise ServerAway(
            f"uncertain: the server went away before it said whether the text was typed. Ask again with --key {key}: "
            "it is not typed twice."
        ) from error
    state = told["state"]
    if as_json:
        print_json({"sent": told})
    elif state == "proven":
        click.echo(f"Agent {id} took it.")
    else:
        why = _line(told.get("why") or "nothing shows that it was taken, nor that it was not")
        click.echo(f"{_line(state)}: {why}. Look at it: tasuki agent attach {id}", err=True)
    if told.get("leftover") and not as_json:
        click.echo(f"What stood unsent in its input: {_line(told['leftover'])}", err=True)
    return 0 if state == "proven" else 1


@agent.command()
@click.argument("id", type=int)
def stop(id: int) -> None:
    """End an agent.

    It is asked in its own words; a signal ends it only where it does not answer.
    """
    told = client().post("agents", id, "stop")
    click.echo(f"Agent {id} ended: {_line(told['end_reason']) or 'it is gone'}")


@agent.command()
@click.argument("pane")
@click.option(
    "--harness", default="claude", show_default=True, metavar="H", help="What runs there."
)
@click.option("--persona", default="", metavar="SLUG", help="As whom it works from now on.")
@click.option("--session", default="", metavar="ID", help="Id of its thread, where that is known.")
@AS_JSON
def adopt(pane: str, harness: str, persona: str, session: str, as_json: bool) -> None:
    """Take on an agent that runs in a tmux PANE already: %3.

    The pane you are in: tmux display-message -p '#{pane_id}'
    """
    body = {"pane": pane, "harness": harness, "persona": persona, "session": session}
    made = client().post("agents", "adopt", body=body)
    if as_json:
        print_json({"agent": made})
    else:
        click.echo(f"Agent {made['id']} ({_who(made)}) was adopted.")


# -- handoffs --------------------------------------------------------------------------


@agent.command()
@click.argument("id", type=int)
@click.option("--reason", required=True, metavar="TEXT", help="Why, in a word or a sentence.")
@click.option(
    "--context", default="", metavar="TEXT", help="What its successor should know from you."
)
@click.option("--force", is_flag=True, help="Do not wait for what it started and is still running.")
@click.option("--from-thread", is_flag=True,
              help="Write the document from its thread: it is dead, or out of its quota.")  # fmt: skip
@click.option(
    "--watch", is_flag=True, help="Show the steps until the end; exit code 1 on a failure."
)
@AS_JSON
def handoff(
    id: int, reason: str, context: str, force: bool, from_thread: bool, watch: bool, as_json: bool
) -> int:
    """Hand an agent off to a fresh one of its persona.

    It is asked to write a handoff document, ends, and its successor goes on with it. Exit code 3
    while something that it started runs, or its context is compacted; --force goes on anyway.
    """
    from tasuki.cli.fleet_watch import watched

    server = client()
    if not (force or from_thread):
        _refuse_at_work(server.get("agents", id))
    body = {"reason": reason, "context": context, "force": force,
            "from": "thread" if from_thread else "agent"}  # fmt: skip
    made = server.post("agents", id, "handoff", body=body)
    if not as_json:
        click.echo(f"Handoff {made['id'][:8]} of agent {id} ({_who(made)}) begins.")
    if watch:
        return watched(server, made["id"], as_json=as_json)
    if as_json:
        print_json({"handoff": made})
    else:
        click.echo("Its steps: tasuki handoffs --agents", err=True)
    return 0


@agent.command()
@click.option("--reason", default="it was lost", show_default=True, metavar="TEXT",
              help="Why, in a word or a sentence.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say which they are, begin nothing.")
@click.option("--watch", is_flag=True, help="Wait for all of them; exit code 1 where one fails.")
@AS_JSON
def recover(reason: str, dry_run: bool, watch: bool, as_json: bool) -> int:
    """Carry every lost agent on from its thread, as after a restart of the machine.

    A few at once, each as `tasuki agent handoff ID --from-thread` does. One whose program still runs is
    refused. Exit code 1 where an agent cannot be carried on.
    """
    from tasuki.cli.fleet_watch import await_handoffs, print_recovery

    server = client()
    if dry_run:
        found = server.get("agents", "lost")["agents"]
    else:
        found = server.post("agents", "recover", body={"reason": reason})["agents"]
    if watch and not dry_run:
        await_handoffs(server, found)
    if as_json:
        print_json({"agents": found})
    else:
        print_recovery(found)
    failed = any((one["handoff"] or {}).get("state") in ("failed", "uncertain") for one in found)
    return int(failed or any(one["refused"] for one in found))


def _refuse_at_work(found: dict[str, Any]) -> None:
    """D15: what runs, or a compaction, would be lost or cut off. Raises Refused."""
    id = found["id"]
    if found["state"] == "compacting":
        raise Refused(f"Agent {id} compacts its context. Wait for that, or say --force.")
    if children := found["children"]:
        what = one_line("; ".join(children), WIDTH)
        raise Refused(
            f"{len(children)} of agent {id}'s own still run: {what}. Wait for them, or say --force."
        )


def _order(name: str, id: str) -> dict[str, Any]:
    return client().post("handoffs", id, name)


@agent.command()
@click.argument("id", metavar="HANDOFF")
@click.option(
    "--watch", is_flag=True, help="Show the steps until the end; exit code 1 on a failure."
)
def retry(id: str, watch: bool) -> int:
    """Carry a failed handoff on. HANDOFF is the beginning of its id."""
    from tasuki.cli.fleet_watch import watched

    told = _order("retry", id)
    click.echo(f"Handoff {told['id'][:8]} goes on with {told['step']}.")
    return watched(client(), told["id"]) if watch else 0


@agent.command()
@click.argument("id", metavar="HANDOFF")
def cancel(id: str) -> None:
    """End a handoff where it is; what was done stays done."""
    told = _order("cancel", id)
    click.echo(f"Handoff {told['id'][:8]} is cancelled, at {told['step']}.")


@agent.command()
@click.argument("id", metavar="HANDOFF")
def finish(id: str) -> None:
    """Call a failed handoff done.

    You did the rest by hand, or saw that it arrived.
    """
    click.echo(f"Handoff {_order('finish', id)['id'][:8]} is done.")


@agent.command()
@click.argument("id", metavar="HANDOFF")
def skip(id: str) -> None:
    """Do without the acknowledgement of a handoff."""
    click.echo(f"Handoff {_order('skip', id)['id'][:8]} is done, without acknowledgement.")


# -- in words --------------------------------------------------------------------------


def _row(of: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(of["id"]), of["state"], _since(of["state_at"]), _line(of["persona"] or "-"),
        _line(of["harness"]), _context(of), _pane(of), short_folder(_line(of["cwd"])),
    )  # fmt: skip


def _who(of: dict[str, Any]) -> str:
    return _line(of["persona"] or of["harness"])


def _context(of: dict[str, Any]) -> str:
    """How full its context is, as it was told; empty where nobody told."""
    if of["context_used"] is not None:
        return f"{of['context_used']:.0f} %"
    return "" if of["context_tokens"] is None else f"{of['context_tokens'] / 1000:.0f}k"


def _pane(of: dict[str, Any]) -> str:
    """Its pane; empty once it has ended, since tmux may have given the number to another one."""
    return "" if of["ended_at"] is not None else _line(of["pane"])


def _since(at: float) -> str:
    return age(time.time() - at)


def _line(text: str) -> str:
    return one_line(text, WIDTH)
