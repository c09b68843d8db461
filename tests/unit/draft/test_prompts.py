"""Prompts are files, filled in strictly; no prompt stands in code."""

import ast
from pathlib import Path

import pytest
from msgspec.structs import fields

import tasuki.draft.prompts
from tasuki.draft.authors.answer import Answer, build_schema
from tasuki.draft.prompts import render_prompt

FOLDER = Path(tasuki.draft.prompts.__file__).parent


def test_a_variable_without_a_value_is_an_error() -> None:
    """A prompt that is not filled in whole is never sent."""
    with pytest.raises(LookupError, match="coverage_part needs first"):
        render_prompt("coverage_part")
    with pytest.raises(LookupError, match="coverage_whole knows no first"):
        render_prompt("coverage_whole", first=1)


def test_values_are_not_filled_in_again() -> None:
    """A thread that holds the mark of a variable keeps it to the letter."""
    filled = render_prompt("coverage_part", first="{{thread}} {{first}}")

    assert "#{{thread}} {{first}} on" in filled


def test_the_form_in_the_prompt_is_the_form_of_the_schema() -> None:
    """The example that prompts show has the keys of the schema, no more and no less."""
    text = (FOLDER / "form.md").read_text()
    start = text.index("\n{\n")
    example = ast.literal_eval(text[start : text.index("\n}\n", start) + 3].strip())

    assert set(build_schema()["properties"]) == set(example)
    for key, found in example.items():
        inner = found if isinstance(found, dict) else found[0]
        wanted = build_schema()["properties"][key]
        name_of = (wanted.get("items") or wanted)["$ref"].rpartition("/")[2]
        assert set(build_schema()["$defs"][name_of]["properties"]) == set(inner)


def test_the_schema_is_strict() -> None:
    """Every object requires all of its keys and allows no others, as strict endpoints ask."""
    objects = [build_schema(), *build_schema()["$defs"].values()]

    assert len(objects) == 6
    for found in objects:
        assert found["required"] == list(found["properties"])
        assert found["additionalProperties"] is False
    assert build_schema()["required"] == [field.encode_name for field in fields(Answer)]


def test_no_prompt_stands_in_code() -> None:
    """No string in the authors' code speaks to a model: those stand in the Markdown files."""
    orders = ("Answer with", "Write ", "Extract ", "Do not ", "You are", "you are", "Copy ")
    for path in (FOLDER.parent / "authors").glob("*.py"):
        tree = ast.parse(path.read_text())
        docs = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body and isinstance(node.body[0], ast.Expr)
        }  # fmt: skip
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in docs
            ):
                assert not node.value.startswith(orders), f"{path.name}: {node.value!r}"
