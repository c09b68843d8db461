"""The pages of threads: search them all, read one, and start a handoff from it."""

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from litestar import Response
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct

from tasuki.errors import TasukiError, UsageError
from tasuki.harness import registry as harnesses
from tasuki.model import ThreadHead
from tasuki.text_safety import clean_for_display
from tasuki.threads import catalog, search
from tasuki.threads.index import ThreadIndex
from tasuki.threads.passages import EntryCleaner
from tasuki.threads.query import Query, parse_query, split_tokens
from tasuki.web.handlers import (
    AnyRequest,
    FormFields,
    PathId,
    PathWord,
    find_refusal,
    show_page,
    take_form,
)
from tasuki.web.pages.threads import drafts, page_query, view
from tasuki.web.pages.threads.files import THREAD_CACHE, build_thread_address, find_thread_file
from tasuki.web.pages.threads.page_query import ReadingQuery, ThreadLinks, WordQuery
from tasuki.web.pages.threads.parts import build_part
from tasuki.web.pages.threads.remote import describe_thread, read_entry
from tasuki.web.views import templates
from tasuki.web.views.display import get_harness_title
from tasuki.web.views.templates import PageResponse

MOST_NEWEST = 40
MOST_FOUND = 40
WAITED_SECONDS = 1.0
"""How long a search waits for new threads to be indexed."""
MOST_SEARCHES = 20
"""Searches whose results are kept for the pages of the threads that they found."""
FRESH_SECONDS = 2.0
"""A search this soon after another one looks for no new threads."""

# -- the index of all threads, brought up to date apart from the requests --------------


class IndexState(Struct):
    """The progress of the index. `left` is in bytes; the newest entries may not be found yet."""

    left: int = 0
    problems: tuple[str, ...] = ()
    updated_at: float = 0.0
    """When it was brought up to date last, in seconds since 1970."""


class ThreadSearch:
    """Searches; a large number of new threads is indexed in a thread, with its progress."""

    def __init__(self) -> None:
        self.state = IndexState()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._results: OrderedDict[tuple[Query, int], list[search.ThreadSearchResult]] = (
            OrderedDict()
        )

    @property
    def left(self) -> int:
        """Bytes that are still to be indexed; 0 once a search finds everything."""
        thread = self._thread
        return max(1, self.state.left) if thread and thread.is_alive() else 0

    def find_threads(
        self, query: Query, limit: int, *, reuse: bool = False
    ) -> list[search.ThreadSearchResult]:
        """Find the threads that match best. Raises StoreFailed.

        Each search reads the threads that it finds, which may be long. With `reuse` earlier
        results are good enough.
        """
        with self._lock:
            if reuse and (earlier := self._results.get((query, limit))) is not None:
                return earlier
        self._refresh()
        with ThreadIndex() as index:
            results = search.search_threads(index, query, limit)
        with self._lock:
            self._results[query, limit] = results
            self._results.move_to_end((query, limit))
            while len(self._results) > MOST_SEARCHES:
                self._results.popitem(last=False)
        return results

    def _refresh(self) -> None:
        """Bring the index up to date; what takes longer continues during the search."""
        with self._lock:
            is_fresh = time.time() - self.state.updated_at < FRESH_SECONDS
            if is_fresh or (self._thread and self._thread.is_alive()):
                return
            files = catalog.find_thread_files()
            with ThreadIndex() as index:
                waiting = sum(file.bytes for _, file in index.find_stale(files))
            self.state = IndexState(waiting, updated_at=self.state.updated_at)
            self._thread = threading.Thread(target=self._index_new, name="indexing", daemon=True)
            self._thread.start()
        self._thread.join(WAITED_SECONDS)

    def _index_new(self) -> None:
        state, problems = self.state, list[str]()

        def count_indexed(size: int) -> None:
            state.left = max(0, state.left - size)

        try:
            with ThreadIndex() as index:
                problems = search.refresh_index(index, catalog.find_thread_files(), count_indexed)
        except TasukiError as error:
            problems = [str(error)]
        except Exception as error:  # a page would wait for ever for a thread that ends in silence
            problems = [
                f"Threads were not indexed because of an error in tasuki: {type(error).__name__}."
            ]
            raise
        finally:
            self.state = IndexState(0, tuple(problems), time.time())


THREAD_SEARCH = ThreadSearch()


# -- the list --------------------------------------------------------------------------


class ThreadHit(Struct, frozen=True):
    """A thread in the list, with the line that matches best."""

    href: str
    who: str
    at: float
    name: str
    line: str = ""
    ref: int = 0
    here: bool = False
    problem: str = ""


@show_page("/threads")
def show_threads(
    request: AnyRequest, q: WordQuery = "", harness: WordQuery = "", project: WordQuery = ""
) -> PageResponse:
    """Show the threads that match, or the newest ones."""
    hits, refused = _find_hits(q, harness, project, "")
    context = _build_search_context(q, harness, project, hits, refused)
    return templates.render_page(request, "threads.html", 400 if refused else 200, **context)


def _build_search_context(
    q: str, harness: str, project: str, hits: Sequence[ThreadHit], refused: str
) -> dict[str, Any]:
    """Build the context of the search, which the page of a thread shows as well."""
    return {
        "q": q, "harness": harness, "project": project, "hits": hits, "refused": refused,
        "indexing": THREAD_SEARCH.left, "problems": THREAD_SEARCH.state.problems[:3],
        "harnesses": [(n, harnesses.get_harness(n).title) for n in harnesses.list_names()],
        "words": _find_words(q), "query": _build_query_values(q, harness, project),
        "again": f"/threads?{urlencode(_build_query_values(q, harness, project))}",
        "marked": view.mark_words, "marked_prose": view.mark_words_in_prose,
    }  # fmt: skip


def _build_query_values(q: str, harness: str, project: str) -> dict[str, str]:
    values = {"q": q, "harness": harness, "project": project}
    return {name: value for name, value in values.items() if value}


def _find_words(q: str) -> list[str]:
    """Find the searched words, to mark them."""
    with suppress(UsageError):
        phrases = parse_query(q).words if q.strip() else ()
        return [word for phrase in phrases for word in split_tokens(phrase)]
    return []


def _find_hits(
    q: str, harness: str, project: str, current_path: str
) -> tuple[list[ThreadHit], str]:
    """Find the listed threads, and the reason where there are none."""
    query_values = _build_query_values(q, harness, project)
    try:
        if not q.strip() and not project:
            heads = catalog.list_heads(harness or None, limit=MOST_NEWEST)
            return [_build_head_hit(head, query_values, current_path) for head in heads], ""
        filters = [f"harness:{harness}" if harness else "", f'repo:"{project}"' if project else ""]
        query = parse_query(" ".join([q, *filters]))
        can_reuse = bool(current_path) and not THREAD_SEARCH.left
        results = THREAD_SEARCH.find_threads(query, MOST_FOUND, reuse=can_reuse)
        return [_build_result_hit(result, query_values, current_path) for result in results], ""
    except TasukiError as error:
        return [], str(error)


def _build_head_hit(head: ThreadHead, query_values: dict[str, str], current_path: str) -> ThreadHit:
    cleaner = EntryCleaner()
    return ThreadHit(
        build_thread_address(head.harness, head.id, head.path, **query_values), _format_origin(head.harness, head.cwd), head.modified,
        cleaner.clean_line(head.name or head.first_words, 120), here=head.path == current_path,
    )  # fmt: skip


def _build_result_hit(result: Any, query_values: dict[str, str], current_path: str) -> ThreadHit:
    thread = result.thread
    best = result.lines[0] if result.lines else None
    ref = best.ref if best else 0
    href = build_thread_address(thread.harness, thread.id, thread.path, **query_values, entry=ref)
    return ThreadHit(
        f"{href}#e{ref}" if ref else href, _format_origin(thread.harness, thread.cwd), thread.modified,
        thread.name or thread.first_words, best.text if best else "", ref, thread.path == current_path, result.problem,
    )  # fmt: skip


def _format_origin(harness: str, cwd: str) -> str:
    folder = Path(cwd).name or cwd
    title = get_harness_title(harness)
    return f"{title} · {clean_for_display(folder)}" if folder else title


# -- one thread ------------------------------------------------------------------------


@show_page("/threads/{harness:str}/{id:str}")
def show_thread(
    request: AnyRequest,
    harness: PathWord,
    id: PathWord,
    path: Annotated[str, QueryParameter(max_length=4096)] = "",
    q: WordQuery = "",
    project: WordQuery = "",
    draft: Annotated[str, QueryParameter(max_length=32)] = "",
    entry: page_query.RefQuery = 0,
    start: page_query.RefQuery = 0,
    at: page_query.TimeQuery = "",
    since: page_query.TimeQuery = "",
    find: WordQuery = "",
    who: WordQuery = "",
) -> PageResponse:
    """Show a thread, with its tool calls folded: the part that is asked for, or its end.

    `draft` is one that failed or was cancelled: its form is filled in again.
    """
    query = ReadingQuery(entry, start, at, since, find, who)
    refusal, job = find_refusal(request), drafts.JOBS.find_job(draft)
    adapter, file = find_thread_file(harness, id, path)
    wanted = query.parse()
    topic = request.app.state.thread_news.watch(file)
    thread, cleaner = THREAD_CACHE.read_thread(adapter, file), EntryCleaner()
    part = build_part(thread, wanted, cleaner)
    name = adapter.name if request.query_params.get("harness") else ""
    hits, hits_refused = _find_hits(q, name, project, str(file))
    query_values = _build_query_values(q, name, project)
    links = ThreadLinks(
        build_thread_address(adapter.name, thread.id), query, path=str(file), **query_values
    )
    if (fixed := links.find_fixed(part)) and request.method == "GET":
        return templates.redirect(request, fixed)
    plain_here = build_thread_address(adapter.name, thread.id, str(file))
    agent_ids = page_query.list_agent_ids(request.app.state.fleet.database, adapter.name, thread.id)
    context = _build_search_context(q, name, project, hits, hits_refused)
    form = drafts.build_form(adapter, thread, refusal.values or (job.values if job else {}))
    return templates.render_page(
        request, "thread.html",
        **{**context, "again": links.build(), **page_query.build_context(links, part, context["words"], plain_here)},
        thread=describe_thread(thread, cleaner), agent_ids=agent_ids, form=form,
        form_refused=refusal.sentence or (job.error if job else "") or form["problem"], kept=catalog.describe_copy(adapter, file),
        live="" if query.find else " ".join([topic, *(f"agent:{id}" for id in agent_ids)]),
    )  # fmt: skip


@take_form("/threads/{harness:str}/{id:str}/handoff", refused=show_thread)
def start_draft(
    request: AnyRequest,
    harness: PathWord,
    id: PathWord,
    form: FormFields,
    path: Annotated[str, QueryParameter(max_length=4096)] = "",
) -> PageResponse:
    """Begin a draft; a refusal is shown with the form and what was typed."""
    adapter, file = find_thread_file(harness, id, path)
    head = next((f for f in adapter.list_files(None) if f.path == file), None)
    thread_head = catalog.read_head(adapter, head) if head else None
    draft_request = drafts.parse_request(adapter, thread_head.cwd if thread_head else "", form)
    address = build_thread_address(harness, id, path)
    job = drafts.JOBS.begin_draft(adapter, file, draft_request, address, form)
    return templates.redirect(request, f"/drafts/{job.id}")


@show_page("/threads/{harness:str}/{id:str}/entries/{ref:int}")
def show_whole_entry(
    harness: PathWord, id: PathWord, ref: PathId, path: FromQuery[str] = ""
) -> Response[bytes]:
    """Show one entry in full, without secrets, as text."""
    adapter, file = find_thread_file(harness, id, path)
    text = read_entry(adapter, file, ref)
    return templates.build_text_response(text, f"entry-{ref}.txt", download=False)
