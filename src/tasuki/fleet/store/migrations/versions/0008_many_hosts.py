"""Many hosts: what is known of each, what they share, and what they ask of one another."""

import sqlalchemy as sa
from alembic import op

from tasuki.fleet.store.tables import CurrentTransaction

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add columns and tables."""
    _extend_hosts()
    _extend_events()
    _extend_handoffs()
    _create_shared_files()
    _create_thread_copies()
    _create_exchange()


def _extend_hosts() -> None:
    for name in ("given_label", "boot_id", "address", "role"):
        op.add_column("hosts", sa.Column(name, sa.Text, nullable=False, server_default=""))
    op.add_column("hosts", sa.Column("epoch", sa.Integer, nullable=False, server_default="0"))
    for name in ("last_seen", "given_up_at", "retired_at"):
        op.add_column("hosts", sa.Column(name, sa.Double))
    details = sa.Column("details", sa.JSON, nullable=False, server_default="{}")
    op.add_column("hosts", details)


def _extend_events() -> None:
    """Lines that exist already count as older than every transaction."""
    old = sa.Column("xid", sa.BigInteger, nullable=False, server_default=sa.text("0"))
    op.add_column("events", old)
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("events", "xid", server_default=CurrentTransaction())
    op.create_index("events_in_order", "events", ["xid", "id"])


def _extend_handoffs() -> None:
    order = sa.Column("order_id", sa.Text, nullable=False, server_default="")
    op.add_column("agents", order)
    target = sa.Column("target_host", sa.Text, nullable=False, server_default="")
    op.add_column("handoffs", target)
    op.add_column("handoffs", sa.Column("move", sa.JSON(none_as_null=True)))


def _create_shared_files() -> None:
    op.create_table(
        "persona_files",
        sa.Column("slug", sa.Text, sa.ForeignKey("personas.slug"), primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("changed_at", sa.Double, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
    )
    op.create_table(
        "documents",
        sa.Column("handoff_id", sa.Text, sa.ForeignKey("handoffs.id"), primary_key=True),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("changed_at", sa.Double, nullable=False),
    )
    op.create_table(
        "parcels",
        sa.Column("handoff_id", sa.Text, sa.ForeignKey("handoffs.id"), primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )


def _create_thread_copies() -> None:
    op.create_table(
        "thread_copies",
        sa.Column("agent_id", sa.Integer, sa.ForeignKey("agents.id"), primary_key=True),
        sa.Column("record", sa.JSON, nullable=False),
        sa.Column("stored_at", sa.Double, nullable=False),
    )
    op.create_table(
        "thread_blocks",
        sa.Column("agent_id", sa.Integer, sa.ForeignKey("agents.id"), primary_key=True),
        sa.Column("part", sa.Integer, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )


def _create_exchange() -> None:
    """PostgreSQL does not write these tables into its log: an answer is old after seconds."""
    prefixes = ["UNLOGGED"] if op.get_bind().dialect.name == "postgresql" else []
    op.create_table(
        "host_requests",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sa.Column("asked_at", sa.Double, nullable=False),
        prefixes=prefixes,
    )
    op.create_table(
        "host_answers",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("content", sa.JSON, nullable=False),
        sa.Column("answered_at", sa.Double, nullable=False),
        prefixes=prefixes,
    )
    op.create_table(
        "join_tokens",
        sa.Column("role", sa.Text, primary_key=True),
        sa.Column("label", sa.Text, nullable=False, server_default=""),
        sa.Column("made_at", sa.Double, nullable=False),
        sa.Column("ends_at", sa.Double, nullable=False),
        sa.Column("used_at", sa.Double),
        sa.Column("host", sa.Text, nullable=False, server_default=""),
    )
