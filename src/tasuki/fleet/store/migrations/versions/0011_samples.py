"""Samples of the context use of agents, and of what they have spent."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "context_samples",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("agent_id", sa.Integer, sa.ForeignKey("agents.id"), nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("tokens", sa.Integer),
        sa.Column("used", sa.Double),
        sa.Column("input_tokens", sa.BigInteger),
        sa.Column("output_tokens", sa.BigInteger),
        sa.Column("cost", sa.Double),
    )
    op.create_index("context_samples_by_agent", "context_samples", ["agent_id", "at"])
