"""Drafts of handoffs: the form next to a thread, and the drafts under way with their phases.

Each draft is made in a separate Python thread.
"""

import secrets
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any

from markupsafe import escape
from msgspec import Struct

from tasuki import handoffs
from tasuki.config import settings
from tasuki.config.settings import LoadedSettings, Settings
from tasuki.draft.goal import check_goal
from tasuki.draft.redact.redactor import Redactor, redact
from tasuki.errors import (
    ConfigInvalid,
    GoalHasSecret,
    HandoffNotFound,
    ModelUnavailable,
    NotPossible,
    TasukiError,
)
from tasuki.files import find_home_folder
from tasuki.harness import registry as harnesses
from tasuki.harness.protocol import Harness
from tasuki.model import Goal, Thread
from tasuki.vault import Vault
from tasuki.web.handlers import AnyRequest, PathWord, show_page, take_form
from tasuki.web.views import templates
from tasuki.web.views.templates import PageResponse

AUTHORS = {
    "offline": ("Offline", "facts and quotes, no model"),
    "model": ("Model", "extracts; falls back to offline"),
    "agent": ("Agent", "the agent itself, in a fork of its session"),
}
_HINT = " To name another"
"""The text after it is for a user of the command line."""
DRAFTS_AT_ONCE = 3
"""Drafts that are made at the same time."""
MOST_KEPT = 50


# -- the form --------------------------------------------------------------------------


class AuthorChoice(Struct, frozen=True):
    """An author that can write; `refused` says why not."""

    key: str
    word: str
    meaning: str
    refused: str = ""


class DraftRequest(Struct, frozen=True):
    """What the form requests."""

    goal: Goal
    loaded: LoadedSettings
    to: Harness


def build_form(adapter: Harness, thread: Thread, typed: Mapping[str, str]) -> dict[str, Any]:
    """Build what the form shows; `typed` are its values where it was refused."""
    problem = ""
    try:
        loaded = settings.load_with_sources(find_settings_folder(thread.cwd))
    except ConfigInvalid as error:
        loaded, problem = LoadedSettings(Settings()), str(error)
    startable = [h for h in map(harnesses.get_harness, harnesses.list_names()) if h.can_start]
    default_successor, names = loaded.settings.to or adapter.name, [h.name for h in startable]
    # No author is asked whether it can write.
    no_model, no_agent = _explain_no_model(thread, loaded), _explain_no_agent(adapter)
    reasons = {"offline": "", "model": no_model, "agent": no_agent}
    authors = [AuthorChoice(key, *AUTHORS[key], why) for key, why in reasons.items()]
    author = typed.get("author", loaded.settings.author)
    return {
        "goal": escape(typed.get("goal", "")),  # the user's own words, with all that is in them
        "budget": typed.get("budget", str(loaded.settings.budget)),
        "author": "offline" if any(a.key == author and a.refused for a in authors) else author,
        "to": typed.get("to", default_successor if default_successor in names else names[0]),
        "force": typed.get("force", ""),
        "authors": authors,
        "successors": [(h.name, h.title) for h in startable],
        "problem": problem,
    }


def find_settings_folder(cwd: str) -> Path:
    """Find the folder whose settings apply to a thread."""
    try:
        return Path(cwd) if cwd and Path(cwd).is_dir() else find_home_folder()
    except ValueError:  # a folder name with a NUL
        return find_home_folder()


def _explain_no_model(thread: Thread, loaded: LoadedSettings) -> str:
    from tasuki.draft.models import providers

    try:
        providers.resolve_endpoint(loaded, thread.model)
    except ModelUnavailable as error:
        reason = str(error).removeprefix(f"{providers.NO_MODEL} ").partition(_HINT)[0]
        return f"not possible: {redact(reason)[0]}"
    return ""


def _explain_no_agent(adapter: Harness) -> str:
    if not adapter.can_ask:
        return f"not possible: {adapter.title} cannot be asked"
    if not shutil.which(adapter.program):
        return f"not possible: no program {adapter.program} on the PATH of the server"
    return ""


def parse_request(adapter: Harness, cwd: str, form: Mapping[str, str]) -> DraftRequest:
    """Parse the request of a form; the goal is kept word for word.

    Raises GoalTooVague, GoalHasSecret, NotPossible, ConfigInvalid or UsageError.
    """
    flags = {
        "budget": _parse_number(form.get("budget", "")),
        "author": form.get("author") or None,
        "to": form.get("to") or None,
    }
    loaded = settings.load_with_sources(find_settings_folder(cwd), flags)
    force = bool(form.get("force"))
    goal = check_goal(
        form.get("goal", "").strip("\n"), min_length=loaded.settings.min_goal_length, force=force
    )
    if not force and (secret_message := handoffs.describe_secrets(goal.text)):
        raise GoalHasSecret(f"{secret_message} Remove it, or confirm that you mean it.")
    return DraftRequest(goal, loaded, harnesses.get_harness(loaded.settings.to or adapter.name))


def _parse_number(text: str) -> int | None:
    digits = text.replace(",", "").strip()
    if not digits:
        return None
    if not (digits.isascii() and digits.isdigit() and len(digits) < 8):
        raise NotPossible("The budget must be a whole number of tokens.")
    return int(digits)


# -- drafts under way ------------------------------------------------------------------


class JobPhase(Struct):
    """A phase of the work, and when it began and ended, in seconds since 1970."""

    name: str
    began: float
    ended: float | None = None

    @property
    def seconds(self) -> float:
        """How long it took, or takes so far."""
        return (self.ended or time.time()) - self.began


class DraftJob(Struct):
    """A draft under way. `brief` is the id of its handoff once that is kept."""

    id: str
    title: str
    thread: str
    began: float
    values: dict[str, str]
    """What was typed into the form."""
    phases: list[JobPhase] = []
    error: str = ""
    brief: str = ""
    notes: tuple[str, ...] = ()
    """Sentences on its author, and on what to look at."""
    cancelled: bool = False
    ended: bool = False
    """Its thread has ended; after a cancellation it may continue for a while."""

    @property
    def runs(self) -> bool:
        """Whether it is under way."""
        return not (self.error or self.brief or self.cancelled)

    @property
    def back(self) -> str:
        """The address of its thread, with the form as it was filled in."""
        return f"{self.thread}{'&' if '?' in self.thread else '?'}draft={self.id}"


class DraftStopped(Exception):
    """The operator no longer wants the draft."""


class DraftJobs:
    """The drafts of one server; they end with it, and kept handoffs stay."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, DraftJob] = OrderedDict()

    def begin_draft(
        self,
        harness: Harness,
        path: Path,
        draft_request: DraftRequest,
        thread: str,
        values: dict[str, str],
    ) -> DraftJob:
        """Draft a handoff apart from the requests.

        Raises NotPossible where too many are under way.
        """
        title = Redactor().redact_line(draft_request.goal.text, 200)
        job = DraftJob(secrets.token_hex(8), title, thread, time.time(), values)
        with self._lock:
            if sum(not other.ended for other in self._jobs.values()) >= DRAFTS_AT_ONCE:
                raise NotPossible(
                    f"{DRAFTS_AT_ONCE} drafts are under way. Wait until one of them is done."
                )
            self._jobs[job.id] = job
            for old in [one.id for one in self._jobs.values() if one.ended][:-MOST_KEPT]:
                del self._jobs[old]
        work = (job, harness, path, draft_request)
        threading.Thread(target=self._run_job, args=work, name="draft", daemon=True).start()
        return job

    def load_job(self, job_id: str) -> DraftJob:
        """Load a job. Raises HandoffNotFound: the server may have been restarted since."""
        if job := self.find_job(job_id):
            return job
        raise HandoffNotFound(
            "This draft is unknown: the server was restarted since. Stored drafts are in the list."
        )

    def find_job(self, job_id: str) -> DraftJob | None:
        """Find a job, as long as it is known."""
        with self._lock:
            return self._jobs.get(job_id)

    def list_notes(self, brief_id: str) -> tuple[str, ...]:
        """List the notes on a draft that was made since the server began; empty for others."""
        with self._lock:
            return next((job.notes for job in self._jobs.values() if job.brief == brief_id), ())

    def _run_job(
        self, job: DraftJob, harness: Harness, path: Path, draft_request: DraftRequest
    ) -> None:
        def begin_phase(name: str) -> None:
            if job.cancelled:
                raise DraftStopped
            _end_phase(job)
            job.phases.append(JobPhase(name, time.time()))

        try:
            prepared = handoffs.prepare_handoff(
                harness, path, draft_request.goal, draft_request.loaded, successor=draft_request.to, vault=Vault(), must_keep=True,
                report=begin_phase,
            )  # fmt: skip
            job.notes = _select_notes(prepared)
            if not job.cancelled:
                job.brief = prepared.handoff.id
        except DraftStopped:
            pass
        except TasukiError as error:
            job.error = redact(str(error))[0]
        except Exception as error:  # a page would wait for ever for a thread that ends in silence
            job.error = f"That failed because of an error in tasuki: {type(error).__name__}."
            raise
        finally:
            _end_phase(job)
            job.ended = True


JOBS = DraftJobs()


def _select_notes(prepared: handoffs.PreparedHandoff) -> tuple[str, ...]:
    """Select who wrote it and what to act on; dropped and redacted texts have other places."""
    shown_count = len(prepared.handoff.draft.dropped) + bool(prepared.handoff.redactions)
    return (
        *prepared.authorship_notes,
        *prepared.warnings[: len(prepared.warnings) - shown_count],
        *prepared.notes,
    )


def _end_phase(job: DraftJob) -> None:
    if job.phases and job.phases[-1].ended is None:
        job.phases[-1].ended = time.time()


# -- their pages -----------------------------------------------------------------------


@show_page("/drafts/{id:str}")
def show_draft(request: AnyRequest, id: PathWord) -> PageResponse:
    """Show the phases of a draft as they happen; its brief once it exists."""
    job = copy(JOBS.load_job(id))  # a copy, because the job continues while its page is made
    if job.brief:
        return templates.redirect(request, f"/briefs/{job.brief}")
    return templates.render_page(request, "draft.html", job=job)


@take_form("/drafts/{id:str}/cancel")
def cancel_draft(request: AnyRequest, id: PathWord) -> PageResponse:
    """Cancel a draft."""
    job = JOBS.load_job(id)
    if job.brief:  # it was done before
        return templates.redirect(request, f"/briefs/{job.brief}")
    job.cancelled = True
    return templates.redirect(request, job.back)
