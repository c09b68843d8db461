"""Session files for tests: what is said in one, and what it holds."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasuki.session.pi_store.manager import SessionManager
from tasuki.session.pi_store.messages import (
    Json,
    build_assistant_message,
    build_text_block,
    build_user_message,
)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[SessionManager]:
    """A fresh session of a folder."""
    with SessionManager.create(tmp_path / "proj", tmp_path / "sessions") as made:
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


def lines(session: SessionManager) -> list[Json]:
    """The records of the file."""
    return [json.loads(line) for line in session.path.read_text().splitlines()]
