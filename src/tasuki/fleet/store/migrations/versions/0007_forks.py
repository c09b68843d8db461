"""Forks: handoffs whose agent goes on, and where an agent was forked from."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add columns, and leave forks out of the rule that an agent is handed off once."""
    op.execute("ALTER TABLE agents ADD COLUMN forked_from INTEGER REFERENCES agents (id)")
    fork = sa.Column("fork", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("handoffs", fork)
    for name in ("worktree", "branch"):
        op.add_column("handoffs", sa.Column(name, sa.Text, nullable=False, server_default=""))
    op.drop_index("one_handoff_per_agent", "handoffs")
    unfinished = sa.text("state != 'cancelled' AND NOT fork")
    op.create_index(
        "one_handoff_per_agent",
        "handoffs",
        ["agent_id"],
        unique=True,
        sqlite_where=unfinished,
        postgresql_where=unfinished,
    )
