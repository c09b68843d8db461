"""Agents whose alerts are muted, and browsers that get notifications while they are closed."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table and add the columns."""
    op.create_table(
        "push_subscriptions",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("endpoint", sa.Text, nullable=False, unique=True),
        sa.Column("public_key", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("session_id", sa.Integer),
        sa.Column("proxy_user", sa.Text, nullable=False, server_default=""),
        sa.Column("made_at", sa.Double, nullable=False),
        sqlite_autoincrement=True,
    )
    op.add_column("agents", sa.Column("muted_until", sa.Double))
    op.add_column(
        "alerts", sa.Column("muted", sa.Boolean, nullable=False, server_default=sa.false())
    )
