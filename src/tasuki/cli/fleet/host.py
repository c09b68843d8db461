"""`tasuki host`: the hosts of the fleet, which share one PostgreSQL."""

import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from tasuki.cli.fleet.client import FleetClient
from tasuki.cli.fleet.persona import create_client
from tasuki.cli.output import (
    JSON_OPTION,
    format_age,
    format_table,
    need_extra,
    print_json,
    print_result,
)
from tasuki.errors import TasukiError, UsageError
from tasuki.files import require_text_path
from tasuki.text_safety import clean_for_display, format_plural

UNVERIFIED_FLAG = "--allow-unverified-server"
MOST_CLOCK_OFFSET = 5.0
"""Seconds by which a clock may differ from PostgreSQL's before that is shown."""
MOST_INPUT_BYTES = 512 << 10
"""A URL and certificates on standard input."""
NEXT_STEPS = (
    "Next: tasuki install claude --fleet (or another harness), then tasuki serve. "
    "All hosts of the fleet may type into each other's panes."
)
UNVERIFIED_OPTION = click.option(
    UNVERIFIED_FLAG, "allow_unverified", is_flag=True,
    help="Do not check PostgreSQL's certificate. Anyone in between can then read and change everything.",
)  # fmt: skip


@click.group()
def host() -> None:
    """List the hosts of the fleet, add hosts, join it, and retire hosts.

    Each host runs its own server with its own agents; all share one PostgreSQL. HOST is an id, a
    label, or the start of either. What PostgreSQL needs: tasuki docs machines
    """


@host.command("list")
@click.option("--all", "everything", is_flag=True, help="Include retired ones.")
@JSON_OPTION
def list_hosts(everything: bool, as_json: bool) -> None:
    """List the hosts of the fleet: their state, their agents, their load.

    A host that was silent for a minute is away. Its agents stay listed and resume with it.
    """
    listed = create_client().get("hosts", retired=everything or None)["hosts"]
    titles = ("host", "state", "agents", "load", "tasuki", "harnesses", "id")
    table = format_table(titles, list(map(_build_row, listed)), right=(2, 3))
    print_result(as_json, {"hosts": listed}, table)


def _build_row(record: dict[str, Any]) -> tuple[str, ...]:
    details = record["details"]
    usable = [one["name"] for one in details["harnesses"] if one["program"] and one["hooks"]]
    load = f"{details['load']:.1f}/{details['processors']}" if details["processors"] else ""
    return (
        clean_for_display(record["label"]), _format_state(record), str(record["agents"]), load,
        clean_for_display(record["version"]), ", ".join(usable) or "none ready", record["id"],
    )  # fmt: skip


def _format_state(record: dict[str, Any]) -> str:
    """Format a state: since when a host is away, and a clock that is off."""
    state, offset = str(record["state"]), record["details"]["clock_offset"]
    if state == "away" and record["seen_seconds"] is not None:
        state = f"away for {format_age(record['seen_seconds'])}"
    if abs(offset) >= MOST_CLOCK_OFFSET:
        state += f", clock {abs(offset):.0f} s {'fast' if offset > 0 else 'slow'}"
    return state


@host.command()
@click.argument("name", metavar="HOST")
@click.argument("label")
def label(name: str, label: str) -> None:
    """Rename a host. '' restores the name of its machine."""
    record = create_client().patch("hosts", name, body={"label": label})
    click.echo(f"{record['id']} is called {clean_for_display(record['label'])}.")


@host.command("give-up")
@click.argument("name", metavar="HOST")
@JSON_OPTION
def give_up(name: str, as_json: bool) -> None:
    """Give up a host that will not come back. Its agents count as lost.

    Refused while it is alive. An agent whose thread is in the database can continue on another host,
    without what it had not pushed. If the host comes back after all, it starts nothing twice.
    """
    answer = create_client().post("hosts", name, "give-up")
    print_result(as_json, answer, _describe_losses(answer))


def _describe_losses(answer: dict[str, Any]) -> Iterator[str]:
    agents = answer["agents"]
    label = clean_for_display(answer["host"]["label"])
    yield f"{label} is given up. {format_plural(len(agents), 'agent is', 'agents are')} lost."
    for one in agents:
        id, persona = one["agent"]["id"], clean_for_display(one["agent"]["persona"] or "-")
        if one["has_thread"]:
            yield f"  agent {id} ({persona}): tasuki agent handoff {id} --reason 'its host is gone' --to-host HOST"
        else:
            yield f"  agent {id} ({persona}): its thread is not in the database (setting keep_threads)"


@host.command("move-all")
@click.option("--to", "target", required=True, metavar="HOST", help="The host that takes them.")
@click.option("--from", "source", default="", metavar="HOST",
              help="The host that they leave. Default: this one.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only show what would happen, move nothing.")
@click.option("--watch", is_flag=True, help="Wait for all of them; exit code 1 if one fails.")
@JSON_OPTION
def move_all(target: str, source: str, dry_run: bool, watch: bool, as_json: bool) -> int:
    """Move all agents of a host to another one, for example before a laptop goes to sleep.

    Each moves as by `tasuki agent handoff --to-host`. Exit code 1 if one cannot move.
    """
    from tasuki.cli.fleet.handoffs import await_handoffs

    server = create_client()
    here = (one["id"] for one in server.get("hosts")["hosts"] if one["state"] == "here")
    agents = server.get("hosts", source or next(here))["agents"]
    records = [_move_agent(server, one, target, dry_run=dry_run) for one in reversed(agents)]
    if watch and not dry_run:
        await_handoffs(server, records)
    lines = list(map(_describe_move, records)) or ["No agent is there."]
    print_result(as_json, {"agents": records}, lines)
    wanted = ("done", "running")
    failed = [one for one in records if one["refused"] or (one["handoff"] or {}).get("state", "done") not in wanted]  # fmt: skip
    return 1 if failed else 0


def _move_agent(
    server: FleetClient, agent: dict[str, Any], target: str, *, dry_run: bool
) -> dict[str, Any]:
    """Begin to move an agent; return it, its handoff, and why it stays where it cannot."""
    body = {"reason": "its host is left", "to_host": target}
    record = {"agent": agent, "handoff": None, "folder": "", "refused": ""}
    try:
        if not dry_run:
            return {**record, "handoff": server.post("agents", agent["id"], "handoff", body=body)}
        preview = server.post("agents", agent["id"], "handoff", body={**body, "dry_run": True})
    except TasukiError as error:
        return {**record, "refused": str(error)}
    blockers = [one["text"] for one in preview["obstacles"] if one["blocks"]]
    return {**record, "folder": preview["plan"]["folder"], "refused": " ".join(blockers)}


def _describe_move(record: dict[str, Any]) -> str:
    agent, handoff = record["agent"], record["handoff"]
    name = f"Agent {agent['id']} ({clean_for_display(agent['persona'] or agent['harness'])})"
    if record["refused"]:
        return f"{name} stays: {clean_for_display(record['refused'])}"
    if handoff is None:
        return f"{name} would move to {clean_for_display(record['folder'])}"
    return f"{name} moves: handoff {handoff['id'][:8]}, {handoff['state']}"


@host.command()
@click.argument("target", required=False, metavar="[USER@BOX]")
@click.option("--label", default="", metavar="NAME", help="Name of the host in the fleet.")
@click.option("--database-host", default="", metavar="HOST[:PORT]",
              help="Address of PostgreSQL for the other host, if it differs from this server's.")  # fmt: skip
@click.option("--ssh-option", "ssh_options", multiple=True, metavar="OPTION",
              help="Option for ssh, such as --ssh-option=-p2222. Can be repeated.")  # fmt: skip
@UNVERIFIED_OPTION
@JSON_OPTION
def add(
    target: str | None, label: str, database_host: str, ssh_options: tuple[str, ...],
    allow_unverified: bool, as_json: bool,
) -> None:  # fmt: skip
    """Let another host join: print the command to run there, or use ssh.

    The command holds a token that works once, within 15 minutes. With USER@BOX it is run there, where
    tasuki must be installed. Run this on the host whose database role made the tables, while its
    server runs.
    """
    if target is not None and as_json:
        raise UsageError("--json is for the token, which USER@BOX gets at once. Leave one out.")
    if target is not None:
        from tasuki.cli.fleet import ssh

        remote = ssh.RemoteHost(target, ssh_options)
        for line in remote.check():
            click.echo(line, err=True)
    elif ssh_options:
        raise UsageError("--ssh-option needs a host to connect to: tasuki host add USER@BOX")
    body = {"label": label, "database_host": database_host, "unverified": allow_unverified}
    token = create_client().post("hosts", "tokens", body=body)
    if target is not None:
        click.echo(remote.join(token, allow_unverified=allow_unverified))
    elif as_json:
        print_json({"token": token})
    else:
        _print_token(token, allow_unverified=allow_unverified)


def _print_token(token: dict[str, Any], *, allow_unverified: bool) -> None:
    words = ["tasuki", "host", "join", token["url"]]
    if allow_unverified:
        words.append(UNVERIFIED_FLAG)
    minutes = round(token["seconds"] / 60)
    until = time.strftime("%H:%M", time.localtime(time.time() + token["seconds"]))
    click.echo(f"Run this on the other host within {minutes} minutes (until {until}). It works once.", err=True)  # fmt: skip
    click.echo(clean_for_display(shlex.join(words)))
    if token["certificates"]:
        click.echo(
            "PostgreSQL's certificate is verified by a file on this host. Copy that file there, and add: --ca FILE",
            err=True,
        )


@host.command()
@click.argument("url", metavar="URL|-")
@click.option("--label", default="", metavar="NAME", help="Name of this host in the fleet.")
@click.option("--ca", "certificate_file", metavar="FILE",
              help="PEM file of the authority that signed PostgreSQL's certificate.")  # fmt: skip
@click.option("--leave-agents", is_flag=True,
              help="Join even if agents of this host still run; nothing manages them afterwards.")  # fmt: skip
@UNVERIFIED_OPTION
@JSON_OPTION
def join(
    url: str, label: str, certificate_file: str | None, leave_agents: bool, allow_unverified: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Join a fleet with this host, by the URL that `tasuki host add` printed.

    `-` reads the URL from standard input, so that no list of processes shows it. This host gets its
    own database role; tasuki serve finds its URL in the data folder. If joining was interrupted, join
    again with a new token.
    """
    with need_extra("server", "Joining a fleet", "dbos", "psycopg", "sqlalchemy"):
        from tasuki.fleet.membership.join import join_fleet
    certificates = b""
    if certificate_file:
        try:
            with Path(certificate_file).open("rb") as file:
                certificates = file.read(MOST_INPUT_BYTES)
        except OSError as error:
            raise UsageError(f"{certificate_file} cannot be read: {error.strerror}.") from error
    if url == "-":
        content = sys.stdin.buffer.read(MOST_INPUT_BYTES)
        first, _, rest = content.partition(b"\n")
        url, certificates = first.decode("utf-8", "replace"), certificates or rest.strip()
    if len(label) > 100:
        raise UsageError("The label has more than 100 characters.")
    joined = join_fleet(
        url, require_text_path(), label, certificates=certificates,
        allow_unverified=allow_unverified, leave_agents=leave_agents,
    )  # fmt: skip
    document = {"host": joined.id, "role": joined.role, "file": str(joined.file)}
    lines = [
        f"This host ({joined.id}) joined the fleet in {clean_for_display(joined.place)}.",
        f"Its own URL, with its password, is in {clean_for_display(str(joined.file))}.",
    ]
    running = "A server runs with what was there before: end it first.\n"
    is_running = FleetClient(joined.file.parent).is_running()
    print_result(as_json, document, lines, (running if is_running else "") + NEXT_STEPS)


@host.command()
@click.argument("name", metavar="HOST")
@JSON_OPTION
def retire(name: str, as_json: bool) -> None:
    """Take a host out of the fleet. Its server ends and its database role is dropped.

    Refused while its agents run or a handoff needs it. It can join again later.
    """
    retired = create_client().post("hosts", name, "retire")
    label = clean_for_display(retired["label"])
    notes = {
        "shared": f"It used a role of PostgreSQL that is not its own: change that role's password if {label} should not get in.",
        "disabled": "Its role may not log in any more, but still owns something: the server's log names it.",
    }
    note = notes.get(retired["role"], "")
    print_result(as_json, {"host": retired}, f"{label} ({retired['id']}) is retired.", note)
