"""The entries of a session as a tree, and what a branch of it says to the model.

Source: pi 1.5, `docs/session-format.md` of its package, and its `buildSessionContext`.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from tasuki.session.messages import Json, milliseconds

_EDITABLE = frozenset({"user", "assistant", "toolResult", "custom"})


class SessionContext(Struct, frozen=True):
    """What the model is shown at a point of a session."""

    messages: list[Json]
    """In pi's roles: also `custom`, `bashExecution`, `compactionSummary`, `branchSummary`."""
    model: str = ""
    """`provider/id`; empty where the branch names none."""
    thinking: str = ""


class Tree:
    """Entries by id, in the order of the file; each hangs on its parent, the newest is the leaf."""

    def __init__(self, entries: Iterable[Json] = ()) -> None:
        self.entries: list[Json] = []
        self.by_id: dict[str, Json] = {}
        self.leaf: str | None = None
        for entry in entries:
            self.add(entry)

    def add(self, entry: Json) -> None:
        """Take in an entry, which becomes the leaf. One whose id is known is a repetition, as pi
        0.73 writes them: it is not taken in again, but is the leaf."""
        id = str(entry.get("id") or "")
        if id not in self.by_id:
            self.entries.append(entry)
            self.by_id[id] = entry
        self.leaf = id

    def branch(self, leaf: str | None) -> list[Json]:
        """The entries from the root to `leaf`; none for no leaf. Raises KeyError if it is unknown."""
        found: dict[str, Json] = {}
        id = leaf
        while id and id not in found and (entry := self.by_id.get(id)) is not None:
            found[id] = entry
            id = entry.get("parentId")
        if leaf is not None and not found:
            raise KeyError(leaf)
        return list(found.values())[::-1]


def context(branch: Sequence[Json]) -> SessionContext:
    """What the model is shown of a branch: the newest compaction's summary and what it kept, then
    what came after it, with the edits of the context carried out."""
    selected = _selected(branch)
    edits = {e["targetId"]: e for e in selected if e.get("type") == "context_edit"}
    messages = [
        message
        for index, entry in enumerate(selected)
        if not (index and entry.get("type") == "compaction")
        for message in _edited(_messages(entry), edits.get(entry.get("id")))
    ]
    model, thinking = _settings(branch)
    return SessionContext(messages, model, thinking)


def _selected(branch: Sequence[Json]) -> list[Json]:
    """The entries that a compaction left, itself first; all of them where there is none."""
    at = max((i for i, e in enumerate(branch) if e.get("type") == "compaction"), default=-1)
    if at < 0:
        return list(branch)
    first = branch[at].get("firstKeptEntryId")
    start = next((i for i, e in enumerate(branch[:at]) if e.get("id") == first), at)
    kept = [e for e in branch[start:at] if _role(e) != "system"]
    return [branch[at], *kept, *branch[at + 1 :]]


def _message(entry: Json) -> Json:
    message = entry.get("message")
    return message if isinstance(message, dict) else {}


def _role(entry: Json) -> str:
    return str(_message(entry).get("role", ""))


def _messages(entry: Json) -> Iterator[Json]:
    """The messages that an entry stands for: none for what is no part of the conversation."""
    kind, at = entry.get("type"), milliseconds(str(entry.get("timestamp") or "-"))
    if kind == "message":
        yield _whole(_message(entry))
    elif kind == "custom_message":
        yield _renamed("custom", entry, ("customType", "content", "display", "details"), at)
    elif kind == "branch_summary" and entry.get("summary"):
        yield _renamed("branchSummary", entry, ("summary", "fromId"), at)
    elif kind == "compaction":
        if isinstance(system := entry.get("systemMessage"), dict):
            yield system
        yield _renamed("compactionSummary", entry, ("summary", "tokensBefore"), at)


def _renamed(role: str, entry: Json, fields: Iterable[str], at: int) -> Json:
    """A message with those fields that an entry has."""
    return {"role": role, **{k: entry[k] for k in fields if k in entry}, "timestamp": at}


def _whole(message: Json) -> Json:
    """A message of a file, which may lack its content, or be of version 2."""
    if message.get("role") == "hookMessage":
        return {**message, "role": "custom"}
    if message.get("content") is None and message.get("role") != "bashExecution":
        return {**message, "content": "" if message.get("role") == "system" else []}
    return message


def _edited(messages: Iterable[Json], edit: Json | None) -> Iterator[Json]:
    """Messages with a `context_edit` of their entry carried out: left out, or with other content."""
    if edit is None:
        yield from messages
        return
    replacement = edit.get("replacement")
    if replacement is None:
        return
    content = replacement.get("content") if isinstance(replacement, dict) else replacement
    for message in messages:
        role = message.get("role")
        if role not in _EDITABLE:
            yield message
        elif isinstance(content, str) and role in ("assistant", "toolResult"):
            yield {**message, "content": [{"type": "text", "text": content}]}
        else:
            yield {**message, "content": content}


def _settings(branch: Iterable[Json]) -> tuple[str, str]:
    """The model and the thinking level at the end of a branch."""
    model = thinking = ""
    for entry in branch:
        kind = entry.get("type")
        if kind == "thinking_level_change":
            thinking = str(entry.get("thinkingLevel") or "")
        elif kind == "model_change":
            model = _name(entry.get("provider"), entry.get("modelId") or entry.get("model"))
        elif kind == "message" and _role(entry) == "assistant":
            message = _message(entry)
            model = _name(message.get("provider"), message.get("model")) or model
    return model, thinking


def _name(provider: object, model: object) -> str:
    return f"{provider}/{model}" if provider and model else str(model or "")
