"""The form beside a thread that starts a handoff: what it offers, and what it takes."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import escape
from msgspec import Struct

from tasuki import config, handoffs
from tasuki import harness as harnesses
from tasuki.config import Loaded, Settings
from tasuki.draft.goal import check_goal
from tasuki.draft.redact import redact
from tasuki.errors import ConfigInvalid, GoalHasSecret, ModelUnavailable, NotPossible
from tasuki.harness.protocol import Harness
from tasuki.model import Goal, Thread
from tasuki.paths import home_folder

AUTHORS = {
    "offline": ("Offline", "facts and quotes, no model"),
    "model": ("Model", "extracts; falls back to offline"),
    "agent": ("Agent", "the agent itself, in a fork of its session"),
}
_HINT = " To name another"
"""What follows is for somebody at a command line."""


class Author(Struct, frozen=True):
    """One who can write; `refused` says why not."""

    key: str
    word: str
    meaning: str
    refused: str = ""


class Wanted(Struct, frozen=True):
    """What the form asks for."""

    goal: Goal
    loaded: Loaded
    to: Harness


def form_of(adapter: Harness, thread: Thread, values: Mapping[str, str] | None) -> dict[str, Any]:
    """What the form shows; `values` are those that were typed, where it was refused."""
    given, problem = values or {}, ""
    try:
        loaded = config.loaded(folder(thread.cwd))
    except ConfigInvalid as error:
        loaded, problem = Loaded(Settings()), str(error)
    able = [h for h in map(harnesses.get, harnesses.names()) if h.can_start]
    own, names = loaded.settings.to or adapter.name, [h.name for h in able]
    authors = [Author(key, *AUTHORS[key], why) for key, why in _refused(adapter, thread, loaded)]
    author = given.get("author", loaded.settings.author)
    return {
        "goal": escape(given.get("goal", "")),  # the user's own words, with all that is in them
        "budget": given.get("budget", str(loaded.settings.budget)),
        "author": "offline" if any(a.key == author and a.refused for a in authors) else author,
        "to": given.get("to", own if own in names else names[0]),
        "force": given.get("force", ""),
        "authors": authors,
        "successors": [(h.name, h.title) for h in able],
        "problem": problem,
    }


def folder(cwd: str) -> Path:
    """The folder whose settings hold for a thread."""
    try:
        return Path(cwd) if cwd and Path(cwd).is_dir() else home_folder()
    except ValueError:  # a folder that holds a NUL
        return home_folder()


def _refused(adapter: Harness, thread: Thread, loaded: Loaded) -> list[tuple[str, str]]:
    """Each author, and why it cannot write; nobody is asked for that."""
    return [("offline", ""), ("model", _no_model(thread, loaded)), ("agent", _no_agent(adapter))]


def _no_model(thread: Thread, loaded: Loaded) -> str:
    from tasuki.draft.authors import providers

    try:
        providers.resolve(loaded, thread.model, thread.harness)
    except ModelUnavailable as error:
        why = str(error).removeprefix(f"{providers.NONE} ").partition(_HINT)[0]
        return f"not possible: {redact(why)[0]}"
    return ""


def _no_agent(adapter: Harness) -> str:
    if not adapter.can_ask:
        return f"not possible: {adapter.title} cannot be asked"
    if not shutil.which(adapter.program):
        return f"not possible: no program {adapter.program} on the PATH of the server"
    return ""


def wanted(adapter: Harness, cwd: str, form: Mapping[str, str]) -> Wanted:
    """What a form asks for; the goal is kept to the letter.

    Raises GoalTooVague, GoalHasSecret, NotPossible, ConfigInvalid or UsageError.
    """
    flags = {
        "budget": _number(form.get("budget", "")), "author": form.get("author") or None,
        "to": form.get("to") or None,
    }  # fmt: skip
    loaded, force = config.loaded(folder(cwd), flags), bool(form.get("force"))
    goal = check_goal(
        form.get("goal", "").strip("\n"), min_length=loaded.settings.min_goal_length, force=force
    )
    if not force and (told := handoffs.secrets_in(goal.text)):
        raise GoalHasSecret(f"{told} Take it out, or say that you mean it.")
    return Wanted(goal, loaded, harnesses.get(loaded.settings.to or adapter.name))


def _number(text: str) -> int | None:
    bare = text.replace(",", "").strip()
    if not bare:
        return None
    if not (bare.isascii() and bare.isdigit() and len(bare) < 8):
        raise NotPossible("The budget must be a whole number of tokens.")
    return int(bare)
