"""`tasuki persona`: the personas of the fleet."""

import sys
from typing import TYPE_CHECKING, Any

import click

from tasuki.cli.printing import print_json, table
from tasuki.errors import UsageError
from tasuki.plain import one_line, shown

if TYPE_CHECKING:
    from tasuki.cli.fleet_client import Client

AS_JSON = click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on standard output."
)
SKILL = click.option(
    "--skill", metavar="FILE|-", help="A file with its skill, or - for standard input."
)
HARNESS = click.option("--harness", metavar="H", help="What its agents run: claude, codex, pi, …")
MODEL = click.option(
    "--model", metavar="M", help="The model of its agents, in the harness's words."
)
THRESHOLD = click.option("--threshold", type=click.FloatRange(1, 100), metavar="PERCENT",
                         help="Context use that raises an event.")  # fmt: skip


def client() -> "Client":
    """The server of the fleet."""
    from tasuki.cli.fleet_client import Client

    return Client()


@click.group()
def persona() -> None:
    """Add, list and edit the personas of the fleet.

    A persona is a role with a name, whose agents succeed one another. Its folder holds its skill,
    its experience and the handoff documents of its agents. Needs the server: tasuki serve
    """


@persona.command()
@click.argument("role")
@click.argument("name")
@SKILL
@HARNESS
@MODEL
@THRESHOLD
@click.option(
    "--automatic", is_flag=True, help="Hand its agents off by themselves at the threshold."
)
@AS_JSON
def add(
    role: str, name: str, skill: str | None, harness: str | None, model: str | None,
    threshold: float | None, automatic: bool, as_json: bool,
) -> None:  # fmt: skip
    """Make a persona of a role and a name: developer con makes developer-con-1."""
    body: dict[str, Any] = {"role": role, "name": name, "skill": _skill(skill) or "",
                            "harness": harness or "claude", "model": model or "",
                            "threshold": threshold, "automatic": automatic}  # fmt: skip
    made = client().post("personas", body=body)
    if as_json:
        print_json({"persona": made})
        return
    click.echo(shown(made["slug"]))
    click.echo(f"Its folder: {shown(made['folder'])}", err=True)


@persona.command("list")
@click.option("--all", "everything", is_flag=True, help="Those that are retired too.")
@AS_JSON
def list_personas(everything: bool, as_json: bool) -> None:
    """List the personas."""
    server = client()
    found = server.get("personas")["personas"]
    if everything:
        found += server.get("personas", retired=True)["personas"]
    if as_json:
        print_json({"personas": found})
    elif not found:
        click.echo("No personas yet. Add one: tasuki persona add developer con", err=True)
    else:
        rows = [
            (p["slug"], p["harness"], _line(p["model"]), _percent(p["threshold"]), _notes(p))
            for p in found
        ]
        titles = ("persona", "harness", "model", "threshold", "")
        click.echo("\n".join(table(titles, rows, right=(3,))))


@persona.command()
@click.argument("slug")
@AS_JSON
def show(slug: str, as_json: bool) -> None:
    """Show a persona: its settings, who works as it, its skill."""
    found = client().get("personas", slug)
    if as_json:
        print_json({"persona": found})
        return
    working = ", ".join(f"agent {agent['id']} ({agent['state']})" for agent in found["agents"])
    rows = [
        ("persona", found["slug"]), ("harness", found["harness"]), ("model", _line(found["model"])),
        ("threshold", _percent(found["threshold"]) or "as the settings say"),
        ("handoffs", _notes(found) or "when they are asked for"), ("folder", _line(found["folder"])),
        ("at work", working or "nobody"),
    ]  # fmt: skip
    for name, value in rows:
        if value:
            click.echo(f"{name:<10} {value}")
    click.echo("")
    click.echo(shown(found["skill"]) or "(no skill)")


@persona.command()
@click.argument("slug")
@SKILL
@HARNESS
@MODEL
@THRESHOLD
@click.option("--default-threshold", is_flag=True, help="Take the threshold of the settings again.")
@click.option("--automatic/--manual", default=None,
              help="Hand its agents off by themselves at the threshold, or not.")  # fmt: skip
@AS_JSON
def edit(
    slug: str, skill: str | None, harness: str | None, model: str | None, threshold: float | None,
    default_threshold: bool, automatic: bool | None, as_json: bool,
) -> None:  # fmt: skip
    """Change a persona.

    What is not given stays. Its next agents are started with it.
    """
    given = {
        "skill": _skill(skill), "harness": harness, "model": model, "threshold": threshold,
        "automatic": automatic,
    }  # fmt: skip
    body: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if default_threshold:
        body["threshold"] = None
    if not body:
        raise UsageError("Say what to change, for example: tasuki persona edit SLUG --skill FILE")
    changed = client().patch("personas", slug, body=body)
    if as_json:
        print_json({"persona": changed})
    else:
        click.echo(f"{shown(changed['slug'])} was changed.")


@persona.command()
@click.argument("slug")
@click.argument("ids", nargs=-1, type=int, metavar="[IDS]…")
@click.option("--accept", "order", flag_value="accept", help="Add them to its experience.")
@click.option("--drop", "order", flag_value="drop", help="Do without them.")
@AS_JSON
def lessons(slug: str, ids: tuple[int, ...], order: str | None, as_json: bool) -> None:
    """Review what its agents propose that later ones should know for good.

    Without --accept or --drop they are listed. IDS are some of them; without any, all are meant.
    What is accepted is added to experience.md with its date, and each later agent is given it.
    """
    server = client()
    if order:
        body = {"order": order, "ids": list(ids)}
        found = server.post("personas", slug, "lessons", body=body)["lessons"]
    else:
        told = server.get("personas", slug, "lessons")["lessons"]
        found = [
            one for one in told if one["state"] == "proposed" and (not ids or one["id"] in ids)
        ]
    if as_json:
        print_json({"lessons": found})
        return
    for one in found:
        click.echo(f"{one['id']:>4}  {one['state']}  agent {one['agent_id']}: {_line(one['text'])}")
    if not found:
        click.echo("No lessons are proposed.", err=True)
    elif not order:
        click.echo(f"Accept or drop them: tasuki persona lessons {slug} --accept", err=True)


@persona.command()
@click.argument("slug")
def retire(slug: str) -> None:
    """Start no more agents of a persona.

    Its folder and its history stay.
    """
    gone = client().delete("personas", slug)
    click.echo(f"{shown(gone['slug'])} is retired. Its folder stays: {shown(gone['folder'])}")


def _skill(source: str | None) -> str | None:
    if source is None:
        return None
    if source == "-":
        return sys.stdin.read()
    try:
        with open(source, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is no text in UTF-8.") from error


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:g} %"


def _notes(of: dict[str, Any]) -> str:
    """What is special about a persona, in words."""
    if of["retired_at"] is not None:
        return "retired"
    if stopped := of["automation_stopped"]:
        return f"automatic, stopped: {_line(stopped)}"
    return "automatic" if of["automatic"] else ""


def _line(text: str) -> str:
    return one_line(text, 200)
