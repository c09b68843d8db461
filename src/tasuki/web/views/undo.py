"""Orders that can be undone for a while, and the note in which a page says so.

An order is undone by the key of its note alone, which cannot be guessed and works once: no tab
undoes what another one ordered. It is undone only where nothing has changed it since.
"""

from collections.abc import Callable
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from tasuki.fleet.service import Fleet
from tasuki.web.views.notices import PageNotices

FIELD = "undo"
"""The parameter of an address whose page shows a note."""
UNDO_SECONDS = 600.0
"""How long an order can be undone: a page without scripts shows its note that long."""


class UndoOffer(Struct, frozen=True):
    """An order that can be undone."""

    done: str
    """What was done, as a sentence."""
    put_back: Callable[[Fleet], None]
    """Puts back what was there.

    Raises NoLongerPossible where it was changed since, NotPossible where it is refused for now.
    """
    undone: str
    """What is true once it is undone, as a sentence."""
    topics: frozenset[str] = frozenset()
    """What pages show of it, where the log says nothing."""


class PageNote(Struct, frozen=True):
    """A note over a page. `key` undoes what it says; empty where nothing can be undone."""

    sentence: str
    key: str = ""
    tone: str = "done"


def keep_note(notices: PageNotices, what: UndoOffer | PageNote) -> tuple[str, PageNote]:
    """Keep an offer or a note for the next page; return its key, and the note."""
    if isinstance(what, PageNote):
        return notices.add(what), what
    key = notices.add(what, UNDO_SECONDS)
    return key, PageNote(what.done, key)


def find_note(notices: PageNotices, key: str) -> PageNote | None:
    """Find the note that a page shows; None for none."""
    if not key:
        return None
    offer = notices.find(key, UndoOffer)
    return PageNote(offer.done, key) if offer else notices.find(key, PageNote)


def add_key(address: str, key: str) -> str:
    """Add the key of a note to the address of a page, in place of an older one."""
    url = urlsplit(address)
    query = [pair for pair in parse_qsl(url.query, keep_blank_values=True) if pair[0] != FIELD]
    return urlunsplit(url._replace(query=urlencode([*query, (FIELD, key)])))
