"""Forms of the pages, and the bodies of the API that they fill in."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, structs

from tasuki.errors import UsageError
from tasuki.harness import registry as harnesses
from tasuki.web.api.wrong_values import describe_wrong_value
from tasuki.web.handlers import AnyRequest, take_last

MOST_FIELDS = 400
B = TypeVar("B", bound=msgspec.Struct)


async def read_fields(request: AnyRequest) -> dict[str, str]:
    """Read the fields of a form, the last of each name; line ends are newlines.

    Raises UsageError.
    """
    return take_last(await read_all_fields(request))


async def read_all_fields(request: AnyRequest) -> dict[str, list[str]]:
    """Read the fields of a form with every value, in order. Raises UsageError."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        pairs = parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise UsageError("The form cannot be read: it has too many fields.") from error
    fields_found: dict[str, list[str]] = {}
    for name, value in pairs:
        text = value.replace("\r\n", "\n").replace("\0", "\ufffd")
        fields_found.setdefault(name, []).append(text)
    return fields_found


def fill_body(kind: type[B], values: Mapping[str, Any]) -> B:
    """Fill a body of the API with the fields of a form. Raises UsageError naming the field."""
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        sentence = describe_wrong_value("", str(error), kind)
        label = re.sub(
            r"\A`([^`]+)`", lambda name: name[1].replace("_", " ").capitalize(), sentence
        )
        raise UsageError(label) from error


def collect_changes(change: msgspec.Struct) -> dict[str, Any]:
    """Collect the values that a change sets."""
    return {name: x for name, x in structs.asdict(change).items() if x is not UNSET}


def list_startable_harnesses() -> list[tuple[str, str]]:
    """List the harnesses whose agents can be run, each with its title."""
    adapters = map(harnesses.get_harness, harnesses.list_names())
    return [(h.name, h.title) for h in adapters if harnesses.get_control(h) is not None]


def parse_number(text: str) -> int:
    """Parse a whole number of at most nine digits from a field; 0 where there is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
