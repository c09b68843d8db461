"""Changes the user's own settings file: some keys, and nothing else in it."""

import os
import secrets
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasuki import config
from tasuki.errors import ConfigInvalid, StoreFailed
from tasuki.setting import tell_fault
from tasuki.vault.store import private_folder, why

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_ONE_AT_A_TIME = threading.Lock()
"""Two browsers that change two keys at once: neither change is lost."""


def write(changes: Mapping[str, Any]) -> Path:
    """Set keys of the user's own settings file, which is made where it is missing; its path.

    A value of None takes a key out, so that the default holds. Comments and other keys stay as they
    are. The file is replaced whole or not at all, and never by one that could not be read again.
    Raises ConfigInvalid where it is no valid file now or would be none; StoreFailed where it cannot
    be written, or where a variable of the environment, which is stronger, sets a key.
    """
    path = config.user_file()
    if path is None:
        raise StoreFailed("Your home folder is not known. Name a settings file in TASUKI_CONFIG.")
    for name in changes:
        if f"TASUKI_{name.upper()}" in os.environ:
            raise StoreFailed(
                f"TASUKI_{name.upper()} in the environment of this program sets {name}, and is stronger "
                "than the file. Take it out there, and start anew."
            )
    name, path = config.tilde(path), Path(os.path.realpath(path))
    with _ONE_AT_A_TIME:
        document = _document(path, name)
        for key, value in changes.items():
            if value is None:
                document.pop(key, None)
            else:
                document[key] = value
        config.checked(name, document.unwrap())
        _replace(path, document.as_string(), name)
    return path


def _document(path: Path, name: str) -> "TOMLDocument":
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        text = path.read_bytes().decode() if path.exists() else ""  # line ends stay
        document = tomlkit.parse(text)
    except (TOMLKitError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigInvalid(
            f"{name} is not valid TOML: {tell_fault(error)}. Mend it by hand first."
        ) from error
    except OSError as error:
        raise StoreFailed(f"{name} cannot be read: {why(error)}.") from error
    config.checked(name, document.unwrap())
    return document


def _replace(path: Path, text: str, name: str) -> None:
    """Put a whole file in the place of the old one; its mode stays."""
    new = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        private_folder(path.parent)
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
        number = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreFailed(
            f"{name} cannot be written: {why(error)}. Nothing was changed."
        ) from error
