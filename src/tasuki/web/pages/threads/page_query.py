"""How a thread is read on its page: what its address asks for, its links, and when it is made again."""

import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlencode

import sqlalchemy as sa
from litestar.params import QueryParameter
from msgspec import Struct

from tasuki.errors import UsageError
from tasuki.fleet.store import tables
from tasuki.fleet.store.database import FleetDatabase
from tasuki.patterns import compile_pattern
from tasuki.text_safety import shorten_to_line
from tasuki.threads.query import fold_accents
from tasuki.web.pages.threads import view
from tasuki.web.pages.threads.parts import PartQuery, ThreadPart, mark_days, split_terms
from tasuki.web.views.templates import parse_moment

RefQuery = Annotated[int, QueryParameter(ge=0, le=10**9)]
WordQuery = Annotated[str, QueryParameter(max_length=1000)]
TimeQuery = Annotated[str, QueryParameter(max_length=40)]
PROMPTS = "prompts"
UNIT_SECONDS = {"m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_SPAN = compile_pattern(r"(\d{1,5}) ?(min|[mhdw])\Z")


class ReadingQuery(Struct, frozen=True):
    """What the address of a thread's page asks for, as it is written there."""

    entry: int = 0
    start: int = 0
    at: str = ""
    since: str = ""
    find: str = ""
    who: str = ""

    def parse(self) -> PartQuery:
        """Parse the times. Raises UsageError."""
        if self.who not in ("", PROMPTS):
            raise UsageError(f"who: enter {PROMPTS} for the user's prompts, or leave it out.")
        return PartQuery(
            self.entry, self.start,
            at=parse_time("at", self.at) if self.at else None,
            since=parse_time("since", self.since) if self.since else None,
            find=self.find.strip(), prompts=bool(self.who),
        )  # fmt: skip


def parse_time(field: str, text: str) -> float:
    """Parse a time: a moment, `today`, or how long ago, such as `1h`. Raises UsageError."""
    text = text.strip()
    if text == "today":
        now = datetime.now().astimezone()
        return now.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    if span := _SPAN.match(text):
        return time.time() - int(span[1]) * UNIT_SECONDS[span[2]]
    moment = parse_moment(text)
    if moment is None:
        shown = shorten_to_line(text, 60)
        raise UsageError(
            f"{field}: {shown} is no time. Enter a moment such as 2026-11-21T14:30, or 1h, 2d or today."
        )
    return moment


class ThreadLinks:
    """The addresses of one thread; `kept` are the fields of a search that all of them keep."""

    def __init__(self, base: str, query: ReadingQuery, **kept: object) -> None:
        self.base = base
        self.query = query
        self.kept = {name: value for name, value in kept.items() if value}

    def build(self, entry: int = 0, **fields: object) -> str:
        """Build the address of a part; the search within and the choice of entries stay."""
        chosen = {"find": self.query.find, "who": self.query.who, "entry": entry, **fields}
        text = urlencode({**self.kept, **{k: v for k, v in chosen.items() if v}})
        address = f"{self.base}?{text}" if text else self.base
        return f"{address}#e{entry}" if entry else address

    def list_hidden(self, *left_out: str) -> list[tuple[str, str]]:
        """List the hidden fields of a form of the page, without those that it asks for."""
        fields = {**self.kept, "find": self.query.find, "who": self.query.who}
        return [(k, str(v)) for k, v in fields.items() if v and k not in left_out]

    def find_fixed(self, part: ThreadPart) -> str:
        """Find the address that means the same part later; empty where the page's own does.

        A time such as `1h`, a moment to go to, and words alone become what they mean now.
        """
        query = self.query
        if query.at or part.target not in (0, query.entry):
            return self.build(part.target)
        since = query.since.strip()
        if since == "today" or _SPAN.match(since):  # it means another moment tomorrow
            moment = datetime.fromtimestamp(parse_time("since", query.since))
            return self.build(since=moment.isoformat(timespec="seconds"))
        return ""


def build_context(
    links: ThreadLinks, part: ThreadPart, words: Sequence[str], base: str
) -> dict[str, Any]:
    """Build what the page of a thread shows of a part; `words` are those of a search of all threads."""
    query = links.query
    terms = [fold_accents(term) for term in split_terms(query.find)]
    anywhere = bool(terms)
    since = parse_time("since", query.since) if query.since and not query.entry else None
    return {
        "shown": part, "links": links, "query": query, "entry": part.target, "since": since,
        "rows": list(mark_days(part.items)), "words": terms or words, "plain_here": base,
        "is_end": not part.after and not query.who,
        "marked": partial(view.mark_words, anywhere=anywhere),
        "marked_prose": partial(view.mark_words_in_prose, anywhere=anywhere),
    }  # fmt: skip


def list_agent_ids(database: FleetDatabase, harness: str, session: str) -> list[int]:
    """List the agents that have or had a thread, the newest first."""
    agents = tables.agents.c
    query = sa.select(agents.id).where(agents.session == session, agents.harness == harness)
    with database.read() as connection:
        return list(connection.execute(query.order_by(agents.id.desc()).limit(20)).scalars())
