"""Who writes the draft: agent → model → offline. The way only leads down, and never off the end.

An author that fails hands over to the next one with its reason, so that no handoff is lost. The
facts are the same whoever writes: they are derived from the thread.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from tasuki import harness as harnesses
from tasuki.config import Loaded, Settings
from tasuki.draft.authors import choices, offline
from tasuki.draft.authors.task import Task
from tasuki.draft.checks import Check, Checker
from tasuki.errors import AuthorFailed, ExtraMissing, ModelUnavailable
from tasuki.model import Authorship, CommandItem, Draft, FileItem, Item

if TYPE_CHECKING:
    from tasuki.draft.authors.asker import Asker
    from tasuki.draft.extraction import Written

RUNGS = ("agent", "model", "offline")
SHOWN = 60
"""Items in `left_out`."""
SECTIONS = (
    "stopped",
    "state",
    "asked",
    "context",
    "decisions",
    "questions",
    "steps",
    "files",
    "commands",
    "previous",
)
"""All sections that facts or an author fill."""
_T = TypeVar("_T", Item, FileItem, CommandItem)


def write(task: Task, base: Draft, loaded: Loaded, handoff_id: str) -> tuple[Draft, list[str]]:
    """A checked draft within the budget, and sentences for the user: why somebody else wrote it.

    `base` holds what is known beside the thread. Raises ModelUnavailable or ExtraMissing if a
    model was asked for and there is none, AuthorFailed with the setting `strict`, Cancelled.
    """
    settings = loaded.settings
    check = Checker(
        task.thread, task.derived, task.goal, settings.limits(), settings.validate_files
    ).checked
    told: list[str] = []
    fell: list[str] = []
    for name in RUNGS[RUNGS.index(settings.author) : -1]:
        try:
            written, notes = _written(name, task, loaded, check)
        except (AuthorFailed, ModelUnavailable, ExtraMissing) as error:
            never_began = name == settings.author and not isinstance(error, AuthorFailed)
            if settings.strict or never_began:
                raise
            fell.append(f"{name}: {error}")
            told.append(f"The author {name} failed, so the next one writes. {error}")
            continue
        draft = completed(written, base, task, settings, handoff_id, check)
        by = replace(draft.authorship, fell=tuple(fell))
        return replace(draft, authorship=by), [*told, *notes]
    draft = check(_composed(task, base, settings, handoff_id))
    return replace(draft, authorship=Authorship(fell=tuple(fell))), told


def _written(name: str, task: Task, loaded: Loaded, check: Check) -> "tuple[Written, list[str]]":
    """A checked draft in the words of one author, and sentences for the user."""
    from tasuki.draft import extraction  # not needed by a draft that nobody is asked for

    asker, notes = ASKERS[name](task, loaded)
    with closing(asker):
        talk = extraction.Conversation(asker)
        try:
            written = extraction.write(talk, task, check)
        except AuthorFailed as error:
            cost = f" (That took {talk.spent()}.)" if talk.replies else ""
            raise type(error)(f"{error}{cost}") from error
    return written, [*notes, *written.notes]


def _agent(task: Task, loaded: Loaded) -> "tuple[Asker, list[str]]":
    from tasuki.draft.authors.agent import AgentAsker

    settings = loaded.settings
    name = task.thread.harness
    if name not in harnesses.names():
        raise AuthorFailed(f"No harness {name!r} is known whose agent could be asked.")
    return AgentAsker(task, harnesses.get(name), settings.agent_format, settings.author_seconds), []


def _model(task: Task, loaded: Loaded) -> "tuple[Asker, list[str]]":
    from tasuki.draft.authors import providers
    from tasuki.draft.authors.model import ModelAsker

    endpoint = providers.resolve(loaded, task.thread.model, task.thread.harness)
    notes = list(endpoint.notes)
    return ModelAsker(task, endpoint, loaded.settings.author_seconds), notes


ASKERS: "dict[str, Callable[[Task, Loaded], tuple[Asker, list[str]]]]" = {
    "agent": _agent,
    "model": _model,
}


def _composed(
    task: Task, base: Draft, settings: Settings, handoff_id: str, authored: Draft | None = None
) -> Draft:
    return offline.write(
        task,
        base,
        budget=settings.budget,
        handoff_id=handoff_id,
        reasons=settings.include_file_reasons,
        preamble=settings.include_handoff_preamble,
        authored=authored,
    )


def completed(
    written: "Written", base: Draft, task: Task, settings: Settings, handoff_id: str, check: Check
) -> Draft:
    """An author's context, decisions and questions, with the facts that are the same whoever writes.

    Files and commands that the author chose come first, with its reasons; the user's words that it
    chose are quoted with the others. What room is left goes to excerpts. The facts are checked here,
    the author's items were checked before.
    """
    by = written.draft.authorship
    commands = tuple(_with_outcome(c, task) for c in written.draft.commands)
    files = written.draft.files
    if not settings.include_file_reasons:
        files = tuple(replace(f, reason="") for f in files)
    authored = replace(written.draft, files=files, commands=commands)
    empty = replace(base, metadata=(*base.metadata, _byline(by)))
    draft = _composed(task, empty, settings, handoff_id, authored)
    facts = {s: _without(getattr(draft, s), getattr(authored, s)) for s in SECTIONS}
    passed = check(replace(draft, **facts, dropped=(), authorship=Authorship()))
    sections = {
        s: _without(getattr(draft, s), _without(facts[s], getattr(passed, s))) for s in SECTIONS
    }
    filled = sum(len(getattr(passed, s)) for s in SECTIONS)
    return replace(
        draft,
        **sections,
        authorship=replace(by, filled=filled),
        dropped=written.draft.dropped,
        left_out=draft.left_out[:SHOWN],
    )


def _without(items: Sequence[_T], others: Collection[_T]) -> tuple[_T, ...]:
    """Items that are not among others, in their order."""
    return tuple(item for item in items if item not in others)


def key_of(item: Item | FileItem | CommandItem) -> str:
    """What tells an item from others of its section: its words, its path or its command."""
    if isinstance(item, Item):
        return item.text
    return item.command if isinstance(item, CommandItem) else item.path


def _byline(by: Authorship) -> str:
    """Who wrote the draft, and what of the thread they did not have whole, for the brief."""
    model = f", {by.model}" if by.model else ""
    part = f"; entries before #{by.whole_from} were given as facts and excerpts"
    return f"Written by: {by.author}{model}{part if by.whole_from > 1 else ''}"


def _with_outcome(item: CommandItem, task: Task) -> CommandItem:
    """A chosen command with what came of its last run behind the author's reason."""
    known = task.inventory.command(item.command)
    outcome = choices.command_note(known) if known else ""
    if not outcome or outcome in item.note:
        return item
    return replace(item, note=f"{item.note}; {outcome}" if item.note else outcome)
