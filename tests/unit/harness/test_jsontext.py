"""JSON is changed as text: what is put in comes out again, and nothing else moves."""

import json
import random

import pytest

from tasuki.config import json_text
from tasuki.config.json_text import NotJson

PLAIN = '{\n  "a": [1, 2],\n  "b": {"c": true}\n}\n'
COMMENTED = '{\n\t// first\n\t"a": 1, // one\n\t/* two */ "b": [\n\t\t"x", // the x\n\t],\n}\n'


def content(text: str) -> object:
    """What a text holds."""
    return json_text.read_value(text, json_text.parse_json(text))


@pytest.mark.parametrize(
    "text", [PLAIN, "{}", "[]", '"x"', '{"a":{"b":[null,-1.5e3,"\\u00e9 \\n"]}}']
)
def test_what_json_says_is_what_is_read(text: str) -> None:
    """A text without comments means what Python's own reader says."""
    assert content(text) == json.loads(text)


def test_comments_and_last_commas_are_allowed() -> None:
    """The settings of several programs have both."""
    assert content(COMMENTED) == {"a": 1, "b": ["x"]}


@pytest.mark.parametrize(
    "text", ["", "{", '{"a" 1}', "{'a': 1}", '{"a": 1} x', "[1 2]", "[" * 500, '{"a": tru}']
)
def test_what_is_no_json_is_refused(text: str) -> None:
    """Nothing is guessed about a damaged file."""
    with pytest.raises(NotJson):
        json_text.parse_json(text)


@pytest.mark.parametrize("text", [
    PLAIN, COMMENTED, "{}", "{}\n", "{ }", "{\n}\n", '{"a": 1}', '{"hooks": {}}', '{"hooks": {"Stop": []}}',
    '{\n    "hooks": {\n        "Stop": [\n            {"x": 1}\n        ]\n    }\n}', '{\r\n  "a": 1\r\n}\r\n',
    '{\n  "hooks": {\n    // mine\n  }\n}\n', "\ufeff{}",
])  # fmt: skip
def test_what_is_put_in_can_be_cut_out_to_the_letter(text: str) -> None:
    """The text that was put in stands there once, means what was wanted, and leaves no trace."""
    before = content(text.removeprefix("\ufeff") or "{}")
    new, added = json_text.insert_member(text, ("hooks", "Stop"), "", {"command": 'a "b" ü'})

    assert new.count(added) == 1
    assert new.replace(added, "") == text
    after = content(new)
    assert isinstance(after, dict)
    assert after["hooks"]["Stop"][-1] == {"command": 'a "b" ü'}
    del after["hooks"]["Stop"][-1]
    assert isinstance(before, dict)
    for key, value in before.items():
        if key != "hooks":
            assert after[key] == value
    if "\r\n" in text:
        assert "\n" not in new.replace("\r\n", "")


def test_the_form_of_the_file_is_kept() -> None:
    """Lines stay lines with the file's own indentation, one line stays one line."""
    assert json_text.insert_member('{\n\t"a": 1\n}\n', (), "b", {"c": 2})[0] == (
        '{\n\t"a": 1,\n\t"b": {\n\t\t"c": 2\n\t}\n}\n'
    )
    assert json_text.insert_member('{"a": 1}', (), "b", {"c": 2})[0] == '{"a": 1, "b": {"c": 2}}'


def test_an_empty_file_becomes_an_object() -> None:
    """A file that holds only blanks is taken as one without settings."""
    new, _ = json_text.insert_member(" \n", (), "a", 1)

    assert json.loads(new) == {"a": 1}


def test_a_value_in_the_way_is_an_error() -> None:
    """Nothing of the user's is replaced by a list or an object."""
    with pytest.raises(NotJson, match=r"hooks\.Stop is not a list"):
        json_text.insert_member('{"hooks": {"Stop": 3}}', ("hooks", "Stop"), "", 1)
    with pytest.raises(NotJson, match="not an object"):
        json_text.insert_member('{"hooks": []}', ("hooks", "Stop"), "", 1)


def test_taking_out_one_of_several_keeps_the_others() -> None:
    """First, middle or last: the rest is what it was, and still JSON."""
    for place in range(3):
        text = '{"l": [ "a" , "b", "c" ]}'
        holder = json_text.find_value(text, ("l",))
        assert holder is not None
        left = json_text.remove_child(text, holder.children[place], holder)

        assert json.loads(left) == {"l": [x for i, x in enumerate("abc") if i != place]}


def test_taking_out_keeps_the_comments_of_others() -> None:
    """A comment beside a neighbour stays."""
    text = '[\n  "a", // about a\n  // before b\n  "b", // about b\n  "c" // about c\n]'
    for place, left in ((0, ["b", "c"]), (1, ["a", "c"]), (2, ["a", "b"])):
        node = json_text.parse_json(text)
        after = json_text.remove_child(text, node.children[place], node)

        assert content(after) == left
        assert all(f"about {x}" in after for x in left)
        assert "b" not in left or "before b" in after


def test_random_values_survive_putting_in_and_taking_out() -> None:
    """Whatever is there: a value put in and taken out by its place leaves the same content."""
    dice = random.Random(6)

    def made(depth: int) -> object:
        kind = dice.randrange(6 if depth else 4)
        if kind == 4:
            return [made(depth - 1) for _ in range(dice.randrange(4))]
        if kind == 5:
            return {f"k{n}": made(depth - 1) for n in range(dice.randrange(4))}
        return [None, dice.random(), 'a"\\/\u2028é', True][kind]

    for _ in range(300):
        whole = {"x": made(4), "y": made(4)}
        text = json.dumps(
            whole, indent=dice.choice([None, 1, 2, "\t"]), ensure_ascii=dice.random() < 0.5
        )
        new, added = json_text.insert_member(text, ("new", "way"), "name", made(2))
        assert new.replace(added, "", 1) == text
        holder = json_text.parse_json(new)
        member = holder.find_child("new")
        assert member is not None
        assert content(json_text.remove_child(new, member, holder)) == whole
