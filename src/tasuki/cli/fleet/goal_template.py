"""`tasuki template`: goals that are used again."""

import os
from typing import Any

import click

from tasuki.cli.completions import complete_program
from tasuki.cli.fleet.persona import create_client
from tasuki.cli.output import JSON_OPTION, format_table, print_records, print_result
from tasuki.errors import UsageError
from tasuki.text_safety import shorten_to_line


@click.group()
def template() -> None:
    """Keep goals for reuse, and start agents from them.

    Words in braces become fields: Fix {issue} in {module}. The server must be running: tasuki serve
    """


@template.command("list")
@JSON_OPTION
def list_templates(as_json: bool) -> None:
    """List the templates, the one used last first."""
    records = create_client().get("templates")["templates"]
    rows = [
        (str(t["id"]), shorten_to_line(t["name"], 80), t["persona"] or t["role"], ", ".join(t["fields"]), shorten_to_line(t["goal"], 80))
        for t in records
    ]  # fmt: skip
    table = format_table(("id", "template", "works as", "fields", "goal"), rows, right=(0,))
    empty = "No templates yet. Add one: tasuki template add NAME GOAL"
    print_records(as_json, "templates", records, table, empty)


@template.command()
@click.argument("name")
@click.argument("goal")
@click.option("--persona", default="", metavar="SLUG", help="Persona its agents work as.")
@click.option("--role", default="", metavar="ROLE", help="Use the first free persona of this role.")
@click.option("--cwd", "folder", default="", metavar="DIR", help="Folder they work in.")
@click.option(
    "--harness", default="", metavar="H", shell_complete=complete_program, help="Harness they run."
)
@click.option("--model", default="", metavar="M", help="Model, as the harness names it.")
@click.option("--permission", default="", metavar="MODE", help="Permission mode of the harness.")
@JSON_OPTION
def add(as_json: bool, **values: str) -> None:
    """Add a template from a name and a goal."""
    if (folder := values["folder"]) and not folder.startswith("{"):
        values["folder"] = os.path.abspath(folder)
    record = create_client().post("templates", body=values)
    print_result(as_json, {"template": record}, str(record["id"]))


@template.command()
@click.argument("name_or_id")
@click.option("--set", "given", multiple=True, metavar="FIELD=TEXT", help="Fill in a field.")
@click.option("--cwd", default="", metavar="DIR", help="Use this folder instead of the template's.")
@JSON_OPTION
def start(name_or_id: str, given: tuple[str, ...], cwd: str, as_json: bool) -> None:
    """Start an agent from a template, in the template's folder or this one."""
    record = _find_template(name_or_id)
    fields = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals:
            raise UsageError(f"{shorten_to_line(one, 60)!r} fills in no field: --set FIELD=TEXT")
        fields[name.strip()] = value
    folder = os.path.abspath(cwd or ".") if cwd or not record["folder"] else ""
    started = create_client().post(
        "templates", record["id"], "start", body={"fields": fields, "cwd": folder}
    )
    look = f"Look at it: tasuki agent attach {started['id']}"
    print_result(as_json, {"agent": started}, str(started["id"]), look)


@template.command()
@click.argument("name_or_id")
def remove(name_or_id: str) -> None:
    """Remove a template. Agents started from it stay."""
    create_client().delete("templates", _find_template(name_or_id)["id"])


def _find_template(name_or_id: str) -> dict[str, Any]:
    for record in create_client().get("templates")["templates"]:
        if name_or_id in (record["name"], str(record["id"])):
            return dict(record)
    raise UsageError(
        f"There is no template {shorten_to_line(name_or_id, 60)!r}. List them: tasuki template list"
    )
