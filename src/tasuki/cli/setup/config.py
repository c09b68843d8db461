"""`tasuki config`: every setting, and where its value came from."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from tasuki import notify
from tasuki.cli.output import print_json
from tasuki.config.settings import LoadedSettings, Provider, Settings, load_with_sources
from tasuki.draft.models import providers
from tasuki.errors import ModelUnavailable
from tasuki.text_safety import clean_for_display

DEFAULT_SETTINGS = Settings()
FALLBACK_COLUMNS = 120
"""Columns where the output is no terminal."""
WIDE_VALUE = 30
"""Most characters of a value that keeps the other columns aligned."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def config(as_json: bool) -> None:
    """Show every setting, its value in this folder, and where that came from.

    An asterisk marks what is not the default. At the end: the files that were looked at, and the
    model that would be asked if the author is `model`. Keys are never shown.
    """
    configuration = load_with_sources(Path.cwd())
    model, notes = _describe_model(configuration)
    if as_json:
        settings = {
            name: {
                "value": _mask_value(name, getattr(configuration.settings, name)),
                "source": configuration.sources[name],
            }
            for name in Settings.__struct_fields__
        }
        document = {"settings": settings, "problems": [*configuration.problems, *notes]}
        print_json(msgspec.to_builtins({**document, "files": configuration.files, "model": model}))
    else:
        for line in (*_format_table(configuration), "", *_format_files(configuration), "", model):
            click.echo(clean_for_display(line))
    sys.stdout.flush()
    for problem in (*configuration.problems, *notes):
        click.echo(f"tasuki: {clean_for_display(problem)}", err=True)


# -- the table -------------------------------------------------------------------------


def _format_table(configuration: LoadedSettings) -> Iterator[str]:
    """Format a row for each setting: whether it is set, name, value, source.

    In a narrow terminal the source is below.
    """
    rows = [
        (
            name,
            value,
            configuration.sources[name],
            getattr(configuration.settings, name) != getattr(DEFAULT_SETTINGS, name),
        )
        for name in Settings.__struct_fields__
        for value in _format_values(_mask_value(name, getattr(configuration.settings, name)))
    ]
    names = max(len(name) for name, *_ in rows)
    values = max(len(value) for _, value, *_ in rows if len(value) <= WIDE_VALUE)
    columns = shutil.get_terminal_size((FALLBACK_COLUMNS, 24)).columns
    for name, value, source, is_set in rows:
        begin = f"{'*' if is_set else ' '} {name.ljust(names)}  "
        for cell in (value.ljust(values), value):
            if len(begin) + len(cell) + 2 + len(source) <= columns:
                yield f"{begin}{cell}  {source}"
                break
        else:
            yield from (f"{begin}{value}", f"    {source}")


def _mask_value(name: str, value: Any) -> Any:
    """Mask a value for the screen: an address for notifications holds a key."""
    if name != "notify":
        return value
    return " ".join(notify.list_kinds(value))


def _format_values(value: Any) -> list[str]:
    """Format a value as in a settings file, one line for each provider."""
    if isinstance(value, dict):
        return [f"{name}: {_describe_provider(table)}" for name, table in value.items()] or ["none"]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    return [str(value) if value not in (None, "") else "none"]


def _describe_provider(table: Provider) -> str:
    """Describe the settings of a provider that are set."""
    default = Provider()
    parts = [
        f"{name} {_format_values(value)[0]}"
        for name in Provider.__struct_fields__
        if (value := getattr(table, name)) != getattr(default, name)
    ]
    return ", ".join(parts) or "nothing set"


def _format_files(configuration: LoadedSettings) -> Iterator[str]:
    yield "Files, the weakest first:"
    for file in configuration.files:
        yield f"  {file.path}{'' if file.exists else ' (not there)'}"


# -- the model -------------------------------------------------------------------------


def _describe_model(configuration: LoadedSettings) -> tuple[str, tuple[str, ...]]:
    """Describe what the author `model` would ask, and any notes about it."""
    name, notes = providers.choose_model(configuration, "")
    if name.why == providers.THREAD_MODEL:
        usable = ", ".join(providers.list_usable(configuration))
        keys = f"keys were found for {usable}" if usable else "no key was found in the environment"
        return f"The author model asks the thread's own model; {keys}.", notes
    try:
        endpoint = providers.resolve_endpoint(configuration, "")
    except ModelUnavailable as error:
        return f"The author model asks nothing. {error}", ()
    address = f" at {endpoint.base_url}" if endpoint.base_url else ""
    target = f"{endpoint.provider}/{endpoint.model}{address}: {endpoint.source}"
    return f"The author model asks {target}.", endpoint.notes
