"""Sentences about three threads that were written before anything was checked against them."""

from pathlib import Path

import pytest
from third_sentences import (
    ALSO_TRUE,
    MISSED,
    ORDINARY,
    RULES,
    SECOND_ORDINARY,
    SECOND_RULES,
    SECOND_TRUE,
)
from third_set import THREADS, compact, compact_message

FALSE = [(n, claim) for n, thread in THREADS.items() for claim in thread.false]
TRUE = [(n, claim) for n, thread in THREADS.items() for claim in thread.true]


@pytest.mark.parametrize(("name", "claim"), [case for case in FALSE if case[1] not in MISSED])
def test_a_false_sentence_is_corrected(name: str, claim: str, tmp_path: Path) -> None:
    """Each is wrong in one thing that the thread shows."""
    assert compact(name, [claim], tmp_path).corrections


@pytest.mark.parametrize(("name", "claim"), [*TRUE, *ALSO_TRUE, *SECOND_TRUE])
def test_a_true_sentence_is_left_alone(name: str, claim: str, tmp_path: Path) -> None:
    """Paraphrased, planned, about a part or with an exception."""
    assert () == compact(name, [claim], tmp_path).corrections


@pytest.mark.parametrize("name", THREADS)
def test_a_true_summary_is_left_alone(name: str, tmp_path: Path) -> None:
    """All true sentences of a thread beside each other change nothing."""
    assert () == compact(name, THREADS[name].true, tmp_path).corrections


@pytest.mark.parametrize("message", [*RULES, *SECOND_RULES])
def test_a_message_that_states_a_rule_gives_it(message: str, tmp_path: Path) -> None:
    """Among ordinary messages."""
    assert [message] == [rule.text for rule in compact_message(message, tmp_path).rules]


@pytest.mark.parametrize(
    "message",
    [
        "The database must be up at all times.",
        "My team has a rule: no force pushes.",
        "The endpoint takes 20 requests at most, never more.",
        "The guide says tabs, but we use spaces, always.",
        "All new endpoints need a test.",
    ],
)
def test_a_rule_that_begins_like_a_report_is_a_rule(message: str, tmp_path: Path) -> None:
    """What binds for good stands behind what only tells."""
    assert [message] == [rule.text for rule in compact_message(message, tmp_path).rules]


@pytest.mark.parametrize("message", [*ORDINARY, *SECOND_ORDINARY])
def test_an_ordinary_message_gives_no_rule(message: str, tmp_path: Path) -> None:
    """Requests, bug reports, answers and small talk hold for now alone."""
    assert () == compact_message(message, tmp_path).rules
