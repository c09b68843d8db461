"""What commands print in one way."""

from collections.abc import Mapping

import click


def print_json(document: Mapping[str, object]) -> None:
    """One JSON document on standard output, with the version of its layout in front."""
    click.echo(json_text(document), nl=False)


def wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """The lines of a text, words kept whole: a path or a command can be copied."""
    import textwrap

    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def json_text(document: Mapping[str, object]) -> str:
    """The same as text, for a file."""
    import msgspec

    whole = msgspec.json.encode({"version": 1, **document})
    return msgspec.json.format(whole, indent=2).decode() + "\n"
