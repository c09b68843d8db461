"""Handoffs that are being drafted from a thread, each in a thread of its own, with its phases."""

import secrets
import threading
import time
from collections import OrderedDict
from copy import copy
from pathlib import Path
from typing import Annotated

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter
from msgspec import Struct

from tasuki import handoffs
from tasuki.draft.redact import redact
from tasuki.errors import HandoffNotFound, NotPossible, TasukiError
from tasuki.harness.protocol import Harness
from tasuki.threads import catalog
from tasuki.vault import Vault
from tasuki.web import answers
from tasuki.web.pages import draft_form, frame
from tasuki.web.pages.draft_form import Wanted
from tasuki.web.pages.frame import Asked, Page
from tasuki.web.pages.thread_files import address, find

AT_ONCE = 3
"""Drafts that are made at the same time."""
KEPT = 50


class Phase(Struct):
    """Something that is being done, and when it began and ended, in seconds since 1970."""

    name: str
    began: float
    ended: float | None = None

    @property
    def seconds(self) -> float:
        """How long it took, or takes so far."""
        return (self.ended or time.time()) - self.began


class Job(Struct):
    """A draft under way. `brief` is the id of its handoff once that is kept."""

    id: str
    title: str
    thread: str
    began: float
    values: dict[str, str]
    """What was typed into the form."""
    phases: list[Phase] = []
    error: str = ""
    brief: str = ""
    told: tuple[str, ...] = ()
    """Sentences on who wrote it, and what to look at."""
    cancelled: bool = False
    ended: bool = False
    """Its thread does nothing any more; one that was cancelled may go on for a while."""

    @property
    def runs(self) -> bool:
        """Whether it is under way."""
        return not (self.error or self.brief or self.cancelled)

    @property
    def back(self) -> str:
        """Its thread, with the form as it was filled in."""
        return f"{self.thread}{'&' if '?' in self.thread else '?'}draft={self.id}"


class Stopped(Exception):
    """The operator does not want it any more."""


class Jobs:
    """The drafts of one server; they end with it, what was kept stays."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()

    def begin(
        self, harness: Harness, path: Path, asked: Wanted, thread: str, values: dict[str, str]
    ) -> Job:
        """Draft a handoff beside the requests. Raises NotPossible where too many are under way."""
        title = redact(asked.goal.text[:200])[0]
        job = Job(secrets.token_hex(8), title, thread, time.time(), values)
        with self._lock:
            if sum(not other.ended for other in self._jobs.values()) >= AT_ONCE:
                raise NotPossible(
                    f"{AT_ONCE} drafts are under way. Wait until one of them is done."
                )
            self._jobs[job.id] = job
            for old in [one.id for one in self._jobs.values() if one.ended][:-KEPT]:
                del self._jobs[old]
        work = (job, harness, path, asked)
        threading.Thread(target=self._run, args=work, name="draft", daemon=True).start()
        return job

    def get(self, id: str) -> Job:
        """A job. Raises HandoffNotFound: the server may have been started anew since."""
        with self._lock:
            if (job := self._jobs.get(id)) is not None:
                return job
        raise HandoffNotFound(
            "This draft is not known: the server was started anew since. What was kept is in the list of drafts."
        )

    def find(self, id: str) -> Job | None:
        """A job, as long as it is known."""
        with self._lock:
            return self._jobs.get(id)

    def told(self, brief: str) -> tuple[str, ...]:
        """What is to be said on a draft that was made since the server began; empty for others."""
        with self._lock:
            return next((job.told for job in self._jobs.values() if job.brief == brief), ())

    def _run(self, job: Job, harness: Harness, path: Path, asked: Wanted) -> None:
        def phase(name: str) -> None:
            if job.cancelled:
                raise Stopped
            _end(job)
            job.phases.append(Phase(name, time.time()))

        try:
            made = handoffs.offer(
                harness, path, asked.goal, asked.loaded, successor=asked.to, vault=Vault(), must_keep=True,
                report=phase,
            )  # fmt: skip
            job.told = _told(made)
            if not job.cancelled:
                job.brief = made.handoff.id
        except Stopped:
            pass
        except TasukiError as error:
            job.error = redact(str(error))[0]
        except Exception as error:  # a thread that ends in silence would be waited for for ever
            job.error = f"That failed, by a fault of tasuki's: {type(error).__name__}."
            raise
        finally:
            _end(job)
            job.ended = True


JOBS = Jobs()


def _told(made: handoffs.Offer) -> tuple[str, ...]:
    """Who wrote it and what to act on; what its page has places for, dropped and redacted, is left out."""
    shown = len(made.handoff.draft.dropped) + bool(made.handoff.redactions)
    return (*made.told, *made.warnings[: len(made.warnings) - shown], *made.notes)


def _end(job: Job) -> None:
    if job.phases and job.phases[-1].ended is None:
        job.phases[-1].ended = time.time()


# -- it is begun -----------------------------------------------------------------------


@post("/threads/{harness:str}/{id:str}/handoff", sync_to_thread=True, include_in_schema=False)
def begin(
    request: Asked,
    harness: FromPath[str],
    id: FromPath[str],
    form: NamedDependency[dict[str, str]],
    path: Annotated[str, QueryParameter(max_length=4096)] = "",
) -> Page:
    """Begin a draft; a refusal stands beside the form, with what was typed."""
    adapter, file = find(harness, id, path)
    try:
        job = _begun(adapter, file, form, address(harness, id, path))
    except TasukiError as error:
        from tasuki.web.pages.threads import thread_shown

        return thread_shown(
            request, adapter, file, values=form, refused=redact(str(error))[0], status=answers.status_of(error)
        )  # fmt: skip
    return frame.moved(request, f"/drafts/{job.id}")


def _begun(adapter: Harness, file: Path, form: dict[str, str], thread: str) -> Job:
    head = next((f for f in adapter.files(None) if f.path == file), None)
    found = catalog.read_head(adapter, head) if head else None
    asked = draft_form.wanted(adapter, found.cwd if found else "", form)
    return JOBS.begin(adapter, file, asked, thread, form)


# -- a draft under way -----------------------------------------------------------------


@get("/drafts/{id:str}", sync_to_thread=True, include_in_schema=False)
def draft_page(request: Asked, id: FromPath[str]) -> Page:
    """The phases of a draft as they happen; its brief once it is there."""
    job = copy(JOBS.get(id))  # as it is now: it goes on while its page is made
    if job.brief:
        return frame.moved(request, f"/briefs/{job.brief}")
    return frame.page(request, "draft.html", job=job)


@post("/drafts/{id:str}/cancel", sync_to_thread=True, include_in_schema=False)
def cancel(request: Asked, id: FromPath[str]) -> Page:
    """Want a draft no more."""
    job = JOBS.get(id)
    if job.brief:  # it was done before
        return frame.moved(request, f"/briefs/{job.brief}")
    job.cancelled = True
    return frame.moved(request, job.back)


HANDLERS = (begin, draft_page, cancel)
