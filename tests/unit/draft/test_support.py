"""Entries are looked at for what a sentence says before they are cited for it."""

from pathlib import Path

import pytest
from making import thread_of

from tasuki.draft.claims.support import SupportFinder
from tasuki_testing import ThreadBuilder


@pytest.fixture
def support(tmp_path: Path) -> SupportFinder:
    """A small thread, in which each fact was said once."""
    thread = thread_of(
        ThreadBuilder("claude")
        .user("The importer must read the old export format, row by row.")
        .assistant("The retry budget is doubled after each timeout of the upload client.")
        .shell("pytest -q tests/test_upload.py", "1 failed: ConnectionResetError in send_chunk")
        .user("Bitte die Fehlermeldung auf Deutsch, und nicht die ganze Liste ausgeben.")
        .assistant("ログイン画面のタイムアウトは三十秒にしました。")
        .assistant("Unrelated closing words about nothing in particular."),
        tmp_path,
    )
    return SupportFinder(thread.entries)


def test_a_cited_entry_that_bears_the_sentence_stays(support: SupportFinder) -> None:
    """An entry that shares enough words, or stands beside one that does, is a good citation."""
    assert support.resolve_refs("Retries double the budget after a timeout.", [2]) == ((2,), "")
    assert support.resolve_refs("send_chunk failed in the upload test", [4]) == ((4,), "")


def test_the_entry_that_says_it_is_found(support: SupportFinder) -> None:
    """Where none, or the wrong one, is cited, the entry that says it is cited instead."""
    said = "The upload client doubles the retry budget after each timeout."

    assert support.resolve_refs(said, []) == ((2,), "")
    assert support.resolve_refs(said, [6]) == ((2,), "")
    assert support.resolve_refs(said, [99]) == ((2,), "")


@pytest.mark.parametrize(
    ("refs", "why"),
    [
        ([], "it cites no entry, and none speaks of this"),
        ([1], "the entries it cites do not speak of this"),
        ([77], "it cites entries that do not exist"),
    ],
)
def test_what_nobody_said_has_no_support(support: SupportFinder, refs: list[int], why: str) -> None:
    """A sentence that the thread does not bear is cited for nothing, with the reason."""
    invented = "The database migration to PostgreSQL needs a maintenance window on Sunday."

    assert support.resolve_refs(invented, refs) == ((), why)


def test_another_language_is_not_held_against_a_citation(support: SupportFinder) -> None:
    """Words cannot be compared across languages, so a citation is believed there."""
    assert support.resolve_refs("The error message is to be in German.", [4])[0] == (4,)
    assert support.resolve_refs("The login screen waits for thirty seconds.", [5])[0] == (5,)
    assert support.resolve_refs("タイムアウトは三十秒", [])[0] == (5,)
