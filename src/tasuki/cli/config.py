"""`tasuki config`: every setting, and where its value came from."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from tasuki import notify
from tasuki.cli.printing import print_json
from tasuki.config import Loaded, Provider, Settings, loaded
from tasuki.draft.authors import providers
from tasuki.errors import ModelUnavailable
from tasuki.plain import shown

DEFAULT = Settings()
NOT_A_TERMINAL = 120
"""Columns that are used where nobody looks."""
WIDE = 30
"""Characters of a value that moves no other out of its column."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def config(as_json: bool) -> None:
    """Show every setting, its value in this folder, and where that came from.

    An asterisk marks what is not the default. At the end: the files that were looked at, and the
    model that would be asked if the author is `model`. Keys are never shown.
    """
    found = loaded(Path.cwd())
    model, notes = _model(found)
    if as_json:
        _print_json(found, model, notes)
    else:
        for line in (*_table(found), "", *_files(found), "", model):
            click.echo(shown(line))
    sys.stdout.flush()
    for problem in (*found.problems, *notes):
        click.echo(f"tasuki: {shown(problem)}", err=True)


def _print_json(found: Loaded, model: str, notes: tuple[str, ...]) -> None:
    settings = {
        name: {"value": _masked(name, getattr(found.settings, name)), "source": found.sources[name]}
        for name in Settings.__struct_fields__
    }
    print_json({"settings": msgspec.to_builtins(settings), "problems": [*found.problems, *notes],
                "files": msgspec.to_builtins(found.files), "model": model})  # fmt: skip


# -- the table -------------------------------------------------------------------------


def _table(found: Loaded) -> Iterator[str]:
    """A row for each setting: whether it is set, name, value, source; narrow, the source below."""
    rows = [
        (name, value, found.sources[name], not _is_default(found, name))
        for name in Settings.__struct_fields__
        for value in _values(_masked(name, getattr(found.settings, name)))
    ]
    names = max(len(name) for name, *_ in rows)
    values = max(len(value) for _, value, *_ in rows if len(value) <= WIDE)
    columns = shutil.get_terminal_size((NOT_A_TERMINAL, 24)).columns
    for name, value, source, is_set in rows:
        begin = f"{'*' if is_set else ' '} {name.ljust(names)}  "
        for cell in (value.ljust(values), value):
            if len(begin) + len(cell) + 2 + len(source) <= columns:
                yield f"{begin}{cell}  {source}"
                break
        else:
            yield from (f"{begin}{value}", f"    {source}")


def _is_default(found: Loaded, name: str) -> bool:
    return bool(getattr(found.settings, name) == getattr(DEFAULT, name))


def _masked(name: str, value: Any) -> Any:
    """A value that may be shown: an address for notifications holds a key."""
    if name != "notify":
        return value
    return " ".join(notify.kinds(value))


def _values(value: Any) -> list[str]:
    """A value as it is written in a settings file, one line for each provider."""
    if isinstance(value, dict):
        return [f"{name}: {_provider(table)}" for name, table in value.items()] or ["none"]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    return [str(value) if value not in (None, "") else "none"]


def _provider(table: Provider) -> str:
    """What of a provider is set."""
    default = Provider()
    parts = [
        f"{name} {_values(value)[0]}"
        for name in Provider.__struct_fields__
        if (value := getattr(table, name)) != getattr(default, name)
    ]
    return ", ".join(parts) or "nothing set"


def _files(found: Loaded) -> Iterator[str]:
    yield "Files, the weakest first:"
    for file in found.files:
        yield f"  {file.path}{'' if file.exists else ' (not there)'}"


# -- the model -------------------------------------------------------------------------


def _model(found: Loaded) -> tuple[str, tuple[str, ...]]:
    """What the author `model` would ask, as a sentence, and what there is to say about it."""
    name, notes = providers.chosen(found, "")
    if name.why == providers.THREADS_OWN:
        usable = ", ".join(providers.usable(found))
        keys = f"keys were found for {usable}" if usable else "no key was found in the environment"
        return f"The author model asks the thread's own model; {keys}.", notes
    try:
        endpoint = providers.resolve(found, "")
    except ModelUnavailable as error:
        return f"The author model asks nothing. {error}", ()
    where = f" at {endpoint.base_url}" if endpoint.base_url else ""
    asked = f"{endpoint.provider}/{endpoint.model}{where}: {endpoint.source}"
    return f"The author model asks {asked}.", endpoint.notes
