"""A peek at an agent, over the page that lists it: what it asks, does and said last."""

import os

from litestar.params import FromQuery
from msgspec import Struct
from msgspec.structs import replace

from tasuki.errors import TasukiError
from tasuki.fleet.orders.agents import find_agent_host
from tasuki.fleet.orders.order import order
from tasuki.fleet.parts import FleetParts
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries
from tasuki.fleet.store.models import FleetAgent
from tasuki.threads.passages import EntryCleaner
from tasuki.web.handlers import AnyRequest, PathId, TheFleet, show_page
from tasuki.web.pages.fleet import cards
from tasuki.web.pages.threads import remote
from tasuki.web.pages.threads.files import THREAD_CACHE
from tasuki.web.pages.threads.parts import PartQuery, ThreadPart, build_part
from tasuki.web.pages.threads.view import ShownEntry
from tasuki.web.views import display, templates
from tasuki.web.views.hosts import find_absence
from tasuki.web.views.templates import PageResponse

MOST_MESSAGES = 3
MOST_CHARACTERS = 600
"""Most characters of a message that are shown."""
ASK_SECONDS = 4.0
"""How long the host of an agent is waited for: a peek is short."""
SHORT_BYTES = 500_000
"""A thread of so many bytes is read in no time."""
MESSAGE_KINDS = ("user", "assistant")


class LastMessages(Struct, frozen=True):
    """The last messages of a thread, oldest first, without secrets; `problem` says why there are none."""

    messages: tuple[ShownEntry, ...] = ()
    problem: str = ""


@show_page("/agents/{id:int}/peek")
def show_peek(
    request: AnyRequest, fleet: TheFleet, id: PathId, whole: FromQuery[bool] = False
) -> PageResponse:
    """Show in short what an agent asks, does, changed and said last.

    Over a page it comes without its messages where these take long to be read, and the page asks
    for the `whole` then: a question does not wait for them.
    """
    agent = queries.load_agent(fleet.database, id)
    card = cards.build_cards(fleet, [id])[0]
    shown_agent = display.redact_row(agent)
    command = shown_agent.changes.command if shown_agent.changes and agent.ended_at is None else ""
    is_whole = whole or not request.headers.get("hx-request") or _is_read_at_once(fleet, agent)
    return templates.render_page(
        request, "peek.html", card=card, agent=shown_agent, live=f"agent:{id}",
        command="" if command and command in card.sentence else command,
        last=read_last_messages(fleet, agent) if is_whole else None,
    )  # fmt: skip


def _is_read_at_once(fleet: Fleet, agent: FleetAgent) -> bool:
    """Whether the messages of an agent are read in no time."""
    if agent.host != fleet.host and not fleet.database.is_sqlite:
        return False
    try:
        return not agent.session or (
            bool(agent.thread) and os.stat(agent.thread).st_size <= SHORT_BYTES
        )
    except (OSError, ValueError):
        return False


def read_last_messages(fleet: Fleet, agent: FleetAgent) -> LastMessages:
    """Read the last messages of an agent's thread, where its host is."""
    if not agent.session:
        return LastMessages(problem="Its session has not begun.")
    is_here = agent.host == fleet.host or fleet.database.is_sqlite
    if not is_here and (absence := find_absence(fleet.database, agent.host)):
        return LastMessages(problem=absence)
    try:
        read = read_last_part.function if is_here else read_last_part
        part = read(fleet, agent.id)
    except TasukiError as error:
        return LastMessages(problem=str(error))
    messages = _choose_last(part)
    is_calls_alone = part.items and not messages
    return LastMessages(messages, "Only tool calls lately." if is_calls_alone else "")


@order("look", find_agent_host, seconds=ASK_SECONDS)
def read_last_part(fleet: FleetParts, id: int) -> ThreadPart:
    """Read the part that the thread's page shows: a secret is known where its name was read before it."""
    adapter, file = remote.find_session_thread(queries.load_agent(fleet.database, id))
    return build_part(THREAD_CACHE.read_thread(adapter, file), PartQuery(), EntryCleaner())


def _choose_last(part: ThreadPart) -> tuple[ShownEntry, ...]:
    """Choose what the user and the agent said last, shortened, oldest first."""
    entries = (one for one in part.items if isinstance(one, ShownEntry))
    said = [one for one in entries if one.kind in MESSAGE_KINDS and one.text.strip()]
    return tuple(map(_shorten, said[-MOST_MESSAGES:]))


def _shorten(one: ShownEntry) -> ShownEntry:
    text = one.text.strip()
    if len(text) <= MOST_CHARACTERS and not one.whole:
        return replace(one, text=text)
    return replace(one, text=f"{text[:MOST_CHARACTERS].rstrip()} …")
