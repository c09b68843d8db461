"""Threads of Claude Code, row by row, and the words of the user in a thread."""

import json
from pathlib import Path
from typing import Any

from tasuki.draft.text.entries import extract_user_words
from tasuki.model import Thread


def words_of(thread: Thread) -> list[str]:
    """The user's own words, message by message."""
    return [words for e in thread.entries if (words := extract_user_words(e))]


def claude_thread(folder: Path, *rows: dict[str, Any]) -> Path:
    """A thread of Claude Code of these rows; each has a place in the tree and a time."""
    path = folder / "11111111-1111-4111-8111-111111111111.jsonl"
    common = {"sessionId": path.stem, "cwd": "/srv/app", "version": "2.1.332", "isSidechain": False}
    text, parent = "", None
    for number, row in enumerate(rows):
        uuid = f"00000000-0000-4000-8000-{number:012d}"
        place = {"parentUuid": parent, "uuid": uuid} if "operation" not in row else {}
        parent = uuid if place else parent
        moment = f"2026-11-20T10:00:{number:02d}.000Z"
        text += json.dumps(place | common | {"timestamp": moment, "type": "user"} | row) + "\n"
    path.write_text(text)
    return path


def said(text: Any, **marks: Any) -> dict[str, Any]:
    """A row of user role."""
    return {"message": {"role": "user", "content": text}} | marks


TYPED = {"promptSource": "typed", "origin": {"kind": "human"}}
