"""`tasuki config`: every setting and where its value came from; `tasuki doctor`: what works, and fixes."""

import shutil
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from tasuki import notify
from tasuki.cli.completions import complete_harness
from tasuki.cli.output import JSON_OPTION, get_width, print_json
from tasuki.cli.version import describe_version
from tasuki.config.settings import (
    LoadedSettings,
    Provider,
    Settings,
    format_path,
    list_unknown_variables,
    load_settings,
    load_with_sources,
)
from tasuki.doctor import (
    DiagnosedProblem,
    DoctorReport,
    HarnessReport,
    build_install_line,
    inspect_harnesses,
    list_present,
)
from tasuki.draft.models import providers
from tasuki.errors import ModelUnavailable, TasukiError
from tasuki.files import get_data_folder
from tasuki.text_safety import clean_for_display, format_plural, format_size, wrap_text

DEFAULT_SETTINGS = Settings()
FALLBACK_COLUMNS = 120
"""Columns where the output is no terminal."""
WIDE_VALUE = 30
"""Most characters of a value that keeps the other columns aligned."""


@click.command()
@JSON_OPTION
def config(as_json: bool) -> None:
    """Show every setting, its value in this folder, and where that came from.

    An asterisk marks what is not the default. Keys are never shown.
    """
    configuration = load_with_sources(Path.cwd())
    model, notes = _describe_model(configuration)
    notes = (*notes, *(sentence for _, sentence in list_unknown_variables()))
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
        files = [f"  {f.path}{'' if f.exists else ' (not there)'}" for f in configuration.files]
        head = (*_format_table(configuration), "", "Files, the weakest first:")
        for line in (*head, *files, "", model):
            click.echo(clean_for_display(line))
    sys.stdout.flush()
    for problem in (*configuration.problems, *notes):
        click.echo(f"tasuki: {clean_for_display(problem)}", err=True)


# -- the table -------------------------------------------------------------------------


def _format_table(configuration: LoadedSettings) -> Iterator[str]:
    """Format a row for each setting; in a narrow terminal its source is below."""
    settings = configuration.settings
    rows = [
        (name, value, getattr(settings, name) != getattr(DEFAULT_SETTINGS, name))
        for name in Settings.__struct_fields__
        for value in _format_values(_mask_value(name, getattr(settings, name)))
    ]
    names = max(len(name) for name, *_ in rows)
    values = max(len(value) for _, value, *_ in rows if len(value) <= WIDE_VALUE)
    columns = shutil.get_terminal_size((FALLBACK_COLUMNS, 24)).columns
    for name, value, is_set in rows:
        source = configuration.sources[name]
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
    default = Provider()
    parts = [
        f"{name} {_format_values(value)[0]}"
        for name in Provider.__struct_fields__
        if (value := getattr(table, name)) != getattr(default, name)
    ]
    return ", ".join(parts) or "nothing set"


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


WIDTH_COLUMNS = 78
LABEL_COLUMNS = 11
NARROW_COLUMNS = 60
"""In a terminal with fewer columns, labels are not aligned."""


@click.command()
@click.argument("names", nargs=-1, metavar="[HARNESS]...", shell_complete=complete_harness)
@JSON_OPTION
def doctor(names: tuple[str, ...], as_json: bool) -> int:
    """Check what works with each harness here, and print the one line that fixes what does not.

    It looks at programs, threads, what `tasuki install` added, tmux, the fleet and its public address,
    and starts nothing but the programs' own --version. The exit code is 1 if something is broken.
    """
    report = inspect_harnesses(names)
    problems = (*report.problems, *_find_outside_problems())
    report = msgspec.structs.replace(report, problems=problems)
    if as_json:
        print_json({"broken": report.is_broken, **msgspec.to_builtins(report)})
    else:
        for line in _format_report(report, show_all=bool(names)):
            click.echo(clean_for_display(line))
    return int(report.is_broken)


def _find_outside_problems() -> Iterator[DiagnosedProblem]:
    """Find what is wrong with access from outside, where `public_url` is set."""
    try:
        settings = load_settings(Path.cwd())
    except TasukiError:  # reported with the settings
        return
    if not settings.public_url:
        return
    from tasuki.web.security.proxy import open_proxy
    from tasuki.web.security.single_server import find_served_url

    served = find_served_url(get_data_folder() / "fleet")
    if served not in (None, settings.public_url):
        yield DiagnosedProblem(
            f"The running server was started {f'with public_url {served}' if served else 'without public_url'}; "
            f"the setting is {settings.public_url}.",
            "restart tasuki serve",
        )  # fmt: skip
    try:
        open_proxy(settings)
    except TasukiError as error:
        yield DiagnosedProblem(str(error), "tasuki config")


def _format_report(report: DoctorReport, *, show_all: bool) -> Iterator[str]:
    yield f"tasuki {describe_version()}"
    away = "" if shutil.which("tasuki") else "; not on your PATH, so lines with `tasuki` need that"
    yield from _format_row("command", f"{shorten_paths(report.command)}{away}")
    yield from _format_row("data", shorten_paths(report.data))
    yield from _format_row(
        "tmux",
        report.tmux or "not found: a handoff inside an agent is saved, but its review cannot open",
    )
    extras = [name for name, there in report.extras.items() if there]
    missing = [name for name, there in report.extras.items() if not there]
    more = f"; not installed: {', '.join(missing)}. All of them:" if missing else ""
    yield from _format_row("extras", f"{', '.join(extras) or 'none'}{more}")
    if missing:
        from tasuki.config.installation import build_install_line as build_extra_line

        yield f"{' ' * (LABEL_COLUMNS + 2)}{build_extra_line('all')}"
    if report.fleet:
        text = f"the hooks' script is {report.fleet.script}"
        if number := report.fleet.waiting:
            events = format_plural(number, "event waits", "events wait")
            text += f"; {events} for it: tasuki serve"
        yield from _format_row("fleet", text)
    if report.kept and (report.kept.count or report.kept.setting != "off"):
        kept = report.kept
        count = f"{format_plural(kept.count, 'thread')} kept, {format_size(kept.bytes)}"
        setting = f"(keep_threads: {kept.setting}). List: tasuki threads --kept"
        yield from _format_row("copies", f"{count} {setting}")
    yield from _format_problems(report.problems)
    shown_harnesses = [h for h in report.harnesses if show_all or h.is_present]
    for harness in shown_harnesses:
        yield ""
        yield from _format_harness(harness, fleet=report.fleet is not None)
    absent = [h for h in report.harnesses if h not in shown_harnesses]
    if titles := [h.title for h in absent if h.tested]:
        advice = "" if shown_harnesses else " Install one of them, then: tasuki doctor"
        yield ""
        yield from _wrap(f"Not found: {', '.join(titles)}.{advice}")
    if titles := [h.title for h in absent if not h.tested]:
        yield from _wrap(f"No threads of: {', '.join(titles)}.")


def _format_harness(harness: HarnessReport, *, fleet: bool) -> Iterator[str]:
    yield harness.title
    advice = build_install_line(harness)
    program = f"not found{f'. Install it: {advice}' if advice else ''}"
    if harness.program:
        program = "of unknown version" if harness.version == "?" else harness.version
        if harness.tested and harness.tested != harness.version:
            program += f" (tested with {harness.tested})"
        program += f", {shorten_paths(harness.program)}"
    yield from _format_row("program", program)
    threads = harness.threads
    newest = "the newest can be read" if threads.readable else "the newest cannot be read"
    yield from _format_row(
        "threads", f"{threads.count:,}, {newest}" if threads.count else "none yet"
    )
    successor = "cannot be started: there is no program" if harness.tested else "read only"
    if harness.can_start:
        way = "filled" if harness.can_prefill else "pasted"
        successor = f"can be started, with the brief {way} into its input and not sent"
    yield from _format_row("successor", successor)
    if harness.command:
        yield from _format_row("inside", _describe_parts(harness))
    if harness.keeping and harness.is_installed:
        yield from _format_row("compaction", _describe_keeping(harness))
    if fleet and harness.fleet:
        seen = f"its agents are not seen. To see them: tasuki install {harness.name} --fleet"
        if present := len(list_present(harness.fleet)):
            seen = f"its agents are seen ({present} of {len(harness.fleet)} parts)"
        yield from _format_row("fleet", seen)
    for note in harness.notes:
        yield from _format_row("note", note)
    yield from _format_problems(harness.problems)


def _describe_keeping(harness: HarnessReport) -> str:
    if not list_present(harness.keeping):
        return f"left to {harness.title}. To keep rules and state: tasuki install {harness.name} --keep"
    last = harness.compaction
    if last is None or last.problem:
        return "rules and state are kept; no compaction yet" if last is None else "see below"
    when = datetime.fromtimestamp(last.at).astimezone().strftime("%Y-%m-%d %H:%M")
    if last.replaced:
        return f"tasuki wrote the last summary ({when}, {last.tokens:,} tokens)"
    rules = format_plural(last.rules, "rule")
    wrong = format_plural(last.corrections, "claim")
    return f"rules and state are kept; the last block ({when}, {last.tokens:,} tokens) restored {rules} and corrected {wrong}"


def _describe_parts(harness: HarnessReport) -> str:
    if not harness.parts:
        return "unknown: one of its files cannot be read"
    if not harness.is_installed:
        return f"nothing yet. To hand off inside it: tasuki install {harness.name}"
    present = list_present(harness.parts)
    foreign = [part for part in harness.parts if part.state == "foreign"]
    more = f"; yours: {', '.join(part.what for part in foreign)}" if foreign else ""
    return f"{harness.command} ({len(present)} of {len(harness.parts)} parts{more})"


def _format_problems(problems: tuple[DiagnosedProblem, ...]) -> Iterator[str]:
    for problem in problems:
        yield from _wrap(problem.what, "  ! ", "    ")
        if problem.mend:
            yield f"    → {problem.mend}"  # Whole, so that it can be pasted.


def _format_row(label: str, text: str) -> list[str]:
    if get_width(WIDTH_COLUMNS) < NARROW_COLUMNS:
        return _wrap(text, f"  {label}: ", "    ")
    return _wrap(text, f"  {label:<{LABEL_COLUMNS}}", " " * (LABEL_COLUMNS + 2))


def _wrap(text: str, first: str = "", rest: str = "") -> list[str]:
    return wrap_text(text, min(get_width(WIDTH_COLUMNS), WIDTH_COLUMNS), first, rest)


def shorten_paths(text: str) -> str:
    """Shorten a path, or a command with paths, with `~` for the home folder."""
    return " ".join(
        format_path(Path(word)) if word.startswith("/") else word for word in text.split(" ")
    )
