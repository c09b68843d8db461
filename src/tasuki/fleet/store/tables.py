"""The tables of the fleet, most of them the structs of `models.py`. Times are seconds since 1970, UTC."""

import json
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

import msgspec
import sqlalchemy as sa
from msgspec import NODEFAULT, Struct
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import SchemaItem
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import TypeEngine

from tasuki.fleet.store import models

metadata = sa.MetaData()
NEVER_REUSED = ("events", "alerts")
"""Tables whose ids are not given again after the newest row was deleted."""


class CurrentTransaction(FunctionElement[int]):
    """The number of the current transaction; 0 on SQLite, where one writes at a time."""

    inherit_cache = True
    type = sa.BigInteger()


@compiles(CurrentTransaction)
def _compile_transaction(element: CurrentTransaction, compiler: Any, **_: Any) -> str:
    is_postgres = compiler.dialect.name == "postgresql"
    return "((pg_current_xact_id())::text)::bigint" if is_postgres else "0"


_TYPES: dict[Any, type[TypeEngine[Any]]] = {
    int: sa.Integer, float: sa.Double, str: sa.Text, bool: sa.Boolean,
}  # fmt: skip


def build_table(
    name: str, row: type[Struct], *more: SchemaItem, key: str = "id", **references: str
) -> sa.Table:
    """Build a table: a column for each field of a struct, and what else it has.

    `key` is the field that is its primary key; `references` are the columns of other tables that
    fields hold.
    """
    columns = []
    for field in msgspec.structs.fields(row):
        kinds = get_args(field.type) if isinstance(field.type, UnionType) else (field.type,)
        kind: TypeEngine[Any] = sa.JSON(none_as_null=True)
        if kinds[0] in _TYPES or get_origin(kinds[0]) is Literal:
            kind = _TYPES.get(kinds[0], sa.Text)()
        default = field.default if field.default is not NODEFAULT else None
        if field.default_factory is not NODEFAULT:
            default = field.default_factory()
        reference = references.get(field.name)
        columns.append(sa.Column(
            field.name, kind, *(() if reference is None else (sa.ForeignKey(reference),)),
            primary_key=field.name == key, nullable=NoneType in kinds,
            server_default=None if default is None else _write_default(default),
        ))  # fmt: skip
    return sa.Table(name, metadata, *columns, *more, sqlite_autoincrement=name in NEVER_REUSED)


def _write_default(value: Any) -> Any:
    if isinstance(value, bool):
        return sa.true() if value else sa.false()
    return value if isinstance(value, str) else json.dumps(value)


personas = build_table(
    "personas",
    models.Persona,
    sa.UniqueConstraint("role", "name", "number", name="one_slug"),
    key="slug",
)

agents = build_table(
    "agents",
    models.FleetAgent,
    sa.Column("token_hash", sa.Text, nullable=False, server_default=""),
    sa.Column("order_id", sa.Text, nullable=False, server_default=""),  # of another host
    persona="personas.slug",
    previous_agent_id="agents.id",
    forked_from="agents.id",
)
sa.Index("agents_by_session", agents.c.session)
sa.Index("agents_by_token", agents.c.token_hash)
sa.Index("agents_by_pane", agents.c.pane)
sa.Index("agents_by_persona", agents.c.persona)

events = build_table(
    "events",
    models.FleetEvent,
    sa.Column("event_id", sa.Text, unique=True),  # of a hook's event; None for tasuki's own
    # the transaction that wrote it: lines of several hosts are read in this order
    sa.Column("xid", sa.BigInteger, nullable=False, server_default=CurrentTransaction()),
    agent_id="agents.id",
)
sa.Index("events_in_order", events.c.xid, events.c.id)
sa.Index("events_by_agent", events.c.agent_id, events.c.id)
sa.Index("events_by_handoff", events.c.handoff_id, events.c.id)

handoffs = build_table(
    "handoffs", models.FleetHandoff, agent_id="agents.id", persona="personas.slug",
    successor_id="agents.id",
)  # fmt: skip
sa.Index(
    "one_handoff_per_agent",
    handoffs.c.agent_id,
    unique=True,
    sqlite_where=sa.text("state != 'cancelled' AND NOT fork"),
    postgresql_where=sa.text("state != 'cancelled' AND NOT fork"),
)
sa.Index("handoffs_by_state", handoffs.c.state)

lessons = build_table(
    "lessons", models.PersonaLesson, persona="personas.slug", handoff_id="handoffs.id",
    agent_id="agents.id",
)  # fmt: skip
sa.Index("lessons_by_persona", lessons.c.persona, lessons.c.id)

steps = build_table(
    "steps",
    models.StepRun,
    sa.Column("handoff_id", sa.Text, sa.ForeignKey("handoffs.id")),
    sa.PrimaryKeyConstraint("handoff_id", "attempt", "step"),
    key="",
)

intents = build_table("intents", models.TypingIntent, agent_id="agents.id")
sa.Index("intents_by_agent", intents.c.agent_id)

alerts = build_table(
    "alerts", models.OperatorAlert, sa.UniqueConstraint("key"), agent_id="agents.id"
)
sa.Index("alerts_by_state", alerts.c.state, alerts.c.id)

browser_sessions = sa.Table(
    "browser_sessions",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("key_hash", sa.Text, nullable=False, unique=True),  # of the cookie's value
    sa.Column("host", sa.Text, nullable=False),  # whose server signed the browser in
    sa.Column("user_agent", sa.Text, nullable=False, server_default=""),
    sa.Column("made_at", sa.Double, nullable=False),
    sa.Column("used_at", sa.Double, nullable=False),
    sa.Column("ends_at", sa.Double, nullable=False),
    sqlite_autoincrement=True,
)
sa.Index("browser_sessions_by_host", browser_sessions.c.host)

hosts = sa.Table(
    "hosts",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("label", sa.Text, nullable=False),  # the machine's name
    sa.Column("version", sa.Text, nullable=False),  # of tasuki
    sa.Column("started_at", sa.Double, nullable=False),  # its server, the last time
    sa.Column("given_label", sa.Text, nullable=False, server_default=""),  # by the operator
    sa.Column("boot_id", sa.Text, nullable=False, server_default=""),
    sa.Column("address", sa.Text, nullable=False, server_default=""),
    sa.Column("role", sa.Text, nullable=False, server_default=""),  # of PostgreSQL
    sa.Column("epoch", sa.Integer, nullable=False, server_default="0"),  # starts of its server
    sa.Column("last_seen", sa.Double),  # by the clock of the database
    sa.Column("given_up_at", sa.Double),
    sa.Column("retired_at", sa.Double),
    sa.Column("details", sa.JSON, nullable=False, server_default="{}"),
    sa.Column("public_key", sa.Text, nullable=False, server_default=""),  # proves its orders
)

persona_files = sa.Table(
    "persona_files",
    metadata,
    sa.Column("slug", sa.Text, sa.ForeignKey("personas.slug"), primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("changed_at", sa.Double, nullable=False),
    sa.Column("host", sa.Text, nullable=False),  # where it was changed
)

documents = sa.Table(
    "documents",
    metadata,
    sa.Column("handoff_id", sa.Text, sa.ForeignKey("handoffs.id"), primary_key=True),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("changed_at", sa.Double, nullable=False),
)

goal_templates = build_table("goal_templates", models.GoalTemplate, sa.UniqueConstraint("name"))

queued_goals = build_table(
    "queued_goals",
    models.QueuedGoal,
    sa.Column("key", sa.Text, nullable=False, server_default=""),  # of its claim, in the outbox
    # which wrote its text, by its role of PostgreSQL; empty for one that owns the tables
    sa.Column("host", sa.Text, nullable=False, server_default=""),
    persona="personas.slug",
    agent_id="agents.id",
)
sa.Index("queued_goals_by_persona", queued_goals.c.persona, queued_goals.c.place)

context_samples = sa.Table(
    "context_samples",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("agent_id", sa.Integer, sa.ForeignKey("agents.id"), nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("tokens", sa.Integer),  # in its context
    sa.Column("used", sa.Double),  # percent of its window
    sa.Column("input_tokens", sa.BigInteger),  # since its session began, as those below
    sa.Column("output_tokens", sa.BigInteger),
    sa.Column("cost", sa.Double),  # US dollars
)
sa.Index("context_samples_by_agent", context_samples.c.agent_id, context_samples.c.at)

parcels = sa.Table(
    "parcels",
    metadata,
    sa.Column("handoff_id", sa.Text, sa.ForeignKey("handoffs.id"), primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),  # a piece of a git bundle
)

thread_copies = sa.Table(
    "thread_copies",
    metadata,
    sa.Column("agent_id", sa.Integer, sa.ForeignKey("agents.id"), primary_key=True),
    sa.Column("record", sa.JSON, nullable=False),
    sa.Column("stored_at", sa.Double, nullable=False),
)

thread_blocks = sa.Table(
    "thread_blocks",
    metadata,
    sa.Column("agent_id", sa.Integer, sa.ForeignKey("agents.id"), primary_key=True),
    sa.Column("part", sa.Integer, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),  # compressed by Zstandard
)

host_requests = sa.Table(
    "host_requests",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("host", sa.Text, nullable=False),  # who is asked
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("data", sa.JSON, nullable=False),
    sa.Column("asked_at", sa.Double, nullable=False),
)
host_answers = sa.Table(
    "host_answers",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("content", sa.JSON, nullable=False),
    sa.Column("answered_at", sa.Double, nullable=False),
)

join_tokens = sa.Table(
    "join_tokens",
    metadata,
    sa.Column("role", sa.Text, primary_key=True),  # the role of PostgreSQL that it opens
    sa.Column("label", sa.Text, nullable=False, server_default=""),
    sa.Column("made_at", sa.Double, nullable=False),
    sa.Column("ends_at", sa.Double, nullable=False),
    sa.Column("used_at", sa.Double),
    sa.Column("host", sa.Text, nullable=False, server_default=""),
)
