"""Views of the fleet under a name, on both databases."""

import pytest

from tasuki.errors import NotPossible
from tasuki.fleet.store import saved_views
from tasuki.fleet.store.database import FleetDatabase

NAMES = ("By role", "a" * 300, "😀" * 60, "\u202eevil\x00", "\ud83d x", "tab\tand\nline", '"><b>')


@pytest.mark.parametrize("name", NAMES)
def test_a_view_of_any_name_is_removed_by_it(database: FleetDatabase, name: str) -> None:
    """By the name as it was given, and by the one that is shown."""
    for given in (False, True):
        saved_views.save_view(database, name, "by=role")
        (saved,) = saved_views.list_views(database)
        assert len(saved.name) <= 40
        saved_views.remove_view(database, name if given else saved.name)

        assert saved_views.list_views(database) == []


def test_a_view_of_no_name_is_refused(database: FleetDatabase) -> None:
    """Also one of nothing that can be seen; nothing of such a name is removed either."""
    for name in ("", "   ", "\x00"):
        saved_views.remove_view(database, name)
        with pytest.raises(NotPossible, match="needs a name"):
            saved_views.save_view(database, name, "")
