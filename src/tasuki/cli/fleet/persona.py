"""`tasuki persona`: the personas of the fleet."""

import sys
from typing import TYPE_CHECKING, Any

import click

from tasuki.cli.completions import complete_program
from tasuki.cli.output import format_table, print_json
from tasuki.errors import UsageError
from tasuki.text_safety import clean_for_display, shorten_to_line

if TYPE_CHECKING:
    from tasuki.cli.fleet.client import FleetClient

JSON_OPTION = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on standard output."
)
SKILL_OPTION = click.option(
    "--skill", metavar="FILE|-", help="A file with its skill, or - for standard input."
)
HARNESS_OPTION = click.option(
    "--harness",
    metavar="H",
    shell_complete=complete_program,
    help="What its agents run: claude, codex, pi, …",
)
MODEL_OPTION = click.option(
    "--model", metavar="M", help="The model of its agents, as the harness calls it."
)
THRESHOLD_OPTION = click.option("--threshold", type=click.FloatRange(1, 100), metavar="PERCENT",
                         help="Context use that raises an event.")  # fmt: skip
ON_LIMIT_OPTION = click.option(
    "--on-limit", metavar="H",
    help="At a usage limit its agent is handed off to this harness, from its thread; empty for none.",
)  # fmt: skip


def create_client() -> "FleetClient":
    """Create a client of the fleet's server."""
    from tasuki.cli.fleet.client import FleetClient

    return FleetClient()


@click.group()
def persona() -> None:
    """Add, list and edit the personas of the fleet.

    A persona is a role with a name, whose agents succeed one another. Its folder holds its skill,
    its experience and the handoff documents of its agents. Needs the server: tasuki serve
    """


@persona.command()
@click.argument("role")
@click.argument("name")
@SKILL_OPTION
@HARNESS_OPTION
@MODEL_OPTION
@THRESHOLD_OPTION
@click.option(
    "--automatic", is_flag=True, help="Hand its agents off automatically at the threshold."
)
@ON_LIMIT_OPTION
@JSON_OPTION
def add(
    role: str, name: str, skill: str | None, harness: str | None, model: str | None,
    threshold: float | None, automatic: bool, on_limit: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Create a persona from a role and a name: developer con creates developer-con-1."""
    body: dict[str, Any] = {"role": role, "name": name, "skill": _read_skill(skill) or "",
                            "harness": harness or "claude", "model": model or "",
                            "threshold": threshold, "automatic": automatic,
                            "on_limit": on_limit or ""}  # fmt: skip
    added = create_client().post("personas", body=body)
    if as_json:
        print_json({"persona": added})
        return
    click.echo(clean_for_display(added["slug"]))
    click.echo(f"Its folder: {clean_for_display(added['folder'])}", err=True)


@persona.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that are retired.")
@JSON_OPTION
def list_personas(everything: bool, as_json: bool) -> None:
    """List the personas."""
    server = create_client()
    records = server.get("personas")["personas"]
    if everything:
        records += server.get("personas", retired=True)["personas"]
    if as_json:
        print_json({"personas": records})
    elif not records:
        click.echo("No personas yet. Add one: tasuki persona add developer con", err=True)
    else:
        rows = [
            (
                p["slug"],
                p["harness"],
                _clean_line(p["model"]),
                _format_percent(p["threshold"]),
                _format_notes(p),
            )
            for p in records
        ]
        titles = ("persona", "harness", "model", "threshold", "")
        click.echo("\n".join(format_table(titles, rows, right=(3,))))


@persona.command()
@click.argument("slug")
@click.option("--add", "text", metavar="TEXT", help="Add a goal at the end.")
@click.option("--remove", type=click.IntRange(1), metavar="ID", help="Remove a goal that waits.")
@click.option("--first", type=click.IntRange(1), metavar="ID", help="Put a goal in front.")
@click.option("--arrived", type=click.IntRange(1), metavar="ID",
              help="An uncertain goal was typed; the queue goes on.")  # fmt: skip
@click.option("--again", type=click.IntRange(1), metavar="ID",
              help="An uncertain goal was not typed; it is typed again.")  # fmt: skip
@click.option("--pause/--resume", "paused", default=None, help="Type nothing, or go on.")
@JSON_OPTION
def queue(
    slug: str, text: str | None, remove: int | None, first: int | None, arrived: int | None,
    again: int | None, paused: bool | None, as_json: bool,
) -> None:  # fmt: skip
    """Queue goals for a persona; without an option list them.

    Its agent gets the next goal once it is idle; where it is handed off, its successor gets it.
    """
    server, path = create_client(), ("personas", slug, "queue")
    if text is not None:
        server.post(*path, body={"text": text})
    if remove is not None:
        server.delete(*path, str(remove))
    for order, id in (("first", first), ("arrived", arrived), ("again", again)):
        if id is not None:
            server.patch(*path, str(id), body={"order": order})
    if paused is not None:
        server.patch(*path, body={"paused": paused})
    record = server.get(*path)
    if as_json:
        print_json({"queue": record})
        return
    _print_queue(record)


def _print_queue(record: dict[str, Any]) -> None:
    note = f"Stopped: {record['stopped']}" if record["stopped"] else ""
    note = note or ("Paused. Resume it with --resume." if record["paused"] else "")
    if note:
        click.echo(clean_for_display(note), err=True)
    if not record["goals"]:
        click.echo("No goal waits. Add one: --add TEXT", err=True)
        return
    rows = [(str(g["id"]), g["state"], _clean_line(g["text"])) for g in record["goals"]]
    click.echo("\n".join(format_table(("id", "state", "goal"), rows, right=(0,))))


@persona.command()
@click.argument("slug")
@JSON_OPTION
def show(slug: str, as_json: bool) -> None:
    """Show a persona: its settings, who works as it, its skill."""
    record = create_client().get("personas", slug)
    if as_json:
        print_json({"persona": record})
        return
    working = ", ".join(f"agent {agent['id']} ({agent['state']})" for agent in record["agents"])
    rows = [
        ("persona", record["slug"]), ("harness", record["harness"]), ("model", _clean_line(record["model"])),
        ("threshold", _format_percent(record["threshold"]) or "as the settings say"),
        ("handoffs", _format_notes(record) or "on request"), ("on limit", _format_limit_choice(record)), ("folder", _clean_line(record["folder"])),
        ("at work", working or "none"),
    ]  # fmt: skip
    for name, value in rows:
        if value:
            click.echo(f"{name:<10} {value}")
    click.echo("")
    click.echo(clean_for_display(record["skill"]) or "(no skill)")


@persona.command()
@click.argument("slug")
@SKILL_OPTION
@HARNESS_OPTION
@MODEL_OPTION
@THRESHOLD_OPTION
@click.option("--default-threshold", is_flag=True, help="Use the default threshold again.")
@click.option("--automatic/--manual", default=None,
              help="Hand its agents off automatically at the threshold, or not.")  # fmt: skip
@ON_LIMIT_OPTION
@JSON_OPTION
def edit(
    slug: str, skill: str | None, harness: str | None, model: str | None, threshold: float | None,
    default_threshold: bool, automatic: bool | None, on_limit: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Change a persona.

    Omitted settings stay. Changes apply to agents that start later.
    """
    values = {
        "skill": _read_skill(skill), "harness": harness, "model": model, "threshold": threshold,
        "automatic": automatic, "on_limit": on_limit,
    }  # fmt: skip
    body: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    if default_threshold:
        body["threshold"] = None
    if not body:
        raise UsageError("Say what to change, for example: tasuki persona edit SLUG --skill FILE")
    changed = create_client().patch("personas", slug, body=body)
    if as_json:
        print_json({"persona": changed})
    else:
        click.echo(f"{clean_for_display(changed['slug'])} was changed.")


@persona.command()
@click.argument("slug")
@click.argument("ids", nargs=-1, type=int, metavar="[IDS]…")
@click.option("--accept", "order", flag_value="accept", help="Add them to its experience.")
@click.option("--drop", "order", flag_value="drop", help="Discard them.")
@JSON_OPTION
def lessons(slug: str, ids: tuple[int, ...], order: str | None, as_json: bool) -> None:
    """Review the lessons that its agents propose for later ones.

    Without --accept or --drop they are listed. IDS select some of them; the default is all.
    What is accepted is added to experience.md with its date, and each later agent is given it.
    """
    server = create_client()
    if order:
        body = {"order": order, "ids": list(ids)}
        shown_lessons = server.post("personas", slug, "lessons", body=body)["lessons"]
    else:
        all_lessons = server.get("personas", slug, "lessons")["lessons"]
        shown_lessons = [
            one
            for one in all_lessons
            if one["state"] == "proposed" and (not ids or one["id"] in ids)
        ]
    if as_json:
        print_json({"lessons": shown_lessons})
        return
    for one in shown_lessons:
        click.echo(
            f"{one['id']:>4}  {one['state']}  agent {one['agent_id']}: {_clean_line(one['text'])}"
        )
    if not shown_lessons:
        click.echo("No lessons are proposed.", err=True)
    elif not order:
        click.echo(f"Accept or drop them: tasuki persona lessons {slug} --accept", err=True)


@persona.command()
@click.argument("slug")
def retire(slug: str) -> None:
    """Start no more agents of a persona.

    Its folder and its history stay.
    """
    retired = create_client().delete("personas", slug)
    click.echo(
        f"{clean_for_display(retired['slug'])} is retired. Its folder stays: {clean_for_display(retired['folder'])}"
    )


def _read_skill(source: str | None) -> str | None:
    if source is None:
        return None
    if source == "-":
        return sys.stdin.read()
    try:
        with open(source, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is not UTF-8 text.") from error


def _format_percent(value: float | None) -> str:
    return "" if value is None else f"{value:g} %"


def _format_limit_choice(record: dict[str, Any]) -> str:
    return f"go on in {_clean_line(record['on_limit'])}" if record["on_limit"] else ""


def _format_notes(record: dict[str, Any]) -> str:
    """Format what is special about a persona."""
    if record["retired_at"] is not None:
        return "retired"
    if stop_reason := record["automation_stopped"]:
        return f"automatic, stopped: {_clean_line(stop_reason)}"
    return "automatic" if record["automatic"] else ""


def _clean_line(text: str) -> str:
    return shorten_to_line(text, 200)
