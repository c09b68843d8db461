"""`tasuki handoffs`, `tasuki show`, `tasuki lineage`: stored handoffs, listed, found, shown and pruned."""

import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial

import click
from msgspec import Struct

from tasuki.cli.completions import complete_handoff, complete_lineage
from tasuki.cli.fleet.client import FleetClient
from tasuki.cli.fleet.handoffs import (
    PersonaDocument,
    find_documents,
    format_handoffs,
    read_fleet_history,
    select_prunable_documents,
)
from tasuki.cli.output import (
    JSON_OPTION,
    format_age,
    get_width,
    make_visible,
    print_json,
    print_problems,
    print_records,
    print_result,
)
from tasuki.harness import registry as harnesses
from tasuki.model import Handoff, Thread
from tasuki.text_safety import (
    INDENT,
    clean_text,
    format_plural,
    format_row,
    shorten_to_line,
    wrap_text,
)
from tasuki.threads.search import Candidate, find_prunable, list_candidates, rank_candidates
from tasuki.vault import Vault
from tasuki.vault.lineage import Successor, build_lineage, draw_lineage, find_successor


class PrunePlan(Struct, frozen=True):
    """What may be deleted now, and why documents stay that may be old enough."""

    vault: Vault
    handoffs: list[Handoff]
    documents: list[PersonaDocument] = []
    problem: str = ""

    @property
    def count(self) -> int:
        """How many handoffs and documents may be deleted."""
        return len(self.handoffs) + len(self.documents)

    def delete(self, current: "PrunePlan") -> int:
        """Delete those that `current`, the plan after the question, still allows.

        Return how many.
        """
        ids, paths = {h.id for h in current.handoffs}, {d.path for d in current.documents}
        handoffs = [handoff for handoff in self.handoffs if handoff.id in ids]
        documents = [document for document in self.documents if document.path in paths]
        for handoff in handoffs:
            self.vault.remove(handoff.id)
        for document in documents:
            document.path.unlink(missing_ok=True)
        return len(handoffs) + len(documents)


def build_prune_plan(days: int, keep: int, only_drafts: bool) -> PrunePlan:
    """Build the plan of what the user chose. Documents stay while it is unknown which of them are needed."""
    vault, history = Vault(), read_fleet_history()
    needed = {record.id for record in history.records if record.is_needed}
    handoffs = find_prunable(
        vault, days=days, keep=keep, only_drafts=only_drafts, now=time.time(), needed=needed
    )
    if only_drafts:
        return PrunePlan(vault, handoffs)
    if history.problem:
        return PrunePlan(vault, handoffs, [], f"Documents of personas stay. {history.problem}")
    documents = select_prunable_documents(find_documents(history), days=days, keep=keep)
    return PrunePlan(vault, handoffs, documents)


@click.group(invoke_without_command=True)
@click.option(
    "--limit", type=click.IntRange(min=1), default=30, show_default=True, help="How many."
)
@click.option("--all", "everything", is_flag=True, help="Also those that were only printed.")
@click.option("--agents", is_flag=True, help="Those of the fleet's agents, from its server.")
@JSON_OPTION
@click.pass_context
def handoffs(ctx: click.Context, limit: int, everything: bool, agents: bool, as_json: bool) -> None:
    """List the stored handoffs, newest first.

    Briefs that were only printed are stored too, so that references open; --all lists them.
    """
    if ctx.invoked_subcommand is not None:
        return
    if agents:
        records = FleetClient().get_pages("handoffs", limit)
        empty = "No handoffs of agents yet. Make one: tasuki agent handoff ID --reason …"
        print_records(as_json, "handoffs", records, format_handoffs(records), empty)
        return
    vault = Vault()
    all_handoffs = vault.list_handoffs()
    listed = [h for h in all_handoffs if everything or vault.load_state(h.id) != "printed"][:limit]
    print_problems(vault.problems)
    only = " but printed ones (tasuki handoffs --all)" if all_handoffs else ""
    note = f'No handoffs yet{only}. Make one: tasuki handoff "what comes next"'
    rows = (_format_row(vault, handoff) for handoff in listed)
    document = _build_list(vault, [(handoff, ()) for handoff in listed]) if as_json else {}
    print_result(as_json, document, rows, "" if listed else note)


@handoffs.command("find")
@click.argument("words", nargs=-1, required=True, metavar="WORDS…")
@click.option(
    "--limit", type=click.IntRange(min=1), default=10, show_default=True, help="How many."
)
@JSON_OPTION
def find(words: tuple[str, ...], limit: int, as_json: bool) -> int:
    """Search all handoffs; those that hold most of the words come first.

    It searches the stored briefs, and the documents of the fleet's personas.
    """
    vault = Vault()
    matches = rank_candidates(_find_candidates(vault), " ".join(words), limit)
    print_problems(vault.problems)
    if as_json:
        briefs = [(one, lines) for one, lines in matches if isinstance(one, Handoff)]
        documents = [(one, lines) for one, lines in matches if isinstance(one, PersonaDocument)]
        print_json(_build_list(vault, briefs, documents))
        return int(not matches)
    if not matches:
        click.echo("No handoff holds these words. In all threads: tasuki find WORDS", err=True)
    for match, lines in matches:
        if isinstance(match, PersonaDocument):
            click.echo(_format_document_row(match))
        else:
            click.echo(_format_row(vault, match))
        for line in lines:
            click.echo("\n".join(wrap_text(make_visible(line), get_width(400), INDENT, INDENT)))
    return int(not matches)


def _find_candidates(vault: Vault) -> Iterator[Candidate[Handoff | PersonaDocument]]:
    """Yield what can be searched: kept briefs, and documents of personas that are no such brief."""
    briefs = list(list_candidates(vault))
    yield from briefs
    known_ids = {handoff.id for handoff, *_ in briefs}
    for document in find_documents(read_fleet_history()):
        record = document.record
        if record is None or record.id not in known_ids:
            yield document, document.created, record.goal if record else "", document.read_text()


@handoffs.command()
@click.option("--older-than", "days", type=click.IntRange(min=0), metavar="DAYS",
              help="Only those created more than DAYS days ago.")  # fmt: skip
@click.option(
    "--keep", type=click.IntRange(min=0), default=0, metavar="N", help="Always keep the N newest."
)
@click.option("--drafts", is_flag=True, help="Only drafts that were never started.")
@click.option("--unreadable", is_flag=True,
              help="Move those that cannot be read into a folder of their own; delete nothing.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="List what would be deleted, delete nothing.")
@click.option("--yes", "-y", is_flag=True, help="Delete without asking.")
def prune(
    days: int | None, keep: int, drafts: bool, unreadable: bool, dry_run: bool, yes: bool
) -> None:
    """Delete old handoffs, and old documents of the fleet's personas. Threads are never touched.

    What another handoff, an unfinished one or a working agent still needs is kept.
    """
    if unreadable:
        _set_aside(Vault(), dry_run)
    if days is None and not drafts and not keep:
        if unreadable:
            return
        raise click.UsageError("Choose: --older-than DAYS, --drafts or --keep N.")

    build = partial(build_prune_plan, days or 0, keep, drafts)
    prune_plan = build()
    print_problems([*prune_plan.vault.problems, *filter(None, [prune_plan.problem])])
    for handoff in prune_plan.handoffs:
        click.echo(_format_row(prune_plan.vault, handoff))
    for document in prune_plan.documents:
        click.echo(_format_document_row(document))
    if prune_plan.vault.problems:
        click.echo(
            "Nothing is deleted while a handoff cannot be read: it may descend from any of them.",
            err=True,
        )
        raise SystemExit(1)
    if not prune_plan.count:
        click.echo("Nothing to delete.", err=True)
    elif dry_run:
        click.echo(f"{prune_plan.count} would be deleted.", err=True)
    else:
        if not yes:
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise click.UsageError("Without a terminal, use --yes or --dry-run.")
            what = format_plural(prune_plan.count, "handoff")
            click.confirm(f"Delete {what} permanently?", abort=True, err=True)
        click.echo(f"Deleted {prune_plan.delete(build())}.", err=True)


def _set_aside(vault: Vault, dry_run: bool) -> None:
    vault.list_handoffs()
    for id in vault.unreadable:
        where = vault.root / id if dry_run else vault.set_aside(id)
        click.echo(f"{id[:8]}  {'would be set aside' if dry_run else f'set aside: {where}'}")
    if not vault.unreadable:
        click.echo("Every handoff can be read.", err=True)


def _build_list(
    vault: Vault,
    matches: Sequence[tuple[Handoff, Sequence[str]]],
    documents: Sequence[tuple[PersonaDocument, Sequence[str]]] = (),
) -> dict[str, object]:
    rows = [
        {"id": h.id, "created": h.created, "state": vault.load_state(h.id), "goal": h.goal.text,
         "to": h.to, "predecessor": h.predecessor, "tokens": h.tokens, "parent": h.parent,
         **({"lines": lines} if lines else {})}
        for h, lines in matches
    ]  # fmt: skip
    of_personas = [
        {"persona": d.persona, "path": str(d.path), "created": d.created,
         "handoff": d.record.id if d.record else "", "lines": lines}
        for d, lines in documents
    ]  # fmt: skip
    return {"handoffs": rows, **({"documents": of_personas} if of_personas else {})}


def _format_document_row(document: PersonaDocument) -> str:
    record = document.record
    id = record.id[:8] if record else "-" * 8
    state = record.state if record else "document"
    title = f"{document.persona}: {record.summary if record else document.path.name}"
    route = f"agent {record.agent_id}" if record else ""
    if record and record.successor_id is not None:
        route += f" → {record.successor_id}"
    return _format_cells(id, document.created, state, route, title)


def _format_row(vault: Vault, handoff: Handoff) -> str:
    route = make_visible(f"{handoff.predecessor.harness} → {handoff.to or '?'}")
    state = vault.load_state(handoff.id)
    return _format_cells(handoff.id[:8], handoff.created, state, route, handoff.goal.shown)


def _format_cells(id: str, created: str, state: str, route: str, title: str) -> str:
    age = "?"
    with suppress(ValueError, OverflowError):
        age = format_age(time.time() - datetime.fromisoformat(created).timestamp())
    cells = (id, f"{age:>4}", f"{state:<12}", f"{route:<16}")
    return format_row(cells, shorten_to_line(title, 70), get_width(160))


@click.command()
@click.argument("id", shell_complete=complete_handoff)
@click.option("--brief", "only_brief", is_flag=True, help="Only the brief, verbatim.")
@click.option("--json", "as_json", is_flag=True, help="The stored record.")
def show(id: str, only_brief: bool, as_json: bool) -> None:
    """Show one handoff: where it came from, what happened to it, its successor, and its brief.

    ID is the handoff's id or its beginning.
    """
    vault = Vault()
    handoff = vault.get(id)
    if as_json:
        successor = _find_successor(vault, handoff)
        print_json({"handoff": handoff, "events": vault.load_events(id), "successor": successor})
        return
    if not only_brief:
        source = handoff.predecessor
        click.echo(f"Handoff {handoff.id}, {handoff.created}, {vault.load_state(id)}", err=True)
        origin = f"{source.harness} {source.thread_id} ({source.entries} entries) {source.path}"
        click.echo(f"From {make_visible(origin)}", err=True)
        for event in vault.load_events(id):
            detail = ", ".join(f"{k}: {v}" for k, v in event.detail.items())
            click.echo(f"  {make_visible(f'{event.at}  {event.kind}  {detail}')}", err=True)
        for dropped in handoff.draft.dropped:
            reason_line = make_visible(f"{dropped.way}: {dropped.text} ({dropped.reason})")
            click.echo(f"  {reason_line}", err=True)
        if successor := _find_successor(vault, handoff):
            click.echo(_describe_successor(handoff, successor), err=True)
        click.echo("", err=True)
    brief = vault.load_brief(id)
    if sys.stdout.isatty():
        click.echo(clean_text(brief))
    else:
        click.echo(brief, color=True)


def _find_successor(vault: Vault, handoff: Handoff) -> Successor | None:
    if successor := find_successor(vault.load_events(handoff.id)):
        return successor
    records = read_fleet_history().records
    return build_lineage(vault, handoff.id, records).nodes[handoff.id].successor


def _describe_successor(handoff: Handoff, successor: Successor) -> str:
    from tasuki.handoffs import build_resume_command

    name, cwd = successor.harness or handoff.to, handoff.predecessor.cwd
    thread = Thread(harness=name, id=successor.id, path=successor.path, cwd=cwd)
    title = harnesses.get_harness(name).title if name in harnesses.list_names() else name
    sentence = f"Successor: {title} {successor.id}."
    if command := build_resume_command(thread):
        sentence += f" Open it: cd {shlex.quote(cwd)} && {shlex.join(command)}"
    return make_visible(sentence)


@click.command()
@click.argument("id", required=False, shell_complete=complete_lineage)
def lineage(id: str | None) -> None:
    """Draw the chain of threads and handoffs, of all or of the one that ID belongs to.

    ID is a handoff's id or a thread's, or its beginning. Handoffs of the fleet's agents are part of
    it.
    """
    vault, history = Vault(), read_fleet_history()
    drawing = draw_lineage(build_lineage(vault, id, history.records), get_width(400))
    print_problems([*filter(None, [history.problem]), *vault.problems])
    if drawing:
        click.echo(drawing)
    else:
        click.echo('No handoffs yet. Make one: tasuki handoff "what comes next"', err=True)
