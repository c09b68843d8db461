"""Templates of goals, the goals that wait for a persona, and the brief from which an agent began."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None
WORDS = ("persona", "role", "folder", "harness", "model", "permission")


def upgrade() -> None:
    """Create the tables, add columns."""
    op.create_table(
        "goal_templates",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("name", sa.Text, nullable=False, unique=True),
        sa.Column("goal", sa.Text, nullable=False),
        *(sa.Column(word, sa.Text, nullable=False, server_default="") for word in WORDS),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("used_at", sa.Double),
    )
    op.create_table(
        "queued_goals",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("persona", sa.Text, sa.ForeignKey("personas.slug"), nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("key", sa.Text, nullable=False, server_default=""),
        sa.Column("agent_id", sa.Integer, sa.ForeignKey("agents.id")),
        sa.Column("typed_at", sa.Double),
    )
    op.create_index("queued_goals_by_persona", "queued_goals", ["persona", "place"])
    paused = sa.Column("queue_paused", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("personas", paused)
    stopped = sa.Column("queue_stopped", sa.Text, nullable=False, server_default="")
    op.add_column("personas", stopped)
    op.add_column("agents", sa.Column("brief", sa.Text, nullable=False, server_default=""))
