"""Messages of a session in pi's form: how they are built, their tree, and what the model sees.

Source: pi 1.5, `docs/message-types.md` and `docs/session-format.md` of its package, and its
`buildSessionContext`.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

Json = dict[str, Any]
"""A record of a session file, a message or a block of one, with the field names of pi."""

_SUMMARY_TEMPLATES = {
    "compactionSummary": "The conversation history before this point was compacted into the"
    " following summary:\n\n<summary>\n{}\n</summary>",
    "branchSummary": "The following is a summary of a branch that this conversation came back from:"
    "\n\n<summary>\n{}</summary>",
}
"""What the model reads about a summary, by its role."""
_NO_USAGE = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0}
_NO_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}


def convert_time(timestamp: str = "") -> int:
    """Convert an entry's time, or now, to milliseconds since 1970; 0 if it is unreadable."""
    if not timestamp:
        return time.time_ns() // 1_000_000
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except ValueError:
        return 0


def build_text_block(text: str) -> Json:
    """Build a block of text."""
    return {"type": "text", "text": text}


def extract_text(message: Json) -> str:
    """Extract the text blocks of a message, joined by newlines."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(b.get("text", "") for b in content if b.get("type") == "text")


def build_tool_call(id: str, name: str, arguments: Json) -> Json:
    """Build a block of an assistant message that calls a tool."""
    return {"type": "toolCall", "id": id, "name": name, "arguments": arguments}


def build_user_message(text: str) -> Json:
    """Build a message of the user."""
    return {"role": "user", "content": [build_text_block(text)], "timestamp": convert_time()}


def build_assistant_message(
    content: list[Json],
    *,
    provider: str = "",
    model: str = "",
    stop: str = "stop",
    error: str = "",
) -> Json:
    """Build a message of the agent.

    `stop` is pi's reason: stop, length, toolUse, error or aborted.
    """
    message: Json = {
        "role": "assistant",
        "content": content,
        "api": "acp",
        "provider": provider,
        "model": model,
        "usage": {**_NO_USAGE, "cost": _NO_COST},
        "stopReason": stop,
        "timestamp": convert_time(),
    }
    if error:
        message["errorMessage"] = error
    return message


def build_tool_result(call_id: str, name: str, text: str, error: bool = False) -> Json:
    """Build the result of a tool."""
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": name,
        "content": [build_text_block(text)],
        "isError": error,
        "timestamp": convert_time(),
    }


def build_model_messages(messages: Iterable[Json]) -> list[Json]:
    """Build the messages of a context as the model gets them.

    Messages of pi's own roles become user messages, except those of the conversation itself; a
    command that should stay hidden is left out.
    """
    return [
        converted for message in messages if (converted := _convert_for_model(message)) is not None
    ]


def _convert_for_model(message: Json) -> Json | None:
    role = message.get("role")
    if role in ("system", "user", "assistant", "toolResult"):
        return message
    if role == "custom":
        content = message.get("content") or []
    elif role in _SUMMARY_TEMPLATES:
        content = _SUMMARY_TEMPLATES[role].format(message["summary"])
    elif role == "bashExecution" and not message.get("excludeFromContext"):
        content = _format_command(message)
    else:
        return None
    blocks = [build_text_block(content)] if isinstance(content, str) else content
    return {"role": "user", "content": blocks, "timestamp": message.get("timestamp", 0)}


def _format_command(message: Json) -> str:
    """Format a command that the user ran, with its output."""
    output = message.get("output")
    text = f"Ran `{message.get('command', '')}`\n"
    text += f"```\n{output}\n```" if output else "(no output)"
    if message.get("cancelled"):
        text += "\n\n(command cancelled)"
    elif code := message.get("exitCode"):
        text += f"\n\nCommand exited with code {code}"
    if message.get("truncated") and (full := message.get("fullOutputPath")):
        text += f"\n\n[Output truncated. Full output: {full}]"
    return text


_EDITABLE = frozenset({"user", "assistant", "toolResult", "custom"})


class EntryTree:
    """Entries by id, in the order of the file; each has a parent, and the newest is the leaf."""

    def __init__(self, entries: Iterable[Json] = ()) -> None:
        self.entries: list[Json] = []
        self.by_id: dict[str, Json] = {}
        self.leaf: str | None = None
        for entry in entries:
            self.add_entry(entry)

    def add_entry(self, entry: Json) -> None:
        """Add an entry, which becomes the leaf.

        An entry whose id is known is a repetition, as pi 0.73 writes them: it is not added again,
        but it becomes the leaf.
        """
        id = str(entry.get("id") or "")
        if id not in self.by_id:
            self.entries.append(entry)
            self.by_id[id] = entry
        self.leaf = id

    def get_branch(self) -> list[Json]:
        """Return the entries from the root to the leaf."""
        entries: dict[str, Json] = {}
        id = self.leaf
        while id and id not in entries and (entry := self.by_id.get(id)) is not None:
            entries[id] = entry
            id = entry.get("parentId")
        return list(entries.values())[::-1]


def build_context(branch: Sequence[Json]) -> list[Json]:
    """Build what the model sees of a branch, in pi's roles.

    That is the newest compaction's summary and what it kept, then what came after it, with the
    edits of the context applied.
    """
    selected = _select_entries(branch)
    edits = {e["targetId"]: e for e in selected if e.get("type") == "context_edit"}
    return [
        message
        for index, entry in enumerate(selected)
        if not (index and entry.get("type") == "compaction")
        for message in _apply_edit(_convert_entry(entry), edits.get(entry.get("id")))
    ]


def _select_entries(branch: Sequence[Json]) -> list[Json]:
    """Select the entries that a compaction left, itself first; all of them where there is none."""
    index = max((i for i, e in enumerate(branch) if e.get("type") == "compaction"), default=-1)
    if index < 0:
        return list(branch)
    first = branch[index].get("firstKeptEntryId")
    start = next((i for i, e in enumerate(branch[:index]) if e.get("id") == first), index)
    kept_entries = [e for e in branch[start:index] if _get_message(e).get("role") != "system"]
    return [branch[index], *kept_entries, *branch[index + 1 :]]


def _get_message(entry: Json) -> Json:
    message = entry.get("message")
    return message if isinstance(message, dict) else {}


def _convert_entry(entry: Json) -> Iterator[Json]:
    """Yield the messages that an entry represents: none for what is no part of the conversation."""
    kind, timestamp = entry.get("type"), convert_time(str(entry.get("timestamp") or "-"))
    if kind == "message":
        yield _complete_message(_get_message(entry))
    elif kind == "custom_message":
        yield _build_message(
            "custom", entry, ("customType", "content", "display", "details"), timestamp
        )
    elif kind == "branch_summary" and entry.get("summary"):
        yield _build_message("branchSummary", entry, ("summary", "fromId"), timestamp)
    elif kind == "compaction":
        if isinstance(system := entry.get("systemMessage"), dict):
            yield system
        yield _build_message("compactionSummary", entry, ("summary", "tokensBefore"), timestamp)


def _build_message(role: str, entry: Json, fields: Iterable[str], timestamp: int) -> Json:
    """Build a message with those fields that an entry has."""
    return {"role": role, **{k: entry[k] for k in fields if k in entry}, "timestamp": timestamp}


def _complete_message(message: Json) -> Json:
    """Complete a message of a file, which may lack its content, or be of version 2."""
    if message.get("role") == "hookMessage":
        return {**message, "role": "custom"}
    if message.get("content") is None and message.get("role") != "bashExecution":
        return {**message, "content": "" if message.get("role") == "system" else []}
    return message


def _apply_edit(messages: Iterable[Json], edit: Json | None) -> Iterator[Json]:
    """Apply a `context_edit` to its messages: remove them, or replace their content."""
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
