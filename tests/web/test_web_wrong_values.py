"""What cannot be is answered in words: the field, and what to enter; never a type of the program."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import fleet_records
import msgspec
import pytest
from msgspec import Meta, Struct
from visitors import Visitor, words
from web_servers import serving

from tasuki.errors import UsageError
from tasuki.web.api.forms import fill_body
from tasuki.web.api.wrong_values import describe_wrong_value

OF_THE_PROGRAM = re.compile(
    r"Expected|got `|`(?:int|str|float|bool|null|array|object)\b|enum|NoneType"
)


@pytest.fixture
def visitor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Visitor]:
    """Somebody in a fleet of one persona and one agent."""
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path))
    with serving(tmp_path) as served:
        fleet_records.persona(served.fleet.database)
        fleet_records.agent(served.fleet.database, session="s")
        yield Visitor(served)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/threads/claude/s?entry=abc", "`entry`: enter a whole number."),
        ("/threads/claude/s?entry=-1", "`entry`: enter a whole number, 0 or more."),
        ("/agents/1/thread?entry=99999999999", "`entry`: enter a whole number, 1000000000 or less."),
        (f"/threads/claude/s?find={'a' * 1001}", "`find`: enter at most 1,000 characters."),
        ("/agents/1/thread?since=soon", "since: soon is no time. Enter a moment such as 2026-11-21T14:30, or 1h, 2d or today."),
        ("/agents/1/thread?at=1h1h", "at: 1h1h is no time."),
        ("/agents/1/thread?who=me", "who: enter prompts for the user's prompts, or leave it out."),
        ("/figures?period=year", "`period`: year is no choice. Enter hour, day or week."),
        ("/lineage?newest=x", "`newest`: enter a whole number."),
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_is_told_in_a_page(
    visitor: Visitor, path: str, sentence: str
) -> None:
    """Each page says which part of its address is wrong, and what can stand there."""
    page = words(visitor.page(path, 400))

    assert sentence in page
    assert not OF_THE_PROGRAM.search(page)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"role": 1, "name": "x"}, "`role`: enter text."),
        ({"name": "x"}, "`role` is missing: enter it."),
        ({"role": "a", "name": "x", "hat": 1}, "`hat` is no field here: leave it out."),
        ({"role": "a", "name": "x", "threshold": "q"}, "`threshold`: enter a number, or leave it out."),
        ({"role": "a", "name": "x", "threshold": 900}, "`threshold`: enter a number, 100 or less."),
        ({"role": "a" * 201, "name": "x"}, "`role`: enter at most 200 characters."),
        ({"role": "a", "name": "x", "automatic": "perhaps"}, "`automatic`: enter true or false."),
        ([], "The body: enter an object of JSON."),
    ],
)  # fmt: skip
def test_a_body_that_cannot_be_is_told_by_its_fields(
    visitor: Visitor, body: Any, sentence: str
) -> None:
    """The API says the same as the pages."""
    answer = visitor.served.ask("POST", "/api/personas", body)

    assert 400 == answer.status
    assert sentence == msgspec.json.decode(answer.body)["error"]


class _Form(Struct, forbid_unknown_fields=True):
    up_to: Annotated[int, Meta(ge=0)] | None = None
    order: Literal["accept", "drop", ""] = "accept"
    ids: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(max_length=2)] = ()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"up_to": "soon"}, "Up to: enter a whole number, or leave it out."),
        ({"up_to": "-4"}, "Up to: enter a whole number, 0 or more."),
        ({"order": "keep"}, "Order: keep is no choice. Enter accept, drop or nothing."),
        ({"ids": (1, 2, 3)}, "Ids: enter at most 2 items."),
        ({"ids": (1, 0)}, "Ids[1]: enter a whole number, 1 or more."),
        ({"ids": "x"}, "Ids: enter a list."),
    ],
)
def test_a_form_names_the_field_as_people_do(values: dict[str, Any], sentence: str) -> None:
    """No underscores and no backquotes: the label of the field, and what to enter."""
    with pytest.raises(UsageError) as told:
        fill_body(_Form, values)

    assert sentence == str(told.value)


def test_what_is_not_known_is_passed_on() -> None:
    """A message that has another form stays a sentence with its field; hostile values stay short."""
    assert "`day`: it rains." == describe_wrong_value("day", "it rains")
    told = describe_wrong_value("do", f"Invalid enum value '{'x' * 500}'", int)
    assert "is no choice. Enter one of its choices." in told
    assert len(told) < 140
