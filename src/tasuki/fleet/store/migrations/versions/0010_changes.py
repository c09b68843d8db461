"""What agents change: where each began, and a summary of its work for its card."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add columns; of agents from before it is not known where they began."""
    op.add_column("agents", sa.Column("begun_commit", sa.Text))
    branch = sa.Column("begun_branch", sa.Text, nullable=False, server_default="")
    op.add_column("agents", branch)
    op.add_column("agents", sa.Column("changes", sa.JSON(none_as_null=True)))
