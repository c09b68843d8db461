"""What stays on the machine when tasuki is in no harness any more, and how it is removed."""

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tasuki.config.installation import build_removal_line
from tasuki.config.settings import find_home, find_user_file, format_path
from tasuki.errors import TasukiError
from tasuki.files import get_data_folder, read_regular_file
from tasuki.patterns import compile_pattern
from tasuki.text_safety import format_size

CONTENTS = {"handoffs": "handoffs", "threads": "copies of threads", "fleet.db": "the fleet",
            "data": "personas", "index.db": "the search index", "cache": "what was read of threads"}  # fmt: skip
"""What the data folder may hold, by its names there."""
_OTHER = compile_pattern(
    r"acp|chat-history|compactions|defects|eval-notes\.toml|fleet|sessions|suggested"
    r"|(?:fleet|index)\.db[-.]\w\S*|installed\.(?:json|lock)\S*|\.tasuki-\w+"
)
"""Further names there."""
SHELL_FILES = (".bashrc", ".bash_profile", ".profile", ".zshrc", ".config/fish/config.fish")
SERVICE = ".config/systemd/user/tasuki.service"
FISH = ".config/fish/completions/tasuki.fish"


def list_remains() -> Iterator[str]:
    """Yield the lines of a report on what stays, each followed by the command that removes it."""
    yield ""
    yield "Still on this machine, and how to remove it:"
    home = find_home() or Path("/nonexistent")
    if os.path.isfile(home / SERVICE):
        disable = "systemctl --user disable --now tasuki"
        yield from (
            f"  {format_path(home / SERVICE)}, a service",
            f"    {disable}; {_remove(home / SERVICE)}",
        )
    yield from _describe_data(get_data_folder(), home)
    try:
        settings = find_user_file()
    except TasukiError:
        settings = None
    for file, what in ((settings, "your settings"), (home / FISH, "completion")):
        if file and os.path.isfile(file):
            yield from (f"  {format_path(file)}, {what}", f"    {_remove(file)}")
    for file in (home / name for name in SHELL_FILES):
        lines = list[str]()
        with suppress(OSError):
            lines = read_regular_file(file).decode("utf-8", "replace").splitlines()
        for number, line in enumerate(lines, 1):
            if "tasuki completion" in line and not line.lstrip().startswith("#"):
                yield f"  {format_path(file)}, line {number}, completion"
                yield "    delete that line in your editor"
    yield from ("  tasuki itself", f"    {build_removal_line()}")


def _describe_data(data: Path, home: Path) -> Iterator[str]:
    """Describe the data folder; only one that holds nothing else is to be removed as a whole."""
    if not os.path.isdir(data):
        return
    names, target = os.listdir(data), os.path.realpath(data)
    found = [what for name, what in CONTENTS.items() if name in names]
    holds = f": {', '.join(found)}" if found else ""
    own = sorted(name for name in names if name in CONTENTS or _OTHER.fullmatch(name))
    if len(own) < len(names) or Path(os.path.realpath(home)).is_relative_to(target):
        yield f"  {format_path(data)}, which also holds files that are not tasuki's"
        yield f"    tasuki's own: {', '.join(own)}"
        return
    yield f"  {format_path(data)}, {format_size(_measure(data))}{holds}"
    yield f"    {_remove(Path(target))}{f'; {_remove(data)}' if data.is_symlink() else ''}"


def _remove(path: Path) -> str:
    if not str(path).isprintable():
        return "remove it by hand: its name holds characters that a terminal does not show"
    is_folder = path.is_dir() and not path.is_symlink()
    return f"{'rm -rf' if is_folder else 'rm'} {shlex.quote(str(path))}"


def _measure(folder: Path) -> int:
    """Return the bytes of the files below a folder, as far as they can be seen."""
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(where, name)).st_size
    return total
