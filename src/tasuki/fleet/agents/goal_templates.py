"""Templates of goals: kept in the database, started as agents with their fields filled in."""

import time
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from msgspec.structs import asdict

from tasuki.errors import NotPossible
from tasuki.fleet.agents.lifecycle import read_folder
from tasuki.fleet.agents.personas import list_free
from tasuki.fleet.orders.bodies import NewAgent, NewTemplate, TemplateStart
from tasuki.fleet.store import log, queries, tables
from tasuki.fleet.store.database import FleetDatabase, update_row
from tasuki.fleet.store.models import GoalTemplate
from tasuki.harness.registry import require_control
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_text, shorten_to_line

MOST_TEMPLATES = 200
MOST_FIELDS = 12
_FIELD = compile_pattern(r"\{([A-Za-z][\w -]{0,39})\}")
"""A placeholder: letters, digits, blanks, hyphens; `{}` and `{"a": 1}` of code are none."""
_TEMPLATES = tables.goal_templates


def list_templates(database: FleetDatabase) -> list[GoalTemplate]:
    """List the templates, the one used last first."""
    newest = sa.func.coalesce(_TEMPLATES.c.used_at, _TEMPLATES.c.created_at)
    query = sa.select(_TEMPLATES).order_by(newest.desc(), _TEMPLATES.c.id)
    return queries.load_rows(GoalTemplate, database, query)


def load_template(source: queries.QuerySource, template_id: int) -> GoalTemplate:
    """Load a template. Raises NotPossible where there is none."""
    query = sa.select(_TEMPLATES).where(_TEMPLATES.c.id == min(template_id, queries.GREATEST_ID))
    if rows := queries.load_rows(GoalTemplate, source, query):
        return rows[0]
    raise NotPossible(f"There is no template {template_id}. List them: tasuki template list")


def add_template(database: FleetDatabase, values: NewTemplate) -> GoalTemplate:
    """Add a template. Raises NotPossible, UsageError, PersonaNotFound."""
    row = {**_check_values(database, values), "created_at": time.time()}
    with database.write(alone=True) as connection:
        _check_count(connection)
        _check_name(connection, row["name"], 0)
        query = sa.insert(_TEMPLATES).values(**row).returning(_TEMPLATES.c.id)
        template = load_template(connection, connection.execute(query).scalar_one())
        log.note(connection, "template", f"Template {template.name} was added.")
    return template


def edit_template(database: FleetDatabase, template_id: int, values: NewTemplate) -> GoalTemplate:
    """Replace what a template is made of. Raises NotPossible, UsageError, PersonaNotFound."""
    row = _check_values(database, values)
    with database.write(alone=True) as connection:
        load_template(connection, template_id)
        _check_name(connection, row["name"], template_id)
        update_row(connection, _TEMPLATES, template_id, **row)
        log.note(connection, "template", f"Template {row['name']} was changed.")
        return load_template(connection, template_id)


def remove_template(database: FleetDatabase, template_id: int) -> GoalTemplate:
    """Remove a template and return it; agents that it started stay. Raises NotPossible."""
    with database.write(alone=True) as connection:
        template = load_template(connection, template_id)
        connection.execute(sa.delete(_TEMPLATES).where(_TEMPLATES.c.id == template_id))
        log.note(connection, "template", f"Template {template.name} was removed.")
    return template


def restore_template(database: FleetDatabase, template: GoalTemplate) -> None:
    """Put a template back that was removed, under its id if that is free. Raises NotPossible."""
    values, is_same = asdict(template), _TEMPLATES.c.id == template.id
    with database.write(alone=True) as connection:
        _check_count(connection)
        _check_name(connection, template.name, 0)
        if connection.execute(sa.select(_TEMPLATES.c.id).where(is_same)).first():
            del values["id"]  # SQLite gives the greatest one again
        connection.execute(sa.insert(_TEMPLATES).values(**values))
        log.note(connection, "template", f"Template {template.name} was put back.")


def note_use(database: FleetDatabase, template_id: int) -> None:
    """Note that a template was used now."""
    with database.write(synced=False) as connection:
        update_row(connection, _TEMPLATES, template_id, used_at=time.time())


def list_fields(template: GoalTemplate) -> list[str]:
    """List the names of the fields of a template, in order."""
    return list(dict.fromkeys(_FIELD.findall(f"{template.goal}\n{template.folder}")))


def is_ready(template: GoalTemplate) -> bool:
    """Whether a template can be started as it is: nothing is left to fill in."""
    return bool(template.folder) and not list_fields(template)


def build_request(
    database: FleetDatabase, template: GoalTemplate, start: TemplateStart
) -> NewAgent:
    """Build the start of an agent from a template; a `cwd` takes the place of its own folder.

    Raises NotPossible where a field is empty or not of the template, or no persona of its role is
    free.
    """
    wanted, fields = list_fields(template), start.fields
    if missing := [name for name in wanted if not fields.get(name, "").strip()]:
        raise NotPossible(f"Fill in: {', '.join(missing)}.")
    if unknown := sorted(set(fields) - set(wanted)):
        raise NotPossible(f"{shorten_to_line(unknown[0], 60)!r} is no field of {template.name}.")
    cwd = read_folder(start.cwd.strip() or _fill_in(template.folder, fields))
    return NewAgent(
        harness=template.harness, persona=template.persona or _find_free(database, template.role),
        cwd=cwd, model=template.model, permission=template.permission,
        goal=_fill_in(template.goal, fields), host=start.host,
    )  # fmt: skip


def _fill_in(text: str, fields: Mapping[str, str]) -> str:
    """Fill in the fields at once: what is filled in is never taken for a field."""
    return _FIELD.sub(lambda match: fields[match[1]].strip(), text)


def _find_free(database: FleetDatabase, role: str) -> str:
    """Find a persona of a role as which nobody works; empty for no role. Raises NotPossible."""
    if not role:
        return ""
    if free := list_free(database, role):
        return free[0].slug
    is_known = any(one.role == role for one in queries.list_personas(database))
    why = "all of them work" if is_known else "there is none"
    raise NotPossible(
        f"No persona of the role {role} is free: {why}. Add one: tasuki persona add {role} NAME"
    )


def _check_count(connection: sa.Connection) -> None:
    count = connection.execute(sa.select(sa.func.count()).select_from(_TEMPLATES)).scalar_one()
    if count >= MOST_TEMPLATES:
        raise NotPossible(f"There are {count} templates already. Remove some first.")


def _check_name(connection: sa.Connection, name: str, own_id: int) -> None:
    query = sa.select(_TEMPLATES.c.id).where(_TEMPLATES.c.name == name, _TEMPLATES.c.id != own_id)
    if (id := connection.execute(query).scalars().first()) is not None:
        raise NotPossible(f"Template {id} is called {name} already. Choose another name.")


def _check_values(database: FleetDatabase, values: NewTemplate) -> dict[str, Any]:
    row = {x: clean_text(getattr(values, x)).strip() for x in values.__struct_fields__}
    row["name"] = shorten_to_line(row["name"], 80)
    if not row["name"]:
        raise NotPossible("A template needs a name.")
    if not row["goal"]:
        raise NotPossible("A template needs a goal. Words in braces become fields: Fix {issue}.")
    if row["persona"] and row["role"]:
        raise NotPossible("Name either a persona or a role, not both.")
    if row["persona"]:
        queries.load_persona(database, row["persona"])
    if row["harness"]:
        require_control(row["harness"])
    fields = set(_FIELD.findall(f"{row['goal']}\n{row['folder']}"))
    if len(fields) > MOST_FIELDS:
        raise NotPossible(f"{len(fields)} fields are too many: at most {MOST_FIELDS}.")
    if row["folder"] and not row["folder"].startswith("{"):
        row["folder"] = read_folder(row["folder"])
    return row
