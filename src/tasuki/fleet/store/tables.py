"""The tables of the fleet. Times are seconds since 1970, UTC."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement

from tasuki.harness.registry import DEFAULT

metadata = sa.MetaData()


class CurrentTransaction(FunctionElement[int]):
    """The number of the current transaction; 0 on SQLite, where one writes at a time."""

    inherit_cache = True
    type = sa.BigInteger()


@compiles(CurrentTransaction)
def _compile_transaction(element: CurrentTransaction, compiler: Any, **_: Any) -> str:
    is_postgres = compiler.dialect.name == "postgresql"
    return "((pg_current_xact_id())::text)::bigint" if is_postgres else "0"


personas = sa.Table(
    "personas",
    metadata,
    sa.Column("slug", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("folder", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("harness", sa.Text, nullable=False, server_default=DEFAULT),
    sa.Column("model", sa.Text, nullable=False, server_default=""),
    sa.Column("threshold", sa.Double),
    sa.Column("automatic", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("automation_stopped", sa.Text, nullable=False, server_default=""),
    sa.Column("retired_at", sa.Double),
    sa.Column("on_limit", sa.Text, nullable=False, server_default=""),
    sa.Column("queue_paused", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("queue_stopped", sa.Text, nullable=False, server_default=""),
    sa.UniqueConstraint("role", "name", "number", name="one_slug"),
)

agents = sa.Table(
    "agents",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("harness", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("state_at", sa.Double, nullable=False),
    sa.Column("cwd", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("started_at", sa.Double, nullable=False),
    sa.Column("session", sa.Text, nullable=False, server_default=""),
    sa.Column("thread", sa.Text, nullable=False, server_default=""),
    sa.Column("persona", sa.Text, sa.ForeignKey("personas.slug")),
    sa.Column("previous_agent_id", sa.Integer, sa.ForeignKey("agents.id")),
    sa.Column("pane", sa.Text, nullable=False, server_default=""),
    sa.Column("window", sa.Text, nullable=False, server_default=""),
    sa.Column("pid", sa.Integer),
    sa.Column("process", sa.Integer),  # the harness itself, which may be below the pane's process
    sa.Column("process_began", sa.Text, nullable=False, server_default=""),
    sa.Column("ordered_at", sa.Double),  # when its order file had been written
    sa.Column("vetoed_at", sa.Double),  # when a compaction of it was vetoed
    sa.Column("model", sa.Text, nullable=False, server_default=""),
    sa.Column("permission", sa.Text, nullable=False, server_default=""),
    sa.Column("arguments", sa.JSON, nullable=False, server_default="[]"),
    sa.Column("goal", sa.Text, nullable=False, server_default=""),
    sa.Column("adopted", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("token_hash", sa.Text, nullable=False, server_default=""),
    sa.Column("registered_at", sa.Double),
    sa.Column("skill_at", sa.Double),
    sa.Column("ended_at", sa.Double),
    sa.Column("end_reason", sa.Text, nullable=False, server_default=""),
    sa.Column("children", sa.JSON, nullable=False, server_default="[]"),
    sa.Column("turn_at", sa.Double),  # when the turn began whose end was not reported yet
    sa.Column("context_used", sa.Double),
    sa.Column("context_tokens", sa.Integer),
    sa.Column("context_window", sa.Integer),
    sa.Column("context_at", sa.Double),
    sa.Column("context_source", sa.Text, nullable=False, server_default=""),
    sa.Column("over_threshold", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("waiting_for", sa.Text, nullable=False, server_default=""),
    sa.Column("last_words", sa.Text, nullable=False, server_default=""),
    sa.Column("limit_text", sa.Text, nullable=False, server_default=""),
    sa.Column("limited_until", sa.Double),
    sa.Column("stuck_at", sa.Double),
    sa.Column("stuck_with", sa.Text, nullable=False, server_default=""),
    sa.Column("forked_from", sa.Integer, sa.ForeignKey("agents.id")),
    sa.Column("order_id", sa.Text, nullable=False, server_default=""),  # of another host
    sa.Column("question", sa.JSON(none_as_null=True)),  # what it asks its user
    sa.Column("begun_commit", sa.Text),  # empty: there was none; None: nobody looked
    sa.Column("begun_branch", sa.Text, nullable=False, server_default=""),
    sa.Column("changes", sa.JSON(none_as_null=True)),  # a summary of its work
    sa.Column("muted_until", sa.Double),  # its alerts are only listed
    sa.Column("brief", sa.Text, nullable=False, server_default=""),  # id of a stored handoff
    sa.Column("failure", sa.JSON(none_as_null=True)),  # of its last turn
)
sa.Index("agents_by_session", agents.c.session)
sa.Index("agents_by_token", agents.c.token_hash)
sa.Index("agents_by_pane", agents.c.pane)
sa.Index("agents_by_persona", agents.c.persona)

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("event_id", sa.Text, unique=True),  # of a hook's event; None for tasuki's own
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("received_at", sa.Double, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("agent_id", sa.Integer, sa.ForeignKey("agents.id")),
    sa.Column("handoff_id", sa.Text),
    sa.Column("text", sa.Text, nullable=False, server_default=""),
    sa.Column("data", sa.JSON, nullable=False, server_default="{}"),
    # the transaction that wrote it: lines of several hosts are read in this order
    sa.Column("xid", sa.BigInteger, nullable=False, server_default=CurrentTransaction()),
    sqlite_autoincrement=True,
)
sa.Index("events_in_order", events.c.xid, events.c.id)
sa.Index("events_by_agent", events.c.agent_id, events.c.id)
sa.Index("events_by_handoff", events.c.handoff_id, events.c.id)

handoffs = sa.Table(
    "handoffs",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("agent_id", sa.Integer, sa.ForeignKey("agents.id"), nullable=False),
    sa.Column("persona", sa.Text, sa.ForeignKey("personas.slug"), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("context", sa.Text, nullable=False, server_default=""),
    sa.Column("force", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("from_thread", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("automatic", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("step", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False, server_default="1"),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("queue", sa.Text, nullable=False),
    sa.Column("file_path", sa.Text, nullable=False, server_default=""),
    sa.Column("author", sa.Text, nullable=False, server_default=""),
    sa.Column("recorded_at", sa.Double),
    sa.Column("injection_prompt", sa.Text, nullable=False, server_default=""),
    sa.Column("successor_id", sa.Integer, sa.ForeignKey("agents.id")),
    sa.Column("acknowledged_at", sa.Double),
    sa.Column("finished_at", sa.Double),
    sa.Column("failure", sa.JSON(none_as_null=True)),
    sa.Column("notes", sa.JSON, nullable=False, server_default="[]"),
    sa.Column("goal", sa.Text, nullable=False, server_default=""),
    sa.Column("harness", sa.Text, nullable=False, server_default=""),
    sa.Column("fork", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("worktree", sa.Text, nullable=False, server_default=""),
    sa.Column("branch", sa.Text, nullable=False, server_default=""),
    sa.Column("target_host", sa.Text, nullable=False, server_default=""),  # of a move
    sa.Column("move", sa.JSON(none_as_null=True)),  # its plan, and what is done of it
)
sa.Index(
    "one_handoff_per_agent",
    handoffs.c.agent_id,
    unique=True,
    sqlite_where=sa.text("state != 'cancelled' AND NOT fork"),
    postgresql_where=sa.text("state != 'cancelled' AND NOT fork"),
)
sa.Index("handoffs_by_state", handoffs.c.state)

lessons = sa.Table(
    "lessons",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("persona", sa.Text, sa.ForeignKey("personas.slug"), nullable=False),
    sa.Column("handoff_id", sa.Text, sa.ForeignKey("handoffs.id"), nullable=False),
    sa.Column("agent_id", sa.Integer, sa.ForeignKey("agents.id"), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # proposed, accepted, dropped
    sa.Column("proposed_at", sa.Double, nullable=False),
    sa.Column("decided_at", sa.Double),
)
sa.Index("lessons_by_persona", lessons.c.persona, lessons.c.id)

steps = sa.Table(
    "steps",
    metadata,
    sa.Column("handoff_id", sa.Text, sa.ForeignKey("handoffs.id"), primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("step", sa.Text, primary_key=True),
    sa.Column("started_at", sa.Double, nullable=False),
    sa.Column("ended_at", sa.Double),
    sa.Column("outcome", sa.Text, nullable=False, server_default=""),
    sa.Column("note", sa.Text, nullable=False, server_default=""),
)

intents = sa.Table(
    "intents",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("agent_id", sa.Integer, sa.ForeignKey("agents.id"), nullable=False),
    sa.Column("handoff_id", sa.Text),
    sa.Column("kind", sa.Text, nullable=False),  # instruction, skill, prompt, exit, message
    sa.Column("pane", sa.Text, nullable=False),
    sa.Column("proof", sa.Text, nullable=False),  # words that only this text has
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # intended, sent, proven, uncertain
    sa.Column("proven_at", sa.Double),
    sa.Column("turn", sa.Text, nullable=False, server_default=""),
    sa.Column(
        "turns_before", sa.Integer, nullable=False, server_default="0"
    ),  # turns that it waits for
    sa.Column("ended_at", sa.Double),  # when the turn that it began had ended
    sa.Column("end", sa.JSON(none_as_null=True)),  # what that end reported
)
sa.Index("intents_by_agent", intents.c.agent_id)

alerts = sa.Table(
    "alerts",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("key", sa.Text, nullable=False, unique=True),  # what makes it one event
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),  # whose server sends it
    sa.Column("agent_id", sa.Integer, sa.ForeignKey("agents.id")),
    sa.Column("handoff_id", sa.Text),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False, server_default="due"),
    sa.Column("problem", sa.Text, nullable=False, server_default=""),
    sa.Column("seen_at", sa.Double),
    sa.Column("muted", sa.Boolean, nullable=False, server_default=sa.false()),  # as its agent was
    sqlite_autoincrement=True,
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

goal_templates = sa.Table(
    "goal_templates",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("goal", sa.Text, nullable=False),
    sa.Column("persona", sa.Text, nullable=False, server_default=""),
    sa.Column("role", sa.Text, nullable=False, server_default=""),
    sa.Column("folder", sa.Text, nullable=False, server_default=""),
    sa.Column("harness", sa.Text, nullable=False, server_default=""),
    sa.Column("model", sa.Text, nullable=False, server_default=""),
    sa.Column("permission", sa.Text, nullable=False, server_default=""),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("used_at", sa.Double),
)

queued_goals = sa.Table(
    "queued_goals",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("persona", sa.Text, sa.ForeignKey("personas.slug"), nullable=False),
    sa.Column("place", sa.Integer, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # waiting, typing, typed, uncertain
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("key", sa.Text, nullable=False, server_default=""),  # of its claim, in the outbox
    sa.Column("agent_id", sa.Integer, sa.ForeignKey("agents.id")),  # to which it was typed
    sa.Column("typed_at", sa.Double),
    # which wrote its text, by its role of PostgreSQL; empty for one that owns the tables
    sa.Column("host", sa.Text, nullable=False, server_default=""),
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
