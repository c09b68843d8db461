"""`tasuki handoffs`, `tasuki show`, `tasuki lineage`: what was kept."""

import sys
import time
from datetime import datetime

import click

from tasuki.cli.threads import age, visible
from tasuki.plain import plain


@click.command()
@click.option(
    "--limit", type=click.IntRange(min=1), default=30, show_default=True, help="How many."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def handoffs(limit: int, as_json: bool) -> None:
    """List the handoffs that were kept, newest first."""
    import msgspec

    from tasuki.vault import Vault

    vault = Vault()
    found = vault.all()[:limit]
    for problem in vault.problems:
        click.echo(f"tasuki: {visible(problem)}", err=True)
    states = [vault.state(h.id) for h in found]
    if as_json:
        rows = [
            {"id": h.id, "created": h.created, "state": s, "goal": h.goal.text, "to": h.to,
             "predecessor": h.predecessor, "tokens": h.tokens, "parent": h.parent}
            for h, s in zip(found, states, strict=True)
        ]  # fmt: skip
        click.echo(
            msgspec.json.format(
                msgspec.json.encode({"version": 1, "handoffs": rows}), indent=2
            ).decode()
        )
    elif not found:
        click.echo('No handoffs yet. Make one: tasuki handoff "what comes next"', err=True)
    for handoff, state in zip(found, states, strict=True) if not as_json else ():
        when = _age(handoff.created)
        route = visible(f"{handoff.predecessor.harness} → {handoff.to}")
        goal = visible(handoff.goal.text)
        goal = goal if len(goal) <= 70 else goal[:69] + "…"
        click.echo(f"{handoff.id[:8]}  {when:>4}  {state:<12}  {route:<16}  {goal}")


def _age(created: str) -> str:
    try:
        return age(time.time() - datetime.fromisoformat(created).timestamp())
    except (ValueError, OverflowError):
        return "?"


@click.command()
@click.argument("id")
@click.option("--brief", "only_brief", is_flag=True, help="The brief alone, to the letter.")
@click.option("--json", "as_json", is_flag=True, help="The stored record.")
def show(id: str, only_brief: bool, as_json: bool) -> None:
    """Show one handoff: where it came from, what happened to it, and its brief.

    ID is the handoff's id or its beginning.
    """
    import msgspec

    from tasuki.vault import Vault

    vault = Vault()
    handoff = vault.get(id)
    if as_json:
        document = {"version": 1, "handoff": handoff, "events": vault.events(id)}
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
        return
    if not only_brief:
        source = handoff.predecessor
        click.echo(f"Handoff {handoff.id}, {handoff.created}, {vault.state(id)}", err=True)
        where = f"{source.harness} {source.thread_id} ({source.entries} entries) {source.path}"
        click.echo(f"From {visible(where)}", err=True)
        for event in vault.events(id):
            detail = ", ".join(f"{k}: {v}" for k, v in event.detail.items())
            click.echo(f"  {visible(f'{event.at}  {event.kind}  {detail}')}", err=True)
        for dropped in handoff.draft.dropped:
            said = visible(f"dropped from {dropped.section}: {dropped.text} ({dropped.reason})")
            click.echo(f"  {said}", err=True)
        click.echo("", err=True)
    brief = vault.brief(id)
    if sys.stdout.isatty():
        click.echo(plain(brief))
    else:
        click.echo(brief, color=True)


@click.command()
@click.argument("id", required=False)
def lineage(id: str | None) -> None:
    """Draw the chain of threads and handoffs, of all or of the one that ID belongs to."""
    from tasuki.vault import Vault, draw
    from tasuki.vault import lineage as chains

    vault = Vault()
    drawn = draw(chains(vault, id))
    for problem in vault.problems:
        click.echo(f"tasuki: {visible(problem)}", err=True)
    if drawn:
        click.echo(drawn)
    else:
        click.echo('No handoffs yet. Make one: tasuki handoff "what comes next"', err=True)
