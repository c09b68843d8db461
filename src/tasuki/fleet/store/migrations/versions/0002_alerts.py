"""Alerts for the operator, each once; and the last words of agents."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a table and a column."""
    op.create_table(
        "alerts",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("key", sa.Text, nullable=False, unique=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("agent_id", sa.Integer, sa.ForeignKey("agents.id")),
        sa.Column("handoff_id", sa.Text),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False, server_default="due"),
        sa.Column("problem", sa.Text, nullable=False, server_default=""),
        sa.Column("seen_at", sa.Double),
        sqlite_autoincrement=True,
    )
    op.create_index("alerts_by_state", "alerts", ["state", "id"])
    op.add_column("agents", sa.Column("last_words", sa.Text, nullable=False, server_default=""))
