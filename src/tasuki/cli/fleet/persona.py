"""`tasuki persona`: the personas of the fleet."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from tasuki.cli.completions import complete_program
from tasuki.cli.output import JSON_OPTION, format_table, print_json, print_records, print_result
from tasuki.errors import UsageError
from tasuki.harness.registry import DEFAULT
from tasuki.text_safety import clean_for_display, shorten_to_line

if TYPE_CHECKING:
    from tasuki.cli.fleet.client import FleetClient

SKILL_OPTION = click.option(
    "--skill", metavar="FILE|-", help="A file with its skill, or - for standard input."
)
HARNESS_OPTION = click.option(
    "--harness",
    metavar="H",
    shell_complete=complete_program,
    help="Harness of its agents: claude, codex, pi, …",
)
MODEL_OPTION = click.option(
    "--model", metavar="M", help="Model of its agents, as the harness names it."
)
THRESHOLD_OPTION = click.option("--threshold", type=click.FloatRange(1, 100), metavar="PERCENT",
                         help="Context use at which a handoff is due.")  # fmt: skip
ON_LIMIT_OPTION = click.option(
    "--on-limit", metavar="H",
    help="At a usage limit, hand its agent off to this harness; empty for none.",
)  # fmt: skip


def create_client() -> "FleetClient":
    """Create a client of the fleet's server."""
    from tasuki.cli.fleet.client import FleetClient

    return FleetClient()


@click.group()
def persona() -> None:
    """Add, list and edit the personas of the fleet.

    A persona is a named role that one agent after another takes on. Its folder holds its skill, its
    experience and the handoff documents. The server must be running: tasuki serve
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
def add(skill: str | None, harness: str | None, as_json: bool, **values: Any) -> None:
    """Create a persona. ROLE developer and NAME con make developer-con-1."""
    empty = {name: "" for name in ("model", "on_limit") if values[name] is None}
    body = {**values, **empty, "skill": _read_skill(skill) or "", "harness": harness or DEFAULT}
    added = create_client().post("personas", body=body)
    place = f"Its folder: {clean_for_display(added['folder'])}"
    print_result(as_json, {"persona": added}, clean_for_display(added["slug"]), place)


@persona.command("list")
@click.option("--all", "everything", is_flag=True, help="Include retired ones.")
@JSON_OPTION
def list_personas(everything: bool, as_json: bool) -> None:
    """List the personas."""
    server = create_client()
    records = server.get("personas")["personas"]
    if everything:
        records += server.get("personas", retired=True)["personas"]
    rows = [
        (p["slug"], p["harness"], shorten_to_line(p["model"]), _format_percent(p["threshold"]), _format_notes(p))
        for p in records
    ]  # fmt: skip
    table = format_table(("persona", "harness", "model", "threshold", ""), rows, right=(3,))
    empty = "No personas yet. Add one: tasuki persona add developer con"
    print_records(as_json, "personas", records, table, empty)


@persona.command()
@click.argument("slug")
@click.option("--add", "text", metavar="TEXT", help="Add a goal at the end.")
@click.option("--remove", type=click.IntRange(1), metavar="ID", help="Remove a waiting goal.")
@click.option("--first", type=click.IntRange(1), metavar="ID", help="Move a goal to the front.")
@click.option("--arrived", type=click.IntRange(1), metavar="ID",
              help="The uncertain goal did arrive; go on with the queue.")  # fmt: skip
@click.option("--again", type=click.IntRange(1), metavar="ID",
              help="The uncertain goal did not arrive; type it again.")  # fmt: skip
@click.option("--pause/--resume", "paused", default=None, help="Hold the queue, or release it.")
@JSON_OPTION
def queue(
    slug: str, text: str | None, remove: int | None, first: int | None, arrived: int | None,
    again: int | None, paused: bool | None, as_json: bool,
) -> None:  # fmt: skip
    """Queue goals for a persona. Without an option, list them.

    Its agent, or that agent's successor, gets the next goal when it is idle.
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
    note = f"Stopped: {record['stopped']}" if record["stopped"] else ""
    note = note or ("Paused. Resume it with --resume." if record["paused"] else "")
    if note:
        click.echo(clean_for_display(note), err=True)
    if not record["goals"]:
        click.echo("No goal waits. Add one: --add TEXT", err=True)
        return
    rows = [(str(g["id"]), g["state"], shorten_to_line(g["text"])) for g in record["goals"]]
    click.echo("\n".join(format_table(("id", "state", "goal"), rows, right=(0,))))


@persona.command()
@click.argument("slug")
@JSON_OPTION
def show(slug: str, as_json: bool) -> None:
    """Show a persona: its settings, its agents and its skill."""
    record = create_client().get("personas", slug)
    print_result(as_json, {"persona": record}, _describe_persona(record))


def _describe_persona(record: dict[str, Any]) -> Iterator[str]:
    working = ", ".join(f"agent {agent['id']} ({agent['state']})" for agent in record["agents"])
    rows = [
        ("persona", record["slug"]), ("harness", record["harness"]), ("model", shorten_to_line(record["model"])),
        ("threshold", _format_percent(record["threshold"]) or "as the settings say"),
        ("handoffs", _format_notes(record) or "on request"), ("on limit", f"go on in {shorten_to_line(record['on_limit'])}" if record["on_limit"] else ""), ("folder", shorten_to_line(record["folder"])),
        ("at work", working or "none"),
    ]  # fmt: skip
    yield from (f"{name:<10} {value}" for name, value in rows if value)
    yield ""
    yield clean_for_display(record["skill"]) or "(no skill)"


@persona.command()
@click.argument("slug")
@SKILL_OPTION
@HARNESS_OPTION
@MODEL_OPTION
@THRESHOLD_OPTION
@click.option("--default-threshold", is_flag=True, help="Use the default threshold again.")
@click.option("--automatic/--manual", default=None,
              help="Hand its agents off automatically at the threshold, or only on request.")  # fmt: skip
@ON_LIMIT_OPTION
@JSON_OPTION
def edit(
    slug: str, skill: str | None, default_threshold: bool, as_json: bool, **values: Any
) -> None:
    """Change a persona.

    Settings that you leave out stay as they are. Changes apply to agents that start later.
    """
    values["skill"] = _read_skill(skill)
    body: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    if default_threshold:
        body["threshold"] = None
    if not body:
        raise UsageError("Say what to change, for example: tasuki persona edit SLUG --skill FILE")
    changed = create_client().patch("personas", slug, body=body)
    sentence = f"{clean_for_display(changed['slug'])} was changed."
    print_result(as_json, {"persona": changed}, sentence)


@persona.command()
@click.argument("slug")
@click.argument("ids", nargs=-1, type=int, metavar="[IDS]…")
@click.option("--accept", "order", flag_value="accept", help="Add them to its experience.")
@click.option("--drop", "order", flag_value="drop", help="Discard them.")
@JSON_OPTION
def lessons(slug: str, ids: tuple[int, ...], order: str | None, as_json: bool) -> None:
    """Review the lessons that agents proposed for those after them.

    Without --accept or --drop, list them. IDS choose some; the default is all. Accepted lessons go
    into experience.md with their date, and every later agent reads them.
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
    note = "" if order else f"Accept or drop them: tasuki persona lessons {slug} --accept"
    lines = [
        f"{one['id']:>4}  {one['state']}  agent {one['agent_id']}: {shorten_to_line(one['text'])}"
        for one in shown_lessons
    ]
    note = note if lines else "No lessons are proposed."
    print_result(as_json, {"lessons": shown_lessons}, lines, note)


@persona.command()
@click.argument("slug")
def retire(slug: str) -> None:
    """Retire a persona: no more agents start as it.

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


def _format_notes(record: dict[str, Any]) -> str:
    if record["retired_at"] is not None:
        return "retired"
    if stop_reason := record["automation_stopped"]:
        return f"automatic, stopped: {shorten_to_line(stop_reason)}"
    return "automatic" if record["automatic"] else ""
