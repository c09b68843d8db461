"""`tasuki handoffs`, `tasuki show`, `tasuki lineage`: what was kept."""

import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING

import click

from tasuki.cli.printing import print_json
from tasuki.cli.threads import age, visible
from tasuki.plain import one_line, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tasuki.cli.fleet_kept import PersonaDocument
    from tasuki.model import Handoff
    from tasuki.threads.kept import Candidate
    from tasuki.vault import Vault


@click.group(invoke_without_command=True)
@click.option(
    "--limit", type=click.IntRange(min=1), default=30, show_default=True, help="How many."
)
@click.option("--all", "everything", is_flag=True, help="Those too that were only printed.")
@click.option("--agents", is_flag=True, help="Those of the fleet's agents, from its server.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@click.pass_context
def handoffs(ctx: click.Context, limit: int, everything: bool, agents: bool, as_json: bool) -> None:
    """List the handoffs that were kept, newest first.

    What was only printed is kept so that its references open; it is listed with --all.
    """
    if ctx.invoked_subcommand is not None:
        return
    if agents:
        _of_agents(limit, as_json)
        return
    from tasuki.vault import Vault

    vault = Vault()
    every = vault.all()
    found = [h for h in every if everything or vault.state(h.id) != "printed"][:limit]
    _say_problems(vault)
    if as_json:
        _print_list(vault, [(handoff, ()) for handoff in found])
    elif not found:
        only = " but printed ones (tasuki handoffs --all)" if every else ""
        click.echo(f'No handoffs yet{only}. Make one: tasuki handoff "what comes next"', err=True)
    for handoff in found if not as_json else ():
        click.echo(_row(vault, handoff))


def _of_agents(limit: int, as_json: bool) -> None:
    from tasuki.cli.fleet_client import Client
    from tasuki.cli.fleet_watch import print_handoffs

    found = Client().get_pages("handoffs", limit)
    if as_json:
        print_json({"handoffs": found})
    elif not found:
        click.echo(
            "No handoffs of agents yet. Make one: tasuki agent handoff ID --reason …", err=True
        )
    else:
        print_handoffs(found)


@handoffs.command("find")
@click.argument("words", nargs=-1, required=True, metavar="WORDS…")
@click.option(
    "--limit", type=click.IntRange(min=1), default=10, show_default=True, help="How many."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def find(words: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Search all handoffs; those that hold most of the words come first.

    Searched are the briefs that were kept, and the documents of the fleet's personas.
    """
    from tasuki.cli.fleet_kept import PersonaDocument
    from tasuki.threads.kept import rank
    from tasuki.vault import Vault

    vault = Vault()
    found = rank(_candidates(vault), " ".join(words), limit)
    _say_problems(vault)
    if as_json:
        _print_list(
            vault, [(one, lines) for one, lines in found if not isinstance(one, PersonaDocument)],
            [(one, lines) for one, lines in found if isinstance(one, PersonaDocument)],
        )  # fmt: skip
        return
    if not found:
        click.echo("No handoff holds these words. In all threads: tasuki find WORDS", err=True)
        raise SystemExit(1)
    for one, lines in found:
        shown = _document_row(one) if isinstance(one, PersonaDocument) else _row(vault, one)
        click.echo(shown)
        for line in lines:
            click.echo(f"    {visible(line)}")


def _candidates(vault: "Vault") -> "Iterator[Candidate[Handoff | PersonaDocument]]":
    """What can be searched: kept briefs, and documents of personas that are no such brief."""
    from tasuki.cli.fleet_kept import find_documents, read_fleet_history
    from tasuki.threads.kept import stored

    briefs = list(stored(vault))
    yield from briefs
    known = {handoff.id for handoff, *_ in briefs}
    for document in find_documents(read_fleet_history()):
        record = document.record
        if record is None or record.id not in known:
            yield document, document.created, record.goal if record else "", document.read()


@handoffs.command()
@click.option("--older-than", "days", type=click.IntRange(min=0), metavar="DAYS",
              help="Only those made more than so many days ago.")  # fmt: skip
@click.option("--keep", type=click.IntRange(min=0), default=0, metavar="N",
              help="Always keep the N newest.")  # fmt: skip
@click.option("--drafts", is_flag=True, help="Only drafts that were never started.")
@click.option("--unreadable", is_flag=True,
              help="Set aside those that cannot be read, in a folder of the vault; delete nothing.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would go, delete nothing.")
@click.option("--yes", "-y", is_flag=True, help="Delete without asking.")
def prune(
    days: int | None, keep: int, drafts: bool, unreadable: bool, dry_run: bool, yes: bool
) -> None:
    """Delete old handoffs, and old documents of the fleet's personas. Threads are never touched.

    Handoffs that a kept one descends from stay, and so do those whose delivery is uncertain. What a
    handoff of the fleet that is not over may need stays, the document that a working or lost agent began
    with, and documents of the last hour.
    """
    if unreadable:
        from tasuki.vault import Vault

        _set_aside(Vault(), dry_run)
    if days is None and not drafts and not keep:
        if unreadable:
            return
        raise click.UsageError("Say which: --older-than DAYS, --drafts or --keep N.")
    from tasuki.cli.kept_prune import Choice, chosen

    choice = Choice(days or 0, keep, drafts)
    going = chosen(choice)
    for problem in going.problems:
        click.echo(f"tasuki: {visible(problem)}", err=True)
    for handoff in going.handoffs:
        click.echo(_row(going.vault, handoff))
    for document in going.documents:
        click.echo(_document_row(document))
    if going.vault.problems:
        click.echo(
            "Nothing is deleted while a handoff cannot be read: it may descend from any.", err=True
        )
        raise SystemExit(1)
    if not going.count:
        click.echo("Nothing to delete.", err=True)
    elif dry_run:
        click.echo(f"{going.count} would be deleted.", err=True)
    else:
        if not yes:
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise click.UsageError("Without a terminal, say --yes or --dry-run.")
            click.confirm(f"Delete {going.count} handoffs for good?", abort=True, err=True)
        click.echo(f"Deleted {going.delete(chosen(choice))}.", err=True)


def _set_aside(vault: "Vault", dry_run: bool) -> None:
    vault.all()
    for id in vault.unreadable:
        where = vault.root / id if dry_run else vault.set_aside(id)
        click.echo(f"{id[:8]}  {'would be set aside' if dry_run else f'set aside: {where}'}")
    if not vault.unreadable:
        click.echo("Every handoff can be read.", err=True)


def _say_problems(vault: "Vault") -> None:
    for problem in vault.problems:
        click.echo(f"tasuki: {visible(problem)}", err=True)


def _print_list(
    vault: "Vault", found: "Sequence[tuple[Handoff, Sequence[str]]]",
    documents: "Sequence[tuple[PersonaDocument, Sequence[str]]]" = (),
) -> None:  # fmt: skip
    rows = [
        {"id": h.id, "created": h.created, "state": vault.state(h.id), "goal": h.goal.text,
         "to": h.to, "predecessor": h.predecessor, "tokens": h.tokens, "parent": h.parent,
         **({"lines": lines} if lines else {})}
        for h, lines in found
    ]  # fmt: skip
    of_personas = [
        {"persona": d.persona, "path": str(d.path), "created": d.created,
         "handoff": d.record.id if d.record else "", "lines": lines}
        for d, lines in documents
    ]  # fmt: skip
    print_json({"handoffs": rows, **({"documents": of_personas} if of_personas else {})})


def _document_row(document: "PersonaDocument") -> str:
    record = document.record
    id = record.id[:8] if record else "-" * 8
    state = record.state if record else "document"
    what = f"{document.persona}: {record.line if record else document.path.name}"
    route = f"agent {record.agent_id}" if record else ""
    if record and record.successor_id is not None:
        route += f" → {record.successor_id}"
    return f"{id}  {_age(document.created):>4}  {state:<12}  {route:<16}  {one_line(what, 70)}"


def _row(vault: "Vault", handoff: "Handoff") -> str:
    route = visible(f"{handoff.predecessor.harness} → {handoff.to or '?'}")
    goal = one_line(handoff.goal.shown, 70)
    state = vault.state(handoff.id)
    return f"{handoff.id[:8]}  {_age(handoff.created):>4}  {state:<12}  {route:<16}  {goal}"


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
    from tasuki.vault import Vault

    vault = Vault()
    handoff = vault.get(id)
    if as_json:
        print_json({"handoff": handoff, "events": vault.events(id)})
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
            said = visible(f"{dropped.way}: {dropped.text} ({dropped.reason})")
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
    """Draw the chain of threads and handoffs, of all or of the one that ID belongs to.

    Handoffs of the fleet's agents are part of it.
    """
    from tasuki.cli.fleet_kept import read_fleet_history
    from tasuki.vault import Vault, draw
    from tasuki.vault import lineage as chains

    vault, history = Vault(), read_fleet_history()
    drawn = draw(chains(vault, id, history.records))
    if history.problem:
        click.echo(f"tasuki: {visible(history.problem)}", err=True)
    for problem in vault.problems:
        click.echo(f"tasuki: {visible(problem)}", err=True)
    if drawn:
        click.echo(drawn)
    else:
        click.echo('No handoffs yet. Make one: tasuki handoff "what comes next"', err=True)
