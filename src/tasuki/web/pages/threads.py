"""Threads: all of them searched, one read, and a handoff started from it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from litestar import Response, get
from litestar.params import FromPath, FromQuery, QueryParameter
from msgspec import Struct

from tasuki import harness as harnesses
from tasuki.errors import TasukiError, UsageError
from tasuki.harness.protocol import Harness
from tasuki.model import Thread, ThreadHead
from tasuki.plain import shown
from tasuki.threads import catalog, opening
from tasuki.threads.query import Query, parse, tokens
from tasuki.threads.safe import Cleaner
from tasuki.web.pages import draft_form, drafting, frame, handoffs, thread_view
from tasuki.web.pages.frame import Asked, Page
from tasuki.web.pages.searching import SEARCHING
from tasuki.web.pages.thread_files import THREADS, address, find

NEWEST = 40
FOUND = 40
Word = Annotated[str, QueryParameter(max_length=1000)]


class Hit(Struct, frozen=True):
    """A thread in the list, with the line that matches best."""

    href: str
    who: str
    at: float
    name: str
    line: str = ""
    ref: int = 0
    here: bool = False
    problem: str = ""


@get("/threads", sync_to_thread=True, include_in_schema=False)
def threads_page(request: Asked, q: Word = "", harness: Word = "", project: Word = "") -> Page:
    """The threads that match, or the newest ones."""
    hits, refused = _hits(q, harness, project, "")
    return frame.page(
        request,
        "threads.html",
        400 if refused else 200,
        **_around(q, harness, project, hits, refused),
    )


def _around(
    q: str, harness: str, project: str, hits: Sequence[Hit], refused: str
) -> dict[str, Any]:
    """The search, which stands on the page of a thread as well."""
    return {
        "q": q, "harness": harness, "project": project, "hits": hits, "refused": refused,
        "indexing": SEARCHING.left, "problems": SEARCHING.state.problems[:3],
        "harnesses": [(n, harnesses.get(n).title) for n in harnesses.names()],
        "words": _words(q), "query": _asked(q, harness, project),
        "again": f"/threads?{urlencode(_asked(q, harness, project))}",
        "marked": thread_view.marked, "marked_prose": thread_view.marked_prose,
    }  # fmt: skip


def _asked(q: str, harness: str, project: str) -> dict[str, str]:
    given = {"q": q, "harness": harness, "project": project}
    return {name: value for name, value in given.items() if value}


def _words(q: str) -> list[str]:
    """The words that are looked for, to be marked."""
    try:
        return [word for phrase in parse(q).words for word in tokens(phrase)] if q.strip() else []
    except UsageError:
        return []


def _hits(q: str, harness: str, project: str, here: str) -> tuple[list[Hit], str]:
    """The list of threads, and why there is none."""
    asked = _asked(q, harness, project)
    try:
        if not q.strip() and not project:
            heads = catalog.heads(harness or None, limit=NEWEST)
            return [_of_head(head, asked, here) for head in heads], ""
        query = _query(q, harness, project)
        again = bool(here) and not SEARCHING.left
        results = SEARCHING.found(query, FOUND, again=again)
        return [_of_found(found, asked, here) for found in results], ""
    except TasukiError as error:
        return [], str(error)


def _query(q: str, harness: str, project: str) -> Query:
    filters = [f"harness:{harness}" if harness else "", f'repo:"{project}"' if project else ""]
    return parse(" ".join([q, *filters]))


def _of_head(head: ThreadHead, asked: dict[str, str], here: str) -> Hit:
    cleaner = Cleaner()
    return Hit(
        address(head.harness, head.id, head.path, **asked), _who(head.harness, head.cwd), head.modified,
        cleaner.line(head.name or head.first_words, 120), here=head.path == here,
    )  # fmt: skip


def _of_found(found: Any, asked: dict[str, str], here: str) -> Hit:
    thread = found.thread
    best = found.lines[0] if found.lines else None
    ref = best.ref if best else 0
    href = address(thread.harness, thread.id, thread.path, **asked, entry=ref)
    return Hit(
        f"{href}#e{ref}" if ref else href, _who(thread.harness, thread.cwd), thread.modified,
        thread.name or thread.first_words, best.text if best else "", ref, thread.path == here, found.problem,
    )  # fmt: skip


def _who(harness: str, cwd: str) -> str:
    folder = Path(cwd).name or cwd
    title = harnesses.get(harness).title if harness in harnesses.names() else harness
    return f"{title} · {shown(folder)}" if folder else title


# -- one thread ------------------------------------------------------------------------


@get("/threads/{harness:str}/{id:str}", sync_to_thread=True, include_in_schema=False)
def thread_page(
    request: Asked,
    harness: FromPath[str],
    id: FromPath[str],
    path: Annotated[str, QueryParameter(max_length=4096)] = "",
    q: Word = "",
    project: Word = "",
    entry: Annotated[int, QueryParameter(ge=0, le=10**9)] = 0,
    draft: Annotated[str, QueryParameter(max_length=32)] = "",
) -> Page:
    """A thread, with its tool calls folded; the part of it that holds `entry`, or its end.

    `draft` is one that failed or was cancelled: the form is filled in as it was for that.
    """
    adapter, file = find(harness, id, path)
    job = drafting.JOBS.find(draft)
    return thread_shown(
        request, adapter, file, entry=entry, q=q, project=project, values=job.values if job else None,
        refused=job.error if job else "",
    )  # fmt: skip


def thread_shown(
    request: Asked, adapter: Harness, file: Path, *, entry: int = 0, q: str = "", project: str = "",
    values: dict[str, str] | None = None, refused: str = "", status: int = 200,
) -> Page:  # fmt: skip
    """The page of a thread; `values` and `refused` are those of the form that starts a handoff."""
    thread, cleaner = THREADS.read(adapter, file), Cleaner()
    name = adapter.name if request.query_params.get("harness") else ""
    hits, no = _hits(q, name, project, str(file))
    asked = _asked(q, name, project)
    here = address(adapter.name, thread.id, str(file), **asked)
    form = draft_form.form_of(adapter, thread, values)
    return frame.page(
        request, "thread.html", status,
        **{**_around(q, name, project, hits, no), "again": here},
        thread=_about(thread, cleaner), part=thread_view.part(thread, entry, cleaner), entry=entry,
        here=here, plain_here=address(adapter.name, thread.id, str(file)),
        form=form, form_refused=refused or form["problem"],
    )  # fmt: skip


def _about(thread: Thread, cleaner: Cleaner) -> dict[str, Any]:
    return {
        "title": thread_view.title_of(thread, cleaner), "id": cleaner.line(thread.id, 80),
        "harness": harnesses.get(thread.harness).title, "name": thread.harness, "path": thread.path,
        "cwd": cleaner.line(thread.cwd), "branch": cleaner.line(thread.git_branch, 120),
        "entries": len(thread.entries), "broken": cleaner.text(opening.broken_lines(thread)),
        "truncated": thread.report.truncated_tail,
    }  # fmt: skip


@get(
    "/threads/{harness:str}/{id:str}/entries/{ref:int}",
    sync_to_thread=True,
    include_in_schema=False,
)
def whole_entry(
    harness: FromPath[str],
    id: FromPath[str],
    ref: FromPath[int],
    path: FromQuery[str] = "",
) -> Response[bytes]:
    """One entry to its last character, without secrets, as text."""
    adapter, file = find(harness, id, path)
    thread, cleaner = THREADS.read(adapter, file), Cleaner()
    of = opening.Opened(thread.id, thread)
    (reading,) = opening.readings(of, [ref])
    text = cleaner.text(shown(reading.text))
    return handoffs.as_text(text, f"entry-{ref}.txt", download=False)


HANDLERS = (threads_page, thread_page, whole_entry)
