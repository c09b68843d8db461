"""Handoffs that were kept: listed, read beside their threads, edited, started, pruned."""

import time
from collections.abc import Sequence
from typing import Annotated, Any

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter
from markupsafe import escape
from msgspec import Struct

from tasuki import handoffs as kept_handoffs
from tasuki import harness as harnesses
from tasuki.draft import brief as briefs
from tasuki.draft.redact import redact
from tasuki.errors import GoalHasSecret, NotPossible, TasukiError, UsageError
from tasuki.fleet import reading
from tasuki.fleet.service import Fleet
from tasuki.model import Handoff
from tasuki.plain import shown
from tasuki.threads import kept, opening
from tasuki.threads.safe import Cleaner
from tasuki.vault import Vault
from tasuki.web import answers
from tasuki.web.pages import brief_view, frame, handoffs
from tasuki.web.pages.brief_view import STATES, brief, moment, title
from tasuki.web.pages.drafting import JOBS
from tasuki.web.pages.frame import Asked, Page
from tasuki.web.pages.shapes import Shown
from tasuki.web.pages.starting import STARTS

Form = NamedDependency[dict[str, str]]
Ref = Annotated[int, QueryParameter(ge=0, le=10**9)]
LISTED = 200


class Line(Struct, frozen=True):
    """A handoff in the list, with the lines that match."""

    id: str
    goal: str
    state: Shown
    created: float | None
    route: str
    tokens: int
    lines: Sequence[str] = ()


# -- the list --------------------------------------------------------------------------


@get("/briefs", sync_to_thread=True, include_in_schema=False)
def briefs_page(request: Asked, q: Annotated[str, QueryParameter(max_length=1000)] = "") -> Page:
    """The handoffs that were kept, the newest first, or those that hold some words."""
    vault = Vault()
    found = kept.search(vault, q, LISTED) if q.strip() else [(h, ()) for h in vault.all()]
    return frame.page(
        request, "briefs.html", q=q, count=len(found), problems=vault.problems[:3],
        lines=[_line(vault, handoff, lines) for handoff, lines in found[:LISTED]],
    )  # fmt: skip


def _line(vault: Vault, handoff: Handoff, lines: Sequence[str] = ()) -> Line:
    cleaner = Cleaner()
    to = title(handoff.to) if handoff.to else "nobody"
    return Line(
        handoff.id, cleaner.line(handoff.goal.shown, 200), STATES[vault.state(handoff.id)],
        moment(handoff.created), f"{title(handoff.predecessor.harness)} to {to}", handoff.tokens,
        [cleaner.line(line, 300) for line in lines],
    )  # fmt: skip


@get("/briefs/prune", sync_to_thread=True, include_in_schema=False)
def prune_form(
    request: Asked,
    fleet: NamedDependency[Fleet],
    days: FromQuery[str] = "30",
    keep: FromQuery[str] = "0",
    drafts: FromQuery[str] = "1",
) -> Page:
    """Which handoffs would go, before they do."""
    return _prune_form(request, fleet, {"days": days, "keep": keep, "drafts": drafts})


def _prune_form(request: Asked, fleet: Fleet, given: dict[str, str], said: str = "") -> Page:
    vault, refused = Vault(), ""
    try:
        going = _prunable(vault, fleet, given)
    except TasukiError as error:
        going, refused = [], str(error)
    return frame.page(
        request, "prune.html", 400 if refused else 200, values=given, refused=refused, said=said,
        going=[_line(vault, handoff) for handoff in going],
    )  # fmt: skip


def _prunable(vault: Vault, fleet: Fleet, given: dict[str, str]) -> list[Handoff]:
    """What would go. Raises NotPossible."""
    numbers = [given.get(name, "").strip() or "0" for name in ("days", "keep")]
    if not all(n.isascii() and n.isdigit() and len(n) < 6 for n in numbers):
        raise NotPossible("Days and how many to keep must be whole numbers.")
    days, keep = map(int, numbers)
    only_drafts = given.get("drafts") == "1"
    if not (days or keep or only_drafts):
        raise NotPossible(
            "Say which: those older than some days, drafts alone, or all but the newest."
        )
    needed = reading.needed_handoffs(fleet.database)
    found = kept.prunable(
        vault, days=days, keep=keep, only_drafts=only_drafts, now=time.time(), needed=needed
    )
    if vault.problems:
        raise NotPossible(
            f"Nothing is deleted while a handoff cannot be read, for it may descend from any: {vault.problems[0]}"
        )
    return found


@post("/briefs/prune", sync_to_thread=True, include_in_schema=False)
def prune(request: Asked, fleet: NamedDependency[Fleet], form: Form) -> Page:
    """Delete those that were shown, as far as they may still go; threads are never touched."""
    vault, agreed = Vault(), set(form.get("ids", "").split())
    going = [handoff for handoff in _prunable(vault, fleet, form) if handoff.id in agreed]
    for handoff in going:
        vault.remove(handoff.id)
    return _prune_form(request, fleet, form, said=f"Deleted {len(going)}.")


# -- one -------------------------------------------------------------------------------


@get("/briefs/{id:str}", sync_to_thread=True, include_in_schema=False)
def brief_page(request: Asked, id: FromPath[str], entry: Ref = 0) -> Page:
    """A handoff: its brief, and an entry that it cites beside it."""
    return _brief_page(request, id, entry)


def _brief_page(request: Asked, id: str, entry: int = 0, status: int = 200, **more: Any) -> Page:
    found = brief(Vault(), id)
    handoff = found.handoff
    entry = entry or min((c.ref for c in handoff.citations), default=0)
    context, goal = briefs.split(found.text)
    before, opened, past = context.partition(f"{briefs.FENCE_OPEN}\n")
    past, _, behind = past.rpartition(f"\n{briefs.FENCE_CLOSE}\n") if opened else (before, "", "")
    told = [*STARTS.told(handoff.id), *JOBS.told(handoff.id)]
    given = {"refused": "", "said": told, **more}
    given["values"] = {"to": "", "model": "", "send": "", **given.get("values", {})}
    return frame.page(
        request, "brief.html", status, of=found, entry=entry, cited=brief_view.cited(handoff, entry),
        linked=lambda ref: f"/briefs/{handoff.id}?entry={ref}#entry", before=before if opened else "",
        past=past, behind=behind, goal=goal,
        successors=[(h.name, h.title) for h in map(harnesses.get, harnesses.names()) if h.can_start],
        **given,
    )  # fmt: skip


@get("/briefs/{id:str}/entry/{ref:int}", sync_to_thread=True, include_in_schema=False)
def entry_beside(request: Asked, id: FromPath[str], ref: FromPath[int]) -> Page:
    """The entry alone, for the place beside the brief."""
    handoff = Vault().get(id)
    return frame.page(
        request, "cited.html", cited=brief_view.cited(handoff, ref), entry=ref, id=handoff.id
    )


@get("/briefs/{id:str}/entries/{ref:int}", sync_to_thread=True, include_in_schema=False)
def whole_entry(id: FromPath[str], ref: FromPath[int]) -> Response[bytes]:
    """That entry to its last character, without secrets, as text."""
    (reading,) = opening.readings(brief_view.opened(Vault().get(id)), [ref])
    text = Cleaner().text(shown(reading.text))
    return handoffs.as_text(text, f"entry-{ref}.txt", download=False)


@get("/briefs/{id:str}/brief.md", sync_to_thread=True, include_in_schema=False)
def raw(id: FromPath[str], download: FromQuery[bool] = False) -> Response[bytes]:
    """The brief to the letter."""
    vault = Vault()
    handoff = vault.get(id)
    name = f"brief-{handoff.id[:8]}.md"
    return handoffs.as_text(vault.brief(handoff.id), name, download=download)


# -- edit and start --------------------------------------------------------------------


@get("/briefs/{id:str}/edit", sync_to_thread=True, include_in_schema=False)
def edit_form(request: Asked, id: FromPath[str]) -> Page:
    """The brief as a text to change."""
    vault = Vault()
    handoff = vault.get(id)
    return _edit_form(request, handoff, vault.brief(handoff.id))


def _edit_form(
    request: Asked,
    handoff: Handoff,
    text: str,
    refused: str = "",
    status: int = 200,
    force: bool = False,
) -> Page:
    size = briefs.size(briefs.split(text)[0])
    return frame.page(
        request, "edit.html", status, handoff=handoff, text=text, size=size, refused=refused,
        over=bool(handoff.budget and size > handoff.budget), force=force,
        left_out=[redact(briefs.item_line(item))[0] for item in handoff.draft.left_out],
    )  # fmt: skip


@post("/briefs/{id:str}/edit", sync_to_thread=True, include_in_schema=False)
def edit(request: Asked, id: FromPath[str], form: Form) -> Page:
    """Keep an edited brief as a revision of its own; the one before stays as it is."""
    vault = Vault()
    handoff, text = vault.get(id), form.get("brief", "")
    try:
        if not text.strip():
            raise UsageError("The brief is empty. Nothing was changed.")
        text, before = _kept_goal(text, handoff), vault.brief(handoff.id).rstrip("\n")
        if text.rstrip("\n") in (before, _kept_goal(shown(before), handoff)):
            return frame.moved(request, f"/briefs/{handoff.id}")
        goal = briefs.split(text)[1].rstrip("\n")
        if (
            not form.get("force")
            and goal != handoff.goal.text
            and (told := kept_handoffs.secrets_in(goal))
        ):
            raise GoalHasSecret(f"{told} Take it out, or say that you mean it.")
        offer = kept_handoffs.kept(vault, handoff.id)
        offer.revise(text)
    except TasukiError as error:
        return _edit_form(
            request, handoff, escape(form.get("brief", "")), redact(str(error))[0], answers.status_of(error),
            force=bool(form.get("force")),
        )  # fmt: skip
    return frame.moved(request, f"/briefs/{offer.handoff.id}")


def _kept_goal(text: str, handoff: Handoff) -> str:
    """A brief that was edited; where its goal still looks as it did, it is that goal to the letter.

    What cannot be seen, such as marks of direction, is not in the text that was shown.
    """
    goal, known = briefs.split(text)[1], handoff.goal.text
    if goal and goal.rstrip("\n") == shown(known).rstrip("\n"):
        return text.removesuffix(goal) + known
    return text


@post("/briefs/{id:str}/start", sync_to_thread=True, include_in_schema=False)
def start(request: Asked, id: FromPath[str], form: Form) -> Page:
    """Start the successor in a tmux window, the brief filled in, or sent at once where that is asked for."""
    try:
        return frame.moved(request, f"/briefs/{STARTS.start(id, form)}")
    except TasukiError as error:
        said = redact(shown(str(error)))[0]
        return _brief_page(request, id, status=answers.status_of(error), refused=said, values=form)


HANDLERS = (
    briefs_page, prune_form, prune, brief_page, entry_beside, whole_entry, raw, edit_form, edit, start,
)  # fmt: skip
