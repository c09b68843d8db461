"""Choose who writes the draft: agent → model → offline, falling back in that order.

If an author fails, the next one takes over with the reason, so no handoff is lost. The
facts are the same for every author: they are derived from the thread.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from itertools import combinations
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from tasuki.config.settings import LoadedSettings, Settings
from tasuki.draft import brief
from tasuki.draft.authors import choices, offline
from tasuki.draft.authors.author import AuthorTask
from tasuki.draft.claims.checker import NEXT_STEP, DraftCheck, DraftChecker
from tasuki.draft.text.polarity import says_opposite
from tasuki.draft.text.split import shorten
from tasuki.errors import AuthorFailed, ExtraMissing, ModelUnavailable
from tasuki.harness import registry as harnesses
from tasuki.model import Authorship, CommandItem, Draft, Dropped, FileItem, Item

if TYPE_CHECKING:
    from tasuki.draft.authors.author import Asker
    from tasuki.draft.authors.extraction import AuthoredDraft

AUTHOR_ORDER = ("agent", "model", "offline")
ROOM = "room"
"""The kind of what the budget left out."""
MAX_COMPARED = 24
"""An author's items of which each two are compared."""
MAX_LEFT_OUT = 60
"""Maximum items in `left_out`."""
SECTIONS = tuple(name for name in brief.SECTIONS if name not in ("drift", "metadata"))
"""All sections that facts or an author fill."""
_T = TypeVar("_T", Item, FileItem, CommandItem)


def write_draft(
    task: AuthorTask, base: Draft, loaded: LoadedSettings, handoff_id: str
) -> tuple[Draft, list[str]]:
    """Return a checked draft within the budget, and sentences that explain a change of author.

    `base` holds the sections no author writes: metadata, drift, skill. Raises ModelUnavailable
    or ExtraMissing if a model was requested and there is none, AuthorFailed with the setting
    `strict`, Cancelled.
    """
    settings = loaded.settings
    check = DraftChecker(
        task.thread, task.derived, task.goal, settings.list_limits(), settings.validate_files
    ).check_draft
    messages: list[str] = []
    fallback_reasons: list[str] = []
    for name in AUTHOR_ORDER[AUTHOR_ORDER.index(settings.author) : -1]:
        try:
            written, notes = _ask_author(name, task, loaded, check)
        except (AuthorFailed, ModelUnavailable, ExtraMissing) as error:
            never_began = name == settings.author and not isinstance(error, AuthorFailed)
            if settings.strict or never_began:
                raise
            fallback_reasons.append(f"{name}: {error}")
            messages.append(f"The author {name} failed, so the next one writes. {error}")
            continue
        draft = complete_draft(written, base, task, settings, handoff_id, check)
        authorship = replace(draft.authorship, fell=tuple(fallback_reasons))
        notes += _describe_dropped(draft, name, handoff_id)
        return replace(draft, authorship=authorship), [*messages, *notes]
    draft = check(_build_draft(task, base, settings, handoff_id))
    return replace(draft, authorship=Authorship(fell=tuple(fallback_reasons))), messages


def _describe_dropped(draft: Draft, name: str, handoff_id: str) -> Iterator[str]:
    """Yield the line that says how much of an author's words is not in the brief, and where that is listed."""
    without_room = sum(dropped.kind == ROOM for dropped in draft.dropped)
    parts = (
        (len(draft.dropped) - without_room, "the checks dropped {}"),
        (without_room, "{} had no room"),
    )
    told = [words.format(f"{n} item{'s' if n > 1 else ''}") for n, words in parts if n]
    if told:
        yield f"Of what the {name} wrote {' and '.join(told)}; `tasuki show {handoff_id[:8]}` lists them."
    written = [i for i in (*draft.context, *draft.decisions) if i.label != NEXT_STEP]
    for one, other in combinations(written[:MAX_COMPARED], 2):
        if says_opposite(one.text, other.text) or says_opposite(other.text, one.text):
            texts = " and ".join(f"“{shorten(item.text, 80)}”" for item in (one, other))
            yield f"These may contradict each other: {texts}. Check them in the review."


def _ask_author(
    name: str, task: AuthorTask, loaded: LoadedSettings, check: DraftCheck
) -> "tuple[AuthoredDraft, list[str]]":
    """Return a checked draft in the words of one author, and sentences for the user."""
    from tasuki.draft.authors import extraction  # not needed by a draft without an author

    asker, notes = ASKERS[name](task, loaded)
    with closing(asker):
        talk = extraction.AuthorConversation(asker)
        try:
            written = extraction.extract_draft(talk, task, check)
        except AuthorFailed as error:
            cost = f" (That took {talk.describe_cost()}.)" if talk.replies else ""
            raise type(error)(f"{error}{cost}") from error
    return written, [*notes, *written.notes]


def _create_agent_asker(task: AuthorTask, loaded: LoadedSettings) -> "tuple[Asker, list[str]]":
    from tasuki.draft.authors.agent_and_model import AgentAsker

    settings, harness = loaded.settings, task.thread.harness
    if harness not in harnesses.list_names():
        raise AuthorFailed(f"No harness {harness!r} is known, so no agent can be asked.")
    asked = harnesses.get_harness(harness)
    return AgentAsker(task, asked, settings.agent_format, settings.author_seconds), []


def _create_model_asker(task: AuthorTask, loaded: LoadedSettings) -> "tuple[Asker, list[str]]":
    from tasuki.draft.authors.agent_and_model import ModelAsker
    from tasuki.draft.models import providers

    endpoint = providers.resolve_endpoint(loaded, task.thread.model)
    return ModelAsker(task, endpoint, loaded.settings.author_seconds), list(endpoint.notes)


ASKERS: "dict[str, Callable[[AuthorTask, LoadedSettings], tuple[Asker, list[str]]]]" = {
    "agent": _create_agent_asker,
    "model": _create_model_asker,
}


def _build_draft(
    task: AuthorTask,
    base: Draft,
    settings: Settings,
    handoff_id: str,
    authored: Draft | None = None,
) -> Draft:
    return offline.write_offline_draft(
        task,
        base,
        budget=settings.budget,
        handoff_id=handoff_id,
        reasons=settings.include_file_reasons,
        preamble=settings.include_handoff_preamble,
        authored=authored,
    )


def complete_draft(
    authored_draft: "AuthoredDraft",
    base: Draft,
    task: AuthorTask,
    settings: Settings,
    handoff_id: str,
    check: DraftCheck,
) -> Draft:
    """Return an author's context, decisions and questions with the derived facts added.

    The facts are the same for every author. Files and commands that the author chose come
    first, with its reasons; the user's words that it chose are quoted with the others. The
    remaining room goes to excerpts. The facts are checked here, the author's items were checked
    before.
    """
    authored = authored_draft.draft
    authorship, files = authored.authorship, authored.files
    if not settings.include_file_reasons:
        files = tuple(replace(f, reason="") for f in files)
    commands = tuple(_add_outcome(c, task) for c in authored.commands)
    authored = replace(authored, files=files, commands=commands)
    # Who wrote it, and which part of the thread they did not get whole.
    model = f", {authorship.model}" if authorship.model else ""
    part = f"; entries before #{authorship.whole_from} were given as facts and excerpts"
    byline = f"Written by: {authorship.author}{model}{part if authorship.whole_from > 1 else ''}"
    empty = replace(base, metadata=(*base.metadata, byline))
    draft = _build_draft(task, empty, settings, handoff_id, authored)
    facts = {s: _exclude_items(getattr(draft, s), getattr(authored, s)) for s in SECTIONS}
    passed = check(replace(draft, **facts, dropped=(), authorship=Authorship()))
    sections = {
        s: _exclude_items(getattr(draft, s), _exclude_items(facts[s], getattr(passed, s)))
        for s in SECTIONS
    }
    filled = sum(len(getattr(passed, s)) for s in SECTIONS)
    kept = {get_item_key(item) for items in sections.values() for item in items}
    without_room = [
        Dropped(section, get_item_key(item), "the budget had no room for it", ROOM, item.refs)
        for section in ("state", "context", "decisions", "questions", "files", "commands")
        for item in getattr(authored, section)
        if get_item_key(item) not in kept
    ]
    dropped = (*authored.dropped, *without_room)
    return replace(
        draft,
        **sections,
        authorship=replace(authorship, filled=filled),
        dropped=dropped,
        left_out=draft.left_out[:MAX_LEFT_OUT],
    )


def _exclude_items(items: Sequence[_T], others: Collection[_T]) -> tuple[_T, ...]:
    return tuple(item for item in items if item not in others)


def get_item_key(item: Item | FileItem | CommandItem) -> str:
    """Return what distinguishes an item in its section: its words, its path or its command."""
    if isinstance(item, Item):
        return item.text
    return item.command if isinstance(item, CommandItem) else item.path


def _add_outcome(item: CommandItem, task: AuthorTask) -> CommandItem:
    """Return a chosen command with the outcome of its last run after the author's reason."""
    known = task.inventory.find_command(item.command)
    is_told = known and known.refs[-1] not in choices.list_closed_failures(task.derived.facts)
    outcome = choices.format_command_note(known) if known and is_told else ""
    if not outcome or outcome in item.note:
        return item
    return replace(item, note=f"{item.note}; {outcome}" if item.note else outcome)
