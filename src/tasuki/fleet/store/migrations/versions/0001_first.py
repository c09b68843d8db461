"""The tables as they were in the first fleet."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table."""
    _create_personas()
    _create_agents()
    _create_events()
    _create_handoffs()
    _create_steps()
    _create_intents()


def _create_personas() -> None:
    op.create_table(
        "personas",
        sa.Column("slug", sa.Text, primary_key=True),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("folder", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("harness", sa.Text, nullable=False, server_default="claude"),
        sa.Column("model", sa.Text, nullable=False, server_default=""),
        sa.Column("threshold", sa.Double),
        sa.Column("automatic", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("automation_stopped", sa.Text, nullable=False, server_default=""),
        sa.Column("retired_at", sa.Double),
        sa.UniqueConstraint("role", "name", "number", name="one_slug"),
    )


def _create_agents() -> None:
    op.create_table(
        "agents",
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
        sa.Column("process", sa.Integer),
        sa.Column("process_began", sa.Text, nullable=False, server_default=""),
        sa.Column("ordered_at", sa.Double),
        sa.Column("vetoed_at", sa.Double),
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
        sa.Column("turn_at", sa.Double),
        sa.Column("context_used", sa.Double),
        sa.Column("context_tokens", sa.Integer),
        sa.Column("context_window", sa.Integer),
        sa.Column("context_at", sa.Double),
        sa.Column("context_source", sa.Text, nullable=False, server_default=""),
        sa.Column("over_threshold", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("waiting_for", sa.Text, nullable=False, server_default=""),
    )
    op.create_index("agents_by_session", "agents", ["session"])
    op.create_index("agents_by_token", "agents", ["token_hash"])
    op.create_index("agents_by_pane", "agents", ["pane"])
    op.create_index("agents_by_persona", "agents", ["persona"])


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("event_id", sa.Text, unique=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("received_at", sa.Double, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("agent_id", sa.Integer, sa.ForeignKey("agents.id")),
        sa.Column("handoff_id", sa.Text),
        sa.Column("text", sa.Text, nullable=False, server_default=""),
        sa.Column("data", sa.JSON, nullable=False, server_default="{}"),
        sqlite_autoincrement=True,
    )
    op.create_index("events_by_agent", "events", ["agent_id", "id"])
    op.create_index("events_by_handoff", "events", ["handoff_id", "id"])


def _create_handoffs() -> None:
    op.create_table(
        "handoffs",
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
    )
    is_not_cancelled = sa.text("state != 'cancelled'")
    op.create_index(
        "one_handoff_per_agent",
        "handoffs",
        ["agent_id"],
        unique=True,
        sqlite_where=is_not_cancelled,
        postgresql_where=is_not_cancelled,
    )
    op.create_index("handoffs_by_state", "handoffs", ["state"])


def _create_steps() -> None:
    op.create_table(
        "steps",
        sa.Column("handoff_id", sa.Text, sa.ForeignKey("handoffs.id"), primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True),
        sa.Column("step", sa.Text, primary_key=True),
        sa.Column("started_at", sa.Double, nullable=False),
        sa.Column("ended_at", sa.Double),
        sa.Column("outcome", sa.Text, nullable=False, server_default=""),
        sa.Column("note", sa.Text, nullable=False, server_default=""),
    )


def _create_intents() -> None:
    op.create_table(
        "intents",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("agent_id", sa.Integer, sa.ForeignKey("agents.id"), nullable=False),
        sa.Column("handoff_id", sa.Text),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("pane", sa.Text, nullable=False),
        sa.Column("proof", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("proven_at", sa.Double),
        sa.Column("turn", sa.Text, nullable=False, server_default=""),
        sa.Column("turns_before", sa.Integer, nullable=False, server_default="0"),
        sa.Column("ended_at", sa.Double),
        sa.Column("end", sa.JSON(none_as_null=True)),
    )
    op.create_index("intents_by_agent", "intents", ["agent_id"])
