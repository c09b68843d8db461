"""Kept handoffs: listed, read next to their threads, edited, started, pruned."""

import shlex
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated
from urllib.parse import urlencode

import sqlalchemy as sa
from litestar import Response
from litestar.params import FromQuery, QueryParameter
from markupsafe import escape
from msgspec import Struct

from tasuki import handoffs as kept_handoffs
from tasuki.draft import brief as briefs
from tasuki.draft.redact.redactor import redact
from tasuki.errors import AlreadyUnderWay, GoalHasSecret, NotPossible, TasukiError, UsageError
from tasuki.fleet.agents import personas
from tasuki.fleet.exchange.shared_files import share_persona
from tasuki.fleet.orders.agents import adopt_agent
from tasuki.fleet.orders.bodies import Adoption, NewPersona
from tasuki.fleet.service import Fleet
from tasuki.fleet.store import queries, tables
from tasuki.fleet.store.models import FleetAgent
from tasuki.handoffs import PreparedHandoff
from tasuki.harness import registry as harnesses
from tasuki.launch import LaunchResult, find_running_programs
from tasuki.model import Handoff
from tasuki.text_safety import clean_for_display
from tasuki.threads.passages import EntryCleaner
from tasuki.threads.search import find_prunable, list_candidates, rank_candidates
from tasuki.vault import Vault
from tasuki.web.handlers import (
    AnyRequest,
    FormFields,
    PathId,
    PathWord,
    TheFleet,
    find_refusal,
    show_page,
    take_form,
)
from tasuki.web.pages.threads import brief_view, remote
from tasuki.web.pages.threads.brief_view import STATE_SHAPES, load_brief_view
from tasuki.web.pages.threads.drafts import JOBS
from tasuki.web.views import templates
from tasuki.web.views.display import StateBadge, get_harness_title
from tasuki.web.views.templates import PageResponse, parse_moment

EntryRef = Annotated[int, QueryParameter(ge=0, le=10**9)]
MOST_LISTED = 200
MOST_NOTES = 100
"""Handoffs whose notes on their starts are kept."""


class SuccessorStarts:
    """Starts each handoff once at a time; the notes stay until the server ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running_ids: set[str] = set()
        self._notes: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    def list_notes(self, handoff_id: str) -> tuple[str, ...]:
        """List the notes on the last start of a handoff; empty if this server did not start it."""
        with self._lock:
            return self._notes.get(handoff_id, ())

    def start_successor(self, fleet: Fleet, id: str, form: Mapping[str, str]) -> str:
        """Start a successor in a tmux window, as a form requests; return the handoff's whole id.

        It becomes an agent of the fleet. Returns once it is up and the brief is in its input, which
        may take most of a minute. Raises HandoffNotFound, AlreadyUnderWay, NotPossible, UsageError,
        PersonaNotFound, HarnessMissing or LaunchFailed.
        """
        prepared = kept_handoffs.load_handoff(Vault(), id, form.get("to", ""))
        if not prepared.successor.can_start:
            raise NotPossible(f"{prepared.successor.title} starts no successor.")
        handoff_id = prepared.handoff.id
        check_persona(fleet, form)
        with self._lock:
            if handoff_id in self._running_ids:
                raise AlreadyUnderWay(
                    "This handoff is being started. Wait until its page says where it runs."
                )
            self._running_ids.add(handoff_id)
        try:
            notes = [
                f"The thread is still open: {one}" for one in find_running_programs(prepared.thread)
            ]
            launched = kept_handoffs.start_successor(
                prepared, where="tmux", tell=notes.append, send=bool(form.get("send")),
                model=form.get("model", "").strip(), socket=fleet.panes.tmux.socket,
            )  # fmt: skip
            notes += take_into_fleet(fleet, prepared, launched, form)
            look = shlex.join(launched.attach) or "it is next to the server's window"
            place = f"{prepared.successor.title} runs in the tmux pane {launched.target}. Look at it: {look}"
            cleaner = EntryCleaner()
            with self._lock:
                said = (place, *prepared.warnings, *notes)
                self._notes[handoff_id] = tuple(map(cleaner.clean_text, said))
                self._notes.move_to_end(handoff_id)
                while len(self._notes) > MOST_NOTES:
                    self._notes.popitem(last=False)
        finally:
            with self._lock:
                self._running_ids.discard(handoff_id)
        return handoff_id


SUCCESSOR_STARTS = SuccessorStarts()


class BriefListLine(Struct, frozen=True):
    """A handoff in the list, with the lines that match."""

    id: str
    goal: str
    state: StateBadge
    created: float | None
    route: str
    tokens: int
    lines: Sequence[str] = ()


# -- the list --------------------------------------------------------------------------


@show_page("/briefs")
def show_briefs(
    request: AnyRequest, q: Annotated[str, QueryParameter(max_length=1000)] = ""
) -> PageResponse:
    """Show the kept handoffs, newest first, or those that have some words."""
    vault = Vault()
    matches = (
        rank_candidates(list_candidates(vault), q, MOST_LISTED)
        if q.strip()
        else [(handoff, ()) for handoff in vault.list_handoffs()]
    )
    return templates.render_page(
        request, "briefs.html", q=q, count=len(matches), problems=vault.problems[:3],
        lines=[_build_line(vault, handoff, lines) for handoff, lines in matches[:MOST_LISTED]],
    )  # fmt: skip


def _build_line(vault: Vault, handoff: Handoff, lines: Sequence[str] = ()) -> BriefListLine:
    cleaner = EntryCleaner()
    to = get_harness_title(handoff.to) if handoff.to else "no successor"
    return BriefListLine(
        handoff.id, cleaner.clean_line(handoff.goal.shown, 200), STATE_SHAPES[vault.load_state(handoff.id)],
        parse_moment(handoff.created), f"{get_harness_title(handoff.predecessor.harness)} to {to}", handoff.tokens,
        [cleaner.clean_line(line, 300) for line in lines],
    )  # fmt: skip


@show_page("/briefs/prune")
def show_prune_form(
    request: AnyRequest,
    fleet: TheFleet,
    days: FromQuery[str] = "30",
    keep: FromQuery[str] = "0",
    drafts: FromQuery[str] = "1",
) -> PageResponse:
    """Show which handoffs would be deleted."""
    message = request.app.state.notices.find(request.query_params.get("said", ""), str) or ""
    values = {"days": days, "keep": keep, "drafts": drafts}
    vault, refused = Vault(), ""
    try:
        prunable = _find_prunable(vault, fleet, values)
    except TasukiError as error:
        prunable, refused = [], str(error)
    return templates.render_page(
        request, "prune.html", 400 if refused else 200, values=values, refused=refused, said=message,
        going=[_build_line(vault, handoff) for handoff in prunable],
    )  # fmt: skip


def _find_prunable(vault: Vault, fleet: Fleet, values: dict[str, str]) -> list[Handoff]:
    """Find the handoffs that would be deleted. Raises NotPossible."""
    numbers = [values.get(name, "").strip() or "0" for name in ("days", "keep")]
    if not all(n.isascii() and n.isdigit() and len(n) < 6 for n in numbers):
        raise NotPossible("Days and how many to keep must be whole numbers.")
    days, keep = map(int, numbers)
    only_drafts = values.get("drafts") == "1"
    if not (days or keep or only_drafts):
        raise NotPossible(
            "Choose which: those older than some days, only drafts, or all but the newest."
        )
    needed = queries.find_needed_handoffs(fleet.database)
    prunable = find_prunable(
        vault, days=days, keep=keep, only_drafts=only_drafts, now=time.time(), needed=needed
    )
    if vault.problems:
        raise NotPossible(
            f"Nothing is deleted while a handoff cannot be read, because it may descend from any: {vault.problems[0]}"
        )
    return prunable


@take_form("/briefs/prune")
def prune_briefs(request: AnyRequest, fleet: TheFleet, form: FormFields) -> PageResponse:
    """Delete the handoffs that were shown, if they still may be deleted; never threads."""
    vault, agreed_ids = Vault(), set(form.get("ids", "").split())
    to_delete = [
        handoff for handoff in _find_prunable(vault, fleet, form) if handoff.id in agreed_ids
    ]
    for handoff in to_delete:
        vault.remove(handoff.id)
    kept = {name: form[name] for name in ("days", "keep", "drafts") if name in form}
    key = request.app.state.notices.add(f"Deleted {len(to_delete)}.")
    return templates.redirect(request, f"/briefs/prune?{urlencode(kept | {'said': key})}")


# -- one -------------------------------------------------------------------------------


@show_page("/briefs/{id:str}")
def show_brief(
    request: AnyRequest, fleet: TheFleet, id: PathWord, entry: EntryRef = 0
) -> PageResponse:
    """Show a handoff: its brief, and an entry that it cites."""
    view, refusal = load_brief_view(Vault(), id), find_refusal(request)
    handoff = view.handoff
    entry = entry or min((c.ref for c in handoff.citations), default=0)
    context, goal = briefs.split_brief(view.text)
    before, opened, past = context.partition(f"{briefs.FENCE_OPEN}\n")
    past, _, after = past.rpartition(f"\n{briefs.FENCE_CLOSE}\n") if opened else (before, "", "")
    return templates.render_page(
        request, "brief.html", of=view, entry=entry, cited=brief_view.find_cited(handoff, entry),
        linked=lambda ref: f"/briefs/{handoff.id}?entry={ref}#entry", before=before if opened else "",
        past=past, after=after, goal=goal, agents=list_agents(fleet, handoff.id), personas=personas.list_free(fleet.database),
        live="agents", refused=redact(clean_for_display(refusal.sentence))[0],
        said=[*SUCCESSOR_STARTS.list_notes(handoff.id), *JOBS.list_notes(handoff.id)],
        values={**dict.fromkeys(("to", "model", "send", "persona", "role", "name"), ""), **refusal.values},
        successors=[(h.name, h.title) for h in map(harnesses.get_harness, harnesses.list_names()) if h.can_start],
    )  # fmt: skip


@show_page("/briefs/{id:str}/entry/{ref:int}")
def show_entry(request: AnyRequest, id: PathWord, ref: PathId) -> PageResponse:
    """Show the entry alone, for the place next to the brief."""
    handoff = Vault().get(id)
    return templates.render_page(
        request, "cited.html", cited=brief_view.find_cited(handoff, ref), entry=ref, id=handoff.id
    )


@show_page("/briefs/{id:str}/entries/{ref:int}")
def show_whole_entry(id: PathWord, ref: PathId) -> Response[bytes]:
    """Show that entry in full, without secrets, as text."""
    text = remote.clean_entry_alone(brief_view.open_thread(Vault().get(id)), ref)
    return templates.build_text_response(text, f"entry-{ref}.txt", download=False)


@show_page("/briefs/{id:str}/brief.md")
def show_raw_brief(id: PathWord, download: FromQuery[bool] = False) -> Response[bytes]:
    """Show the brief word for word."""
    vault = Vault()
    handoff = vault.get(id)
    name = f"brief-{handoff.id[:8]}.md"
    return templates.build_text_response(vault.load_brief(handoff.id), name, download=download)


# -- edit and start --------------------------------------------------------------------


@show_page("/briefs/{id:str}/edit")
def show_edit_form(request: AnyRequest, id: PathWord) -> PageResponse:
    """Show the brief as a text to change."""
    vault, refusal = Vault(), find_refusal(request)
    handoff = vault.get(id)
    text = vault.load_brief(handoff.id)
    if refusal.sentence:
        text = escape(refusal.values.get("brief", ""))
    size = briefs.count_context_tokens(briefs.split_brief(text)[0])
    return templates.render_page(
        request, "edit.html", handoff=handoff, text=text, size=size,
        over=bool(handoff.budget and size > handoff.budget), force=bool(refusal.values.get("force")),
        left_out=list(map(briefs.format_item, handoff.draft.left_out)),
    )  # fmt: skip


@take_form("/briefs/{id:str}/edit", refused=show_edit_form)
def save_edit(request: AnyRequest, id: PathWord, form: FormFields) -> PageResponse:
    """Keep an edited brief as a new revision; the one before stays as it is."""
    vault = Vault()
    handoff, text = vault.get(id), form.get("brief", "")
    if not text.strip():
        raise UsageError("The brief is empty. Nothing was changed.")
    text, before = _restore_goal(text, handoff), vault.load_brief(handoff.id).rstrip("\n")
    if text.rstrip("\n") in (before, _restore_goal(clean_for_display(before), handoff)):
        return templates.redirect(request, f"/briefs/{handoff.id}")
    goal = briefs.split_brief(text)[1].rstrip("\n")
    if (
        not form.get("force")
        and goal != handoff.goal.text
        and (secret_message := kept_handoffs.describe_secrets(goal))
    ):
        raise GoalHasSecret(f"{secret_message} Remove it, or confirm that you mean it.")
    prepared = kept_handoffs.load_handoff(vault, handoff.id)
    prepared.revise(text)
    return templates.redirect(request, f"/briefs/{prepared.handoff.id}")


def _restore_goal(text: str, handoff: Handoff) -> str:
    """Restore the original goal in an edited brief where it still looks the same.

    Invisible characters, such as marks of direction, are not in the text that was shown.
    """
    goal, goal_text = briefs.split_brief(text)[1], handoff.goal.text
    if goal and goal.rstrip("\n") == clean_for_display(goal_text).rstrip("\n"):
        return text.removesuffix(goal) + goal_text
    return text


@take_form("/briefs/{id:str}/start", refused=show_brief)
def start_successor(
    request: AnyRequest, fleet: TheFleet, id: PathWord, form: FormFields
) -> PageResponse:
    """Start the successor in a tmux window, the brief filled in, or sent at once if so ordered."""
    handoff_id = SUCCESSOR_STARTS.start_successor(fleet, id, form)
    return templates.redirect(request, f"/briefs/{handoff_id}")


# -- successors as agents of the fleet -------------------------------------------------


NEW = "new"
"""What the field *Persona* holds for one that is to be added."""


def list_agents(fleet: Fleet, handoff_id: str) -> list[FleetAgent]:
    """List the agents that were started with a brief, the newest first."""
    query = sa.select(tables.agents).where(tables.agents.c.brief == handoff_id)
    query = query.order_by(tables.agents.c.id.desc()).limit(20)
    return queries.load_rows(FleetAgent, fleet.database, query)


def check_persona(fleet: Fleet, form: Mapping[str, str]) -> None:
    """Raise NotPossible, PersonaNotFound or AlreadyUnderWay where the wanted persona cannot be had."""
    slug = form.get("persona", "")
    if slug == NEW:
        for kind in ("role", "name"):
            personas.normalize_word(kind, form.get(kind, ""))
    elif slug:
        with fleet.database.read() as connection:
            personas.check_available(connection, slug)
            if queries.load_persona(connection, slug).retired_at is not None:
                raise NotPossible(f"Persona {slug} is retired. Choose another one.")


def take_into_fleet(
    fleet: Fleet, prepared: PreparedHandoff, launched: LaunchResult, form: Mapping[str, str]
) -> Iterator[str]:
    """Make a started successor an agent of the fleet; yield what went wrong, as sentences.

    It runs already, so nothing that fails here stops it.
    """
    handoff, name = prepared.handoff, prepared.successor.name
    try:
        persona = _add_wanted_persona(fleet, name, form)
        adoption = Adoption(launched.pane, name, persona, _find_session(prepared))
        agent = adopt_agent(fleet, adoption, handoff.id, handoff.goal.text)
    except TasukiError as error:
        yield f"It runs, but is no agent of the fleet: {error}"
        return
    if agent.persona:
        yield f"It works as {agent.persona}; its successors get the skill."


def _add_wanted_persona(fleet: Fleet, harness: str, form: Mapping[str, str]) -> str:
    slug = form.get("persona", "")
    if slug != NEW:
        return slug
    added = personas.add_persona(
        fleet.database, fleet.root, NewPersona(role=form.get("role", ""), name=form.get("name", ""), harness=harness)
    )  # fmt: skip
    share_persona(fleet.database, fleet.root, added.slug)
    return added.slug


def _find_session(prepared: PreparedHandoff) -> str:
    """Find the session that the successor got, among the events of the handoff; empty for none."""
    events = prepared.vault.load_events(prepared.handoff.id)
    started = [event for event in events if event.kind == "started"]
    return str(started[-1].detail.get("successor_thread", "")) if started else ""
