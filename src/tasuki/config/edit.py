"""Change the user's own settings file: some keys, and nothing else in it."""

import os
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasuki.config import settings
from tasuki.config.validation import describe_parse_error
from tasuki.errors import ConfigInvalid, StoreFailed
from tasuki.files import create_private_folder, explain_error, replace_file

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_WRITE_LOCK = threading.Lock()
"""Held for each change, so that two browsers that change two keys at once lose none."""


def write_settings(changes: Mapping[str, Any]) -> Path:
    """Set keys of the user's own settings file, which is created if missing; return its path.

    A value of None removes a key, so that the default applies. Comments and other keys are not
    changed. The file is replaced whole or not at all, and never by one that could not be read
    again. Raises ConfigInvalid where it is no valid file now or would be none; StoreFailed
    where it cannot be written, or where a variable of the environment, which is stronger, sets
    a key.
    """
    path = settings.find_user_file()
    if path is None:
        raise StoreFailed("Your home folder is not known. Name a settings file in TASUKI_CONFIG.")
    for name in changes:
        if f"TASUKI_{name.upper()}" in os.environ:
            raise StoreFailed(
                f"TASUKI_{name.upper()} in the environment of this program sets {name}, and is stronger "
                "than the file. Remove it there, and start again."
            )
    name, path = settings.format_path(path), Path(os.path.realpath(path))
    with _WRITE_LOCK:
        document = _read_document(path, name)
        for key, value in changes.items():
            if value is None:
                document.pop(key, None)
            else:
                document[key] = value
        settings.check_user_values(name, document.unwrap())
        try:
            create_private_folder(path.parent)
            mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
            replace_file(path, document.as_string().encode(), mode)
        except OSError as error:
            raise StoreFailed(
                f"{name} cannot be written: {explain_error(error)}. Nothing was changed."
            ) from error
    return path


def _read_document(path: Path, name: str) -> "TOMLDocument":
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        text = path.read_bytes().decode() if path.exists() else ""  # keeps line ends
        document = tomlkit.parse(text)
    except (TOMLKitError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigInvalid(
            f"{name} is not valid TOML: {describe_parse_error(error)}. Fix it by hand first."
        ) from error
    except OSError as error:
        raise StoreFailed(f"{name} cannot be read: {explain_error(error)}.") from error
    settings.check_user_values(name, document.unwrap())
    return document
