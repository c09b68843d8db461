"""One order for many agents: hand off, send a prompt, stop. Each agent's result is told by itself."""

import asyncio
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Literal

from litestar import post
from litestar.datastructures import State
from litestar.params import QueryParameter
from msgspec import Struct

from tasuki.errors import NotPossible, TasukiError
from tasuki.fleet.orders import agents
from tasuki.fleet.orders.bodies import AgentMessage, NewHandoff
from tasuki.fleet.orders.handoffs import hand_off
from tasuki.fleet.service import Fleet
from tasuki.web.api import error_answers, forms
from tasuki.web.handlers import AnyRequest, FormValues, PathWord, TheFleet, show_page, take_last
from tasuki.web.pages.fleet import cards
from tasuki.web.pages.fleet.cards import AgentCard
from tasuki.web.views import display, templates
from tasuki.web.views.templates import PageResponse

MOST_AGENTS = 200
AT_ONCE = 8
"""Agents that get their order at the same time."""
MOST_RESULTS = 50
"""Bulk orders whose results are kept for their page."""
QUICK_SECONDS = 0.5
"""An order that is carried out within this time is shown with its results at once."""
BulkOrder = Literal["handoff", "send", "stop"]
WORDS: Mapping[str, str] = {"handoff": "Hand off", "send": "Send to", "stop": "Stop"}
DONE_WORDS: Mapping[str, str] = {"handoff": "handed off", "send": "sent to", "stop": "stopped"}


class BulkResult(Struct, frozen=True):
    """What became of the order for one agent."""

    card: AgentCard
    is_done: bool
    sentence: str
    handoff: str = ""


class BulkResults(Struct):
    """The results of an order; `rows` has each agent's as soon as it is known."""

    order: str
    cards: tuple[AgentCard, ...]
    rows: list[BulkResult] = []

    @property
    def waiting(self) -> list[AgentCard]:
        """The agents whose results are not known yet."""
        known = {row.card.id for row in self.rows}
        return [card for card in self.cards if card.id not in known]

    @property
    def done(self) -> int:
        """How many orders were carried out."""
        return sum(row.is_done for row in self.rows)


@show_page("/bulk")
def show_bulk_form(
    request: AnyRequest,
    fleet: TheFleet,
    do: Annotated[BulkOrder, QueryParameter()] = "handoff",
    past: Annotated[bool, QueryParameter()] = False,
) -> PageResponse:
    """Ask whether to give an order to the selected agents, or to all past their threshold."""
    picked = None if past else _parse_ids(request.query_params.getall("id", []))
    chosen = _choose_cards(fleet, picked)
    return _render_form(request, do, chosen, {"page": secrets.token_hex(8)})


def _parse_ids(texts: Sequence[str]) -> list[int]:
    ids = map(forms.parse_number, texts)
    return list(dict.fromkeys(id for id in ids if id))


def _choose_cards(fleet: Fleet, ids: Sequence[int] | None) -> list[AgentCard]:
    """Choose the cards of some agents; without ids of all that are past their threshold."""
    if ids is None:
        return [card for card in cards.build_cards(fleet) if card.is_past]
    return cards.build_cards(fleet, ids) if ids else []


def _render_form(
    request: AnyRequest,
    order: str,
    chosen: Sequence[AgentCard],
    values: Mapping[str, str],
    refused: str = "",
    status: int = 200,
) -> PageResponse:
    choices = [(card, _find_refusal(order, card)) for card in chosen[:MOST_AGENTS]]
    return templates.render_page(
        request, "bulk_form.html", status, order=order, word=WORDS[order], choices=choices,
        possible=[card for card, why in choices if not why], values=values, refused=refused,
        beyond=max(0, len(chosen) - MOST_AGENTS), most=MOST_AGENTS,
    )  # fmt: skip


def _find_refusal(order: str, card: AgentCard) -> str:
    """Find out why an order is not possible for an agent; empty where it may be."""
    if order == "handoff":
        words = {
            "": "it has no persona, or a successor", "thread": "it has no persona, or a successor",
            "open": "its handoff needs you", "follow": "its handoff is under way",
        }  # fmt: skip
        return f"{card.host} is away" if card.asleep else words.get(card.can, "")
    if card.shown.icon == "end" or card.shown.word == "Lost":
        return "it has ended"
    return f"{card.host} is away" if card.asleep else ""


@post("/bulk")
async def give_bulk_order(
    request: AnyRequest, state: State, fleet: TheFleet, fields: FormValues
) -> PageResponse:
    """Give an order to the agents that the form names, and show what became of each."""
    form = take_last(fields)
    order = form.get("do", "")
    if order not in WORDS:
        raise NotPossible("The form names no order: hand off, send or stop.")
    ids = _parse_ids(fields.get("id", []))
    chosen = (await asyncio.to_thread(_choose_cards, fleet, ids))[:MOST_AGENTS]
    problem = _check_form(order, form, chosen)
    if problem:
        return await asyncio.to_thread(
            _render_form, request, order, chosen, form, problem, error_answers.get_status(NotPossible(problem))
        )  # fmt: skip
    results = BulkResults(order, tuple(chosen))
    key = _keep_results(state, results)
    loop = asyncio.get_running_loop()
    given = loop.run_in_executor(None, _give_orders, fleet, results, form)
    await asyncio.wait([given], timeout=QUICK_SECONDS)
    return templates.redirect(request, f"/bulk/{key}")


def _check_form(order: str, form: Mapping[str, str], chosen: Sequence[AgentCard]) -> str:
    if not chosen:
        return "No agent is selected."
    if order == "send" and not form.get("text", "").strip():
        return "There is nothing to send: write a prompt."
    if order == "handoff" and not form.get("reason", "").strip():
        return "A handoff needs a reason."
    return ""


def _give_orders(fleet: Fleet, results: BulkResults, form: Mapping[str, str]) -> None:
    def give(card: AgentCard) -> None:
        row = BulkResult(card, False, "That failed: the server’s log says more.")
        try:
            row = _give_order(fleet, results.order, card, form)
        except TasukiError as error:
            row = BulkResult(card, False, str(error))
        finally:
            results.rows.append(row)

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="bulk") as pool:
        list(pool.map(give, results.cards))


def _give_order(fleet: Fleet, order: str, card: AgentCard, form: Mapping[str, str]) -> BulkResult:
    """Give an order to one agent; a prompt of the same form only once. Raises TasukiError."""
    if order == "stop":
        agents.stop_agent(fleet, card.id)
        return BulkResult(card, True, "It was told to end.")
    if order == "send":
        body = forms.fill_body(AgentMessage, {"text": form.get("text", "")})
        page, text_hash = form.get("page", ""), hashlib.sha256(body.text.encode()).hexdigest()
        sent = agents.send_text(fleet, card.id, body, f"{page} {text_hash}" if page else "")
        said = display.describe_delivery(sent["state"], sent["why"])
        return BulkResult(card, sent["state"] != "refused", said)
    fields = {
        "reason": form.get("reason", "").strip(),
        "from": "thread" if card.can == "from thread" else "agent",
    }
    handoff = hand_off(fleet, card.id, forms.fill_body(NewHandoff, fields))
    return BulkResult(card, True, "Its handoff has begun.", handoff.id)


def _keep_results(state: State, results: BulkResults) -> str:
    """Keep results for their page, until the server stops or others push them out; return their key."""
    kept: OrderedDict[str, BulkResults] = state.setdefault("bulk_results", OrderedDict())
    key = secrets.token_urlsafe(12)
    kept[key] = results
    while len(kept) > MOST_RESULTS:
        kept.popitem(last=False)
    return key


@show_page("/bulk/{key:str}")
def show_bulk_results(request: AnyRequest, state: State, key: PathWord) -> PageResponse:
    """Show what became of an order for many agents."""
    results = state.get("bulk_results", {}).get(key)
    word = DONE_WORDS[results.order] if results else ""
    return templates.render_page(request, "bulk_results.html", results=results, word=word, key=key)
