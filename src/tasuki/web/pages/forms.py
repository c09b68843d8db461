"""What a form of a page sends: its fields as text, checked like the bodies of the API."""

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from tasuki.errors import UsageError
from tasuki.web.pages.frame import Asked

MOST_FIELDS = 200
B = TypeVar("B", bound=msgspec.Struct)


async def fields(request: Asked) -> dict[str, str]:
    """The fields of a form, the last of each name; line ends are newlines. Raises UsageError."""
    return {name: values[-1] for name, values in (await all_fields(request)).items()}


async def all_fields(request: Asked) -> dict[str, list[str]]:
    """The fields of a form with every value, in their order. Raises UsageError."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        pairs = parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise UsageError("The form cannot be read: it has too many fields.") from error
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value.replace("\r\n", "\n").replace("\0", "\ufffd"))
    return found


def filled(kind: type[B], values: Mapping[str, Any]) -> B:
    """A body of the API made of the fields of a form. Raises UsageError naming the field."""
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        said, _, path = str(error).partition(" - at `$.")
        name = path.rstrip("`")
        raise UsageError(f"{name.capitalize()}: {said}." if name else f"{said}.") from error


def number(text: str) -> int:
    """A whole number of at most nine digits that a field holds; 0 where it holds none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
