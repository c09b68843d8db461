"""What users typed, by a reading of the files that shares no code with the package.

It knows the marks of the formats alone: rows of the user's role, who wrote them where a row says so,
and the elements in which programs speak.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ATTACHED = re.compile(
    r"\s*(?:<context ref=|<system-reminder>|--- Content from referenced files ---)"
)
"""How parts of a message begin that a program put beside the words."""
Row = dict[str, Any]
PROGRAM = re.compile(
    r"\s*(?:<[A-Za-z][\w-]*[ >]|Caveat: |\[Request interrupted|# AGENTS\.md instructions|Base directory for this skill|This session is being continued"
    r"|Implement the following plan:|PLEASE IMPLEMENT THIS PLAN:|Review the current code changes|\[SYSTEM NOTIFICATION|Another Claude session|I ran the following shell command|User has manually exited Plan Mode|System: Potential loop)",
)
"""How texts begin that a program writes in the user's role."""


def read_rows(path: Path) -> list[Row]:
    """The objects of a file of JSON lines that are whole."""
    rows = []
    for line in path.read_bytes().split(b"\n"):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        rows += [row] if isinstance(row, dict) else []
    return rows


def texts_of(content: Any) -> list[str]:
    """The texts of a message; none where it holds the result of a tool."""
    if isinstance(content, str):
        return [content]
    parts = [part for part in content or () if isinstance(part, dict)]
    return [part["text"] for part in parts if isinstance(part.get("text"), str)]


def claude_words(path: Path) -> Iterator[str]:
    """Rows of the user that are no meta, and no branch that the user left."""
    rows = {row["uuid"]: row for row in reversed(read_rows(path)) if row.get("uuid")}
    typed: dict[Any, list[str]] = {}
    for row in reversed(rows.values()):
        attached = row.get("attachment") or {}
        if row.get("isSidechain"):
            continue
        if attached.get("type") == "queued_command" and attached.get("commandMode") == "prompt":
            prompt = "" if attached.get("isMeta") else attached["prompt"]
            yield from (t for t in texts_of(prompt) if not PROGRAM.match(t))
        marks = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
        if row.get("type") != "user" or any(row.get(mark) for mark in marks):
            continue
        if (row.get("origin") or {}).get("kind", "human") != "human" or row.get(
            "promptSource"
        ) == "system":
            continue
        content = (row.get("message") or {}).get("content")
        texts = [t for t in texts_of(content) if not ATTACHED.match(t)]
        if "tool_result" in str(content) and '"tool_result"' in json.dumps(content):
            yield from (t for t in texts if not PROGRAM.match(t))
        elif texts and not texts[0].startswith(("<local-command", "<bash-", "[Request")):
            typed.setdefault(row.get("parentUuid"), []).append("\n".join(texts))
    for siblings in typed.values():
        if command := re.search(r"<command-name>(.*?)</command-name>", siblings[-1]):
            arguments = re.search(r"(?s)<command-args>(.*?)</command-args>", siblings[-1])
            yield f"{command[1]} {arguments[1] if arguments else ''}"
        elif not PROGRAM.match(siblings[-1]):
            yield siblings[-1]


def claude_queue(path: Path) -> Iterator[str]:
    """What was typed while Claude Code worked; whether it was sent, older versions do not say."""
    for row in read_rows(path):
        if row.get("type") == "queue-operation" and isinstance(row.get("content"), str):
            yield row["content"]


def codex_words(path: Path) -> Iterator[str]:
    """The events and marked items in which Codex says what the user sent, without an editor's context."""
    rows = read_rows(path)
    source = json.dumps([r["payload"].get("source") for r in rows[:1] if "payload" in r])
    for row in rows:
        payload = row.get("payload") or {}
        if (
            row.get("type") == "event_msg"
            and payload.get("type") == "user_message"
            and "subagent" not in source
        ):
            text = payload["message"]
            if re.match(r"\s*# (?:Context from my IDE|Files mentioned|Review findings)", text):
                text = re.split(r"(?m)^## My request.*$", text)[-1]
            if not PROGRAM.match(text):
                yield text
        kinds = (payload.get("internal_chat_message_metadata_passthrough") or {}).get(
            "content_item_kinds"
        )
        if payload.get("role") == "user" and "subagent" not in source:
            for part, kind in zip(payload["content"], kinds or (), strict=False):
                yield from (
                    [part["text"]] if (kind or "").startswith("user.") and "text" in part else []
                )


def list_messages(path: Path) -> list[Row]:
    """The messages of a document; of a log of Gemini CLI those that were not rewound."""
    if path.suffix == ".json":
        return list(json.loads(path.read_text(errors="replace"))["messages"])
    messages: dict[str, Row] = {}
    for row in read_rows(path):
        if "$rewindTo" in row:
            ids = list(messages)
            for id in ids[ids.index(row["$rewindTo"]) :] if row["$rewindTo"] in ids else ():
                del messages[id]
        for message in [row, *((row.get("$set") or {}).get("messages") or ())]:
            messages |= {message["id"]: message} if message.get("id") else {}
    return list(messages.values())


def json_words(path: Path) -> Iterator[str]:
    """Gemini CLI and opencode."""
    for message in list_messages(path):
        if message.get("type") == "user":
            whole = "\n".join(texts_of(message["content"]))
            text = re.split(r"(?m)^--- Content from referenced files ---$", whole)[0]
            yield from [text] if not PROGRAM.match(text) else []
        elif message.get("info", {}).get("role") == "user":
            for part in message["parts"]:
                if part["type"] == "text" and not part.get("synthetic") and not part.get("ignored"):
                    yield from [part["text"]] if not PROGRAM.match(part["text"]) else []


def copilot_words(path: Path) -> Iterator[str]:
    """Events of the user that name no other source."""
    for row in read_rows(path):
        if row.get("type") == "user.message" and row["data"].get("source", "user") == "user":
            yield from [row["data"]["content"]] if not PROGRAM.match(row["data"]["content"]) else []


def pi_words(path: Path) -> Iterator[str]:
    """Messages of the user's role that lead to the last line."""
    rows = {
        row["id"]: row for row in read_rows(path) if row.get("id") and row.get("type") != "session"
    }
    branch, leaf = [], next(reversed(rows), None)
    while leaf in rows and rows[leaf] not in branch:
        branch.append(rows[leaf])
        leaf = rows[leaf].get("parentId")
    for row in branch[::-1] or read_rows(path):
        message = row.get("message") or {}
        if row.get("type") == "message" and message.get("role") == "user":
            yield from (t for t in texts_of(message["content"]) if not PROGRAM.match(t))


def specstory_words(path: Path) -> Iterator[str]:
    """What is below a heading of the user, up to the next heading."""
    text = path.read_text(errors="replace")
    detail = r" \(" if "\n_**User (" in text else ""
    for turn in re.split(rf"(?m)^_\*\*(?=(?:User|Agent|Assistant)\b[^(\n]*?{detail}|\*\*_)", text)[
        1:
    ]:
        heading, _, body = turn.partition("\n")
        if heading.startswith("User") and "sidechain" not in heading:
            body = re.split(r"(?m)^---\s*\Z", body.rstrip())[0]
            yield from [body] if not PROGRAM.match(body) else []


def aider_words(path: Path) -> Iterator[str]:
    """Lines behind four hashes, each with two blanks at its end."""
    lines = re.findall(r"(?m)^#### (?!!|/(?:run|test) )(.*)  $", path.read_text(errors="replace"))
    yield "\n".join(line for line in lines if line != "<blank>")


READERS: dict[str, Callable[[Path], Iterator[str]]] = {
    "claude": claude_words, "codex": codex_words, "gemini": json_words, "opencode": json_words,
    "copilot": copilot_words, "pi": pi_words, "omp": pi_words, "specstory": specstory_words, "aider": aider_words,
}  # fmt: skip


def fold(text: str) -> str:
    """Letters and digits alone: marks of lists, emphasis and white space say nothing."""
    return re.sub(r"[\W_]+", "", text.casefold())


def sentences_of(text: str) -> list[str]:
    """The sentences of a message, without numbers of lists, folded."""
    text = re.sub(r"(?m)^\s*(?:[-*+•>#]+|\d{1,3}[.)])\s+", "", re.sub(r"\n\s*\n", "\n\n", text))
    text = re.sub(r"(?m)^\s*(?:```|~~~).*$|\[(?:image|Image)[^\]]*\]", "", text)
    return [f for s in re.split(r"\n|(?<=[.!?])\s+", text) if (f := fold(s))]
