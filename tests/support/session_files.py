"""Session files for tests: what is said in one, and what it holds."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tasuki.session.pi_store.manager import SessionManager
from tasuki.session.pi_store.messages import (
    EntryTree,
    Json,
    build_assistant_message,
    build_context,
    build_text_block,
    build_user_message,
)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SessionManager]:
    """A fresh session of a folder."""
    with closing(SessionManager.create(tmp_path / "proj", tmp_path / "sessions")) as made:
        yield made


def say(session: SessionManager, *texts: str) -> list[str]:
    """Messages of user and agent by turns; their ids."""
    return [
        session.append_message(
            build_assistant_message([build_text_block(text)], provider="p", model="m")
            if number % 2
            else build_user_message(text)
        )
        for number, text in enumerate(texts)
    ]


def succeed(session: SessionManager) -> SessionManager:
    """A fresh session that continues one."""
    session.close()
    return SessionManager.create(session.cwd, session.folder, str(session.path))


def make_artifact(session: SessionManager, name: str, text: str) -> None:
    """A file that a session made."""
    folder = session.path.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def compact(session: SessionManager, summary: str, first_kept: str) -> str:
    """A compaction as pi adds it to a session; its id."""
    return session.append_entry(
        "compaction", summary=summary, firstKeptEntryId=first_kept, tokensBefore=1000
    )


def edit(session: SessionManager, target: str, content: str | None) -> str:
    """An edit of the context as pi adds it to a session, None hides the entry; its id."""
    replacement = None if content is None else {"content": content}
    return session.append_entry("context_edit", targetId=target, replacement=replacement)


def go_back(session: SessionManager, entry: str, summary: str) -> str:
    """The summary of the branch that is left, as pi adds it where a user goes back; its id."""
    left, session.tree.leaf = session.tree.leaf, entry
    return session.append_entry("branch_summary", fromId=left, summary=summary)


def build_context_at(session: SessionManager, leaf: str | None) -> list[Json]:
    """What the model saw when an entry was the last one of the file; None for now."""
    tree = EntryTree()
    for entry in session.tree.entries:
        tree.add_entry(entry)
        if entry["id"] == leaf:
            break
    return build_context(tree.get_branch())


def lines(session: SessionManager) -> list[Json]:
    """The records of the file."""
    return [json.loads(line) for line in session.path.read_text().splitlines()]
