"""Views of the fleet that the operator saved under a name: the query of the fleet page."""

import time

import sqlalchemy as sa
from msgspec import Struct

from tasuki.errors import NotPossible
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.text_safety import shorten_to_line

MOST_VIEWS = 20
MOST_NAME_CHARACTERS = 40
_TABLE = tables.saved_views


class SavedView(Struct, frozen=True):
    """A saved view."""

    name: str
    query: str


def list_views(database: FleetDatabase) -> list[SavedView]:
    """List the saved views, oldest first."""
    query = sa.select(_TABLE.c.name, _TABLE.c.query).order_by(_TABLE.c.saved_at, _TABLE.c.name)
    with database.read() as connection:
        return [SavedView(*row) for row in connection.execute(query)]


def save_view(database: FleetDatabase, name: str, query: str) -> None:
    """Save a view; one of the same name is replaced. Raises NotPossible."""
    name = _clean_name(name)
    if not name:
        raise NotPossible("A saved view needs a name.")
    with database.write() as connection:
        connection.execute(sa.delete(_TABLE).where(_TABLE.c.name == name))
        count = connection.execute(sa.select(sa.func.count()).select_from(_TABLE)).scalar_one()
        if count >= MOST_VIEWS:
            raise NotPossible(f"There are {MOST_VIEWS} saved views: remove one first.")
        values = {"name": name, "query": query, "saved_at": time.time()}
        connection.execute(sa.insert(_TABLE).values(values))


def remove_view(database: FleetDatabase, name: str) -> None:
    """Remove a saved view, if it is there."""
    with database.write() as connection:
        connection.execute(sa.delete(_TABLE).where(_TABLE.c.name == _clean_name(name)))


def _clean_name(name: str) -> str:
    """Return a name as it is saved: one line, which both databases take."""
    return shorten_to_line(name.encode("utf-8", "replace").decode(), MOST_NAME_CHARACTERS)
