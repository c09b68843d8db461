"""The goal of a handoff; lessons that agents propose for their persona."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a column and a table."""
    op.add_column("handoffs", sa.Column("goal", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "lessons",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("persona", sa.Text, sa.ForeignKey("personas.slug"), nullable=False),
        sa.Column("handoff_id", sa.Text, sa.ForeignKey("handoffs.id"), nullable=False),
        sa.Column("agent_id", sa.Integer, sa.ForeignKey("agents.id"), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("proposed_at", sa.Double, nullable=False),
        sa.Column("decided_at", sa.Double),
    )
    op.create_index("lessons_by_persona", "lessons", ["persona", "id"])
