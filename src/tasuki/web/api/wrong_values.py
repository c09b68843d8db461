"""Values that a field may not have, in words: what to enter instead of what was sent."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

import msgspec

from tasuki.patterns import compile_pattern
from tasuki.text_safety import shorten_to_line

KIND_WORDS = {
    "int": "a whole number", "float": "a number", "str": "text", "bool": "true or false",
    "array": "a list", "object": "an object of JSON",
}  # fmt: skip
BOUND_WORDS = {">=": ", {} or more", "<=": ", {} or less", ">": " above {}", "<": " below {}"}
MOST_CHOICES = 24

_EXPECTED = compile_pattern(
    r"Expected `(?P<kinds>[^`]+)`(?: (?P<bound>[<>]=?) (?P<limit>\S+?))?(?: of length (?P<side>[<>]=) (?P<length>\d+))?"
    r"(?:, got `(?P<got>[^`]+)`)?\Z"
)
_CHOICE = compile_pattern(r"Invalid enum value (.*)\Z")
_FIELD = compile_pattern(r"Object (missing required|contains unknown) field `([^`]*)`\Z")
_PLACE = compile_pattern(r" - at `\$\.?([^`]*)`\Z")
_MISSING = compile_pattern(r"Missing required (?:\w+ )?parameter '([^']+)'")


def describe_wrong_value(field: str, message: str, annotation: Any = None) -> str:
    """Describe in a sentence what to enter in a field, from what msgspec or Litestar says of it.

    `annotation` is the type of the field, or of the body that has it: it knows the choices.
    """
    message = message.rstrip(".")
    if place := _PLACE.search(message):
        message, field = message[: place.start()], field or place[1]
    if found := _FIELD.match(message):
        if found[1] == "missing required":
            return f"`{found[2]}` is missing: enter it."
        return f"`{found[2]}` is no field here: leave it out."
    if missing := _MISSING.match(message):
        return f"`{missing[1]}` is missing: enter it."
    subject = f"`{field}`: " if field else "The body: "
    if choice := _CHOICE.match(message):
        sent = shorten_to_line(choice[1].strip("'"), 60)
        choices = list(find_choices(annotation, field))[:MOST_CHOICES]
        return f"{subject}{sent} is no choice. Enter {_join_choices(choices)}."
    if expected := _EXPECTED.match(message):
        return f"{subject}enter {_describe_expected(expected.groupdict())}."
    return f"{subject}{message}."


def _describe_expected(parts: Mapping[str, str | None]) -> str:
    kinds = (parts["kinds"] or "").split(" | ")
    words = " or ".join(KIND_WORDS.get(kind, kind) for kind in kinds if kind != "null")
    is_list = kinds[0] == "array"
    if length := parts["length"]:
        unit = "item" if is_list else "character"
        side = "at most" if parts["side"] == "<=" else "at least"
        return f"{side} {int(length):,} {unit}{'' if length == '1' else 's'}"
    if parts["limit"]:
        number = parts["limit"].removesuffix(".0")
        return f"{words}{BOUND_WORDS[parts['bound'] or ''].format(number)}"
    return f"{words}, or leave it out" if "null" in kinds else words


def _join_choices(choices: list[str]) -> str:
    if not choices:
        return "one of its choices"
    return f"{', '.join(choices[:-1])} or {choices[-1]}" if choices[1:] else choices[0]


def find_choices(annotation: Any, field: str) -> Iterator[str]:
    """Yield the values that a type has in its Literals; of a body that of the named field."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        name = field.partition(".")[0].partition("[")[0]
        for one in msgspec.structs.fields(annotation):
            if one.encode_name == name:
                yield from find_choices(one.type, "")
    elif get_origin(annotation) is Literal:
        yield from (str(value) or "nothing" for value in get_args(annotation))
    else:
        for argument in get_args(annotation):
            yield from find_choices(argument, field)
