"""Handoffs that are being drafted from a thread, each in a thread of its own, with its phases."""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Annotated, Any

from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter
from msgspec import Struct

from tasuki import config, handoffs
from tasuki import harness as harnesses
from tasuki.config import Loaded, Settings
from tasuki.draft.goal import check_goal
from tasuki.draft.redact import redact
from tasuki.errors import GoalHasSecret, HandoffNotFound, NotPossible, TasukiError
from tasuki.harness.protocol import Harness
from tasuki.model import Goal
from tasuki.vault import Vault
from tasuki.web import answers
from tasuki.web.pages import frame
from tasuki.web.pages.frame import Asked, Page
from tasuki.web.pages.thread_files import address, find

AT_ONCE = 3
"""Drafts that are made at the same time."""
KEPT = 50
AUTHORS = {
    "offline": ("Offline", "facts and quotes, no model"),
    "model": ("Model", "extracts; falls back to offline"),
    "agent": ("Agent", "the agent itself, in a fork of its session"),
}


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
    back: str
    began: float
    phases: list[Phase] = []
    error: str = ""
    brief: str = ""
    cancelled: bool = False

    @property
    def runs(self) -> bool:
        """Whether it is under way."""
        return not (self.error or self.brief or self.cancelled)


class Stopped(Exception):
    """The operator does not want it any more."""


class Jobs:
    """The drafts of one server; they end with it, what was kept stays."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()

    def begin(self, harness: Harness, path: Path, goal: Goal, loaded: Loaded, to: Harness, back: str) -> Job:  # fmt: skip
        """Draft a handoff beside the requests. Raises NotPossible where too many are under way."""
        job = Job(secrets.token_hex(8), redact(goal.text[:200])[0], back, time.time())
        with self._lock:
            if sum(other.runs for other in self._jobs.values()) >= AT_ONCE:
                raise NotPossible(
                    f"{AT_ONCE} drafts are under way. Wait until one of them is done."
                )
            self._jobs[job.id] = job
            while len(self._jobs) > KEPT:
                self._jobs.popitem(last=False)
        work = (job, harness, path, goal, loaded, to)
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

    def _run(self, job: Job, harness: Harness, path: Path, goal: Goal, loaded: Loaded, to: Harness) -> None:  # fmt: skip
        def phase(name: str) -> None:
            if job.cancelled:
                raise Stopped
            _end(job)
            job.phases.append(Phase(name, time.time()))

        try:
            made = handoffs.offer(
                harness, path, goal, loaded, successor=to, vault=Vault(), must_keep=True, report=phase
            )  # fmt: skip
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


JOBS = Jobs()


def _end(job: Job) -> None:
    if job.phases and job.phases[-1].ended is None:
        job.phases[-1].ended = time.time()


# -- the form --------------------------------------------------------------------------


class Author(Struct, frozen=True):
    """One who can write; `refused` says why not."""

    key: str
    word: str
    meaning: str
    refused: str = ""


def form_of(
    harness: Harness, settings: Settings, values: Mapping[str, str] | None
) -> dict[str, Any]:
    """What the form that starts a handoff shows."""
    given = values or {}
    agents = "" if harness.can_ask else f"not possible: {harness.title} cannot be asked"
    able = [h for h in map(harnesses.get, harnesses.names()) if h.can_start]
    own = settings.to or harness.name
    return {
        "goal": given.get("goal", ""),
        "budget": given.get("budget", str(settings.budget)),
        "author": given.get("author", settings.author),
        "to": given.get("to", own if own in {h.name for h in able} else able[0].name),
        "force": given.get("force", ""),
        "authors": [Author(key, *words, agents if key == "agent" else "") for key, words in AUTHORS.items()],
        "successors": [(h.name, h.title) for h in able],
    }  # fmt: skip


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


def _begun(adapter: Harness, file: Path, form: dict[str, str], back: str) -> Job:
    head = next((f for f in adapter.files(None) if f.path == file), None)
    found = adapter.head(head) if head else None
    folder = Path(found.cwd) if found and found.cwd and Path(found.cwd).is_dir() else Path.home()
    flags = {
        "budget": _number(form.get("budget", "")), "author": form.get("author") or None,
        "to": form.get("to") or None,
    }  # fmt: skip
    loaded = config.loaded(folder, flags)
    force = bool(form.get("force"))
    text = form.get("goal", "").strip("\n")
    goal = check_goal(text, min_length=loaded.settings.min_goal_length, force=force)
    if not force and (told := handoffs.secrets_in(goal.text)):
        raise GoalHasSecret(f"{told} Take it out, or say that you mean it.")
    to = harnesses.get(loaded.settings.to or adapter.name)
    return JOBS.begin(adapter, file, goal, loaded, to, back)


def _number(text: str) -> int | None:
    bare = text.replace(",", "").strip()
    if not bare:
        return None
    if not (bare.isascii() and bare.isdigit() and len(bare) < 8):
        raise NotPossible("The budget must be a whole number of tokens.")
    return int(bare)


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
    job.cancelled = True
    return frame.moved(request, job.back)


HANDLERS = (begin, draft_page, cancel)
