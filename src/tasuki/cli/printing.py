"""What commands print in one way."""

from collections.abc import Mapping, Sequence

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


def table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()
) -> list[str]:
    """The lines of a table: titles first, each column as wide as what it holds, an empty one left out.

    `right` are the columns that are set to the right; the last one is cut at the screen's edge.
    Cells are safe for a terminal already.
    """
    import shutil

    last = len(titles) - 1
    widths = [max((len(row[n]) for row in rows), default=0) for n in range(last)]
    widths = [max(width, len(titles[n])) if width else 0 for n, width in enumerate(widths)]
    taken = sum(width + 2 for width in widths if width)
    room = max(shutil.get_terminal_size((120, 24)).columns - taken, 24)
    lines = []
    for row in (titles, *rows):
        cells = [
            cell.rjust(width) if n in right else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=False))
            if width
        ]
        words = row[last] if len(row[last]) <= room else row[last][: room - 1] + "…"
        lines.append("  ".join((*cells, words)).rstrip())
    return lines


def json_text(document: Mapping[str, object]) -> str:
    """The same as text, for a file."""
    import msgspec

    whole = msgspec.json.encode({"version": 1, **document})
    return msgspec.json.format(whole, indent=2).decode() + "\n"
