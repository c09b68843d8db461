"""From a running session to the message that its successor begins with, kept in the vault.

    read the thread → the session writes → checks beside the document → vault

Every door into a session takes this way: AgentSession, `tasuki chat`, the ACP proxy.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tasuki import handoffs
from tasuki import harness as harnesses
from tasuki.config import Loaded, Settings
from tasuki.draft import assemble, dictation, pipeline
from tasuki.draft import brief as briefs
from tasuki.draft.dictation import Ask, Dictated
from tasuki.draft.pipeline import Made, Prepared
from tasuki.draft.redact import Redactor
from tasuki.draft.standing import spoken
from tasuki.errors import GoalHasSecret, TasukiError
from tasuki.harness.pi_v3.format import handoff_text
from tasuki.harness.protocol import Harness
from tasuki.model import Goal, Handoff
from tasuki.plain import plain
from tasuki.vault import Vault, new_id

WRITING = "Writing handoff document..."
MADE = 20
"""Files, and todos, that a successor is told of."""


class Handed(Struct, frozen=True):
    """A handoff out of a running session, kept and not yet given to a successor.

    `document` is what the session wrote, redacted, empty where another author wrote; `message` is
    what the successor's context begins with; `told` are sentences for the user.
    """

    handoff: Handoff
    document: str
    message: str
    told: tuple[str, ...] = ()


def handed(
    harness: Harness,
    path: Path,
    ask: Ask,
    *,
    loaded: Loaded,
    focus: str = "",
    goal: Goal | None = None,
    to: str = "",
    vault: Vault | None = None,
    made: Sequence[str] = (),
    report: Callable[[str], None] = lambda phase: None,
) -> Handed:
    """Have a running session hand itself off.

    `focus` is what the document is to look at most, `goal` what the user wants next; `made` are lines
    on what the session made beside the conversation: files, its todo list. The session is asked
    through `ask`; where the user's own configuration names the author `offline` or `model`, that one
    writes instead. A focus is kept without secrets; a goal with one is refused. The thread file is
    read before anything is asked, so a document never bears itself out.

    Raises NothingToHandOff, GoalHasSecret, AuthorFailed, Cancelled, StoreFailed, ThreadUnreadable.
    """
    vault = vault or Vault()
    wanted = goal or Goal(text=Redactor().redact(plain(focus)))
    if goal and not goal.forced and (secret := handoffs.secrets_in(goal.text)):
        raise GoalHasSecret(f"{secret} Take it out.")
    if configured_author(loaded):
        return _by_author(harness, path, wanted, loaded, to, vault, report)
    settings = loaded.settings
    given = pipeline.prepared(harness, path, wanted, settings, report=report)
    report(WRITING)
    id = new_id()
    dictated = dictation.dictate(
        ask, given.task, given.known, settings, id, focus or (goal.text if goal else "")
    )
    report(pipeline.ASSEMBLING)
    return _kept(given, dictated, made, id, settings, to or harness.name, vault)


def holds(harness: Harness, path: Path, said: str) -> bool:
    """Whether a thread is the conversation in which the user said this: it may be another one, or a
    file that is still being written."""
    wanted = spoken(plain(said))
    try:
        entries = harness.read(path).entries
    except TasukiError:
        return False
    return any(wanted in spoken(plain(e.text)) for e in reversed(entries) if e.kind == "user")


def listed(lines: Sequence[str], what: str) -> list[str]:
    """The first of some lines, and how many more there are."""
    more = len(lines) - MADE
    return [*lines[:MADE], f"- … and {more} more {what}"] if more > 0 else list(lines)


def configured_author(loaded: Loaded) -> str:
    """The author that the user's configuration names in place of the session, else empty."""
    author = loaded.settings.author
    chosen = loaded.sources.get("author", "default") != "default"
    return author if chosen and author != "agent" else ""


def _kept(
    given: Prepared,
    dictated: Dictated,
    made: Sequence[str],
    id: str,
    settings: Settings,
    to: str,
    vault: Vault,
) -> Handed:
    redactor = Redactor()
    citations = tuple(assemble.cite(given.thread, dictated.draft, redactor))
    draft = assemble.redacted(dictated.draft, redactor)
    shown = replace(
        dictated,
        document=redactor.redact(dictated.document),
        added=assemble.redacted(dictated.added, redactor),
    )
    body = dictation.body(shown, id, [redactor.redact(line) for line in made])
    context = _context(body, settings, has_goal=bool(draft.goal.text))
    handoff = assemble.handoff(
        draft,
        given.thread,
        context,
        redactor,
        citations,
        id=id,
        parent=handoffs.whole_id(vault, given.derived.parent),
        to=to,
        budget=settings.budget,
        created=handoffs.now(),
        snapshot=given.snapshot(draft),
    )
    vault.save(handoff, handoffs.brief_of(handoff, context))
    vault.append(id, handoffs.event("drafted"))
    whole = Made(handoff, context, given.thread, given.derived.facts, [])
    told = (*handoffs.authored(whole), *handoffs.warnings_of(whole))
    return Handed(handoff, shown.document, handoff_text(body), told)


def _context(body: str, settings: Settings, *, has_goal: bool) -> str:
    """The brief without its goal, for a successor that is started from the vault."""
    preamble = [briefs.PREAMBLE] if has_goal and settings.include_handoff_preamble else []
    head = "\n".join([briefs.TITLE, *preamble])
    return f"{head}\n\n{briefs.FENCE_OPEN}\n{body}\n{briefs.FENCE_CLOSE}\n"


def _by_author(
    harness: Harness,
    path: Path,
    goal: Goal,
    loaded: Loaded,
    to: str,
    vault: Vault,
    report: Callable[[str], None],
) -> Handed:
    """The handoff of another author, from the thread file alone."""
    successor = harnesses.get(to) if to else harness
    offer = handoffs.offer(
        harness, path, goal, loaded, successor=successor, vault=vault, must_keep=True, report=report
    )
    told = (*offer.told, *offer.warnings)
    return Handed(offer.handoff, "", handoff_text(offer.context.rstrip("\n")), told)
