"""Review in the user's own editor."""

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from tasuki.errors import TasukiError, UsageError
from tasuki.extras import install_line

FALLBACKS = ("sensible-editor", "nano", "vi")


def edit_in_editor(text: str) -> str | None:
    """The text as the user left it in `$VISUAL` or `$EDITOR`, or None where they gave up.

    Given up means: the editor ended with an error, or the file is empty or gone. The file is
    the user's alone and is removed. Raises UsageError where there is no editor, TasukiError where
    the file cannot be written.
    """
    command = _editor()
    path = _written(text)
    try:
        status = _run([*command, str(path)])
        edited = path.read_bytes().decode("utf-8", "replace") if status == 0 else ""
    except FileNotFoundError:
        return None
    finally:
        path.unlink(missing_ok=True)
    return _without_added_newline(edited, text) if edited.strip() else None


def _editor() -> list[str]:
    """The editor's command; a setting that names a missing program is an error, not skipped."""
    for name in ("VISUAL", "EDITOR"):
        if value := os.environ.get(name, "").strip():
            with contextlib.suppress(ValueError):
                command = shlex.split(value)
                if command and shutil.which(command[0]):
                    return command
            raise UsageError(f"${name} is {value!r}, which cannot be run. Set it to your editor.")
    for program in FALLBACKS:
        if shutil.which(program):
            return [program]
    raise UsageError(
        "There is no editor to review in. Set EDITOR, or install the extra `review`: "
        f"{install_line('review')}"
    )


def _written(text: str) -> Path:
    try:
        number, name = tempfile.mkstemp(prefix="tasuki-", suffix=".md")
        with os.fdopen(number, "wb") as stream:
            stream.write(text.encode("utf-8", "replace"))
    except OSError as error:
        raise TasukiError(f"The brief cannot be written for the editor: {error}.") from error
    return Path(name)


def _run(command: list[str]) -> int:
    """Exit status of the editor. Ctrl-C is for the editor alone."""
    try:
        process = subprocess.Popen(command)
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be run: {error.strerror}.") from error
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue


def _without_added_newline(edited: str, before: str) -> str:
    """Editors end a file with a newline; one that was not there is not an edit."""
    return edited if before.endswith("\n") else edited.removesuffix("\n")
