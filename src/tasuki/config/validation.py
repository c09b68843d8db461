"""Values of settings as files and variables give them, and what is wrong with them, in plain words.

No message repeats a key.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from tasuki.errors import ConfigInvalid
from tasuki.patterns import compile_pattern

MAX_FILE = 1_000_000
"""Bytes of a settings file; a longer one is an error."""
_VARIABLE = compile_pattern(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_KEY = compile_pattern(
    r"(?:sk|pk|rk|gsk|xai|csk|nvapi|pplx|tgp|fw|r8|hf|ghp|gho|ghs|github_pat|glpat|key|AIza)"
    r"[-_]?[A-Za-z0-9_-]*[a-z0-9][A-Za-z0-9_-]{11,}"
    r"|(?=[A-Za-z0-9_-]*[a-z])(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{32,}"
)
_WORDS: dict[Any, str] = {bool: "true or false", int: "a whole number", str: "text"}


def convert_to_snake(name: str) -> str:
    """Convert `minGoalLength` to `min_goal_length`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower().replace("-", "_")


def describe_type(kind: Any) -> str:
    """Describe what a setting of this type must be, for a message: `a whole number`."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if args := [a for a in get_args(kind) if a is not NoneType]:
        return "a table" if get_origin(kind) is dict else describe_type(args[0])
    return _WORDS.get(kind, "a table")


def convert_value(source: str, key: str, kind: Any, value: Any) -> Any:
    """Convert a value to its type.

    Raises ConfigInvalid naming place, key and type, in tables too.
    """
    if get_origin(kind) is dict and isinstance(value, dict):
        inner = get_args(kind)[1]
        return {k: convert_value(source, f"{key}.{k}", inner, v) for k, v in value.items()}
    if isinstance(kind, type) and issubclass(kind, Struct) and isinstance(value, dict):
        values = {}
        for name, inner_value in value.items():
            field = convert_to_snake(name)
            if field not in kind.__struct_fields__:
                unknown = describe_unknown_key(f"{key}.{name}", name, kind.__struct_fields__)
                raise ConfigInvalid(f"{source}: {unknown}")
            inner = kind.__annotations__[field]
            values[field] = convert_value(source, f"{key}.{name}", inner, inner_value)
        return kind(**values)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as exc:
        message = f"{source}: {key} must be {describe_type(kind)}, not {format_value(value)}."
        raise ConfigInvalid(message) from exc


def describe_unknown_key(name: str, key: str, names: tuple[str, ...]) -> str:
    """Describe an unknown key, with the one that was probably meant."""
    import difflib

    if matches := difflib.get_close_matches(convert_to_snake(key), names, n=1, cutoff=0.7):
        return f"unknown setting {format_value(name)}. Did you mean {matches[0]}?"
    return f"unknown setting {format_value(name)}. Known: {', '.join(names)}."


def is_likely_key(text: str) -> bool:
    """Tell whether a text is more likely a key than a name."""
    return bool(_KEY.fullmatch(text.strip()))


def check_variable(source: str, key: str, name: str) -> None:
    """Raise ConfigInvalid, without the value, if this is no name of an environment variable."""
    if name and (is_likely_key(name) or not _VARIABLE.fullmatch(name)):
        raise ConfigInvalid(
            f"{source}: {key} must be the name of an environment variable, such as MY_API_KEY, and "
            "this value is not one; it may be the key itself. Put the key into the variable, not "
            "into the file."
        )


def check_url(source: str, key: str, url: str) -> None:
    """Raise ConfigInvalid, without the value, if this is no plain http or https address."""
    if not url or is_plain_url(url):
        return
    if "@" in url or "?" in url or "#" in url:
        raise ConfigInvalid(
            f"{source}: {key} holds a name, a password or a query. Write the address alone, such "
            "as https://host/v1, and name the variable that holds the key in key_env."
        )
    raise ConfigInvalid(
        f"{source}: {key} must be an address such as https://host/v1 or http://127.0.0.1:8080/v1."
    )


def is_plain_url(url: str) -> bool:
    """Tell whether this is an http or https address that holds no password and no query."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return fine and bool(re.fullmatch(r"[!-~]+", url)) and not re.search(r"[@?#\\]", url)


def is_open_http(url: str) -> bool:
    """Tell whether data sent to this address can be read on the way: http, and not this machine."""
    return url.startswith("http://") and not is_local(url)


def is_local(url: str) -> bool:
    """Tell whether an address is on this machine."""
    from urllib.parse import urlsplit

    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host in ("localhost", "::1") or bool(re.fullmatch(r"127(\.[0-9]{1,3}){3}", host))


def format_value(value: Any) -> str:
    """Format a value for a message: short, and nothing that may be a key."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int | float):
        return str(value) if abs(value) < 1e15 else "a number so large"
    if isinstance(value, str):
        if any(map(is_likely_key, re.split(r"[\s.:/@,;=]+", value))):
            return "a text that may hold a key"
        return repr(value if len(value) <= 60 else value[:60] + "…")
    return "a list" if isinstance(value, list) else "a table" if isinstance(value, dict) else "this"


def describe_parse_error(error: Exception) -> str:
    """Describe what is wrong with the text of a settings file, instead of Python's words."""
    if isinstance(error, UnicodeDecodeError):
        line = error.object.count(b"\n", 0, error.start) + 1
        return f"line {line} holds a byte that is not UTF-8. Save it as UTF-8"
    if isinstance(error, RecursionError):
        return "its values are nested too deeply"
    return str(error)


# -- files and variables ---------------------------------------------------------------


def _read_file(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE + 1)
    except OSError as exc:
        raise ConfigInvalid(f"Cannot read {name}: {exc.strerror}.") from exc
    if len(content) > MAX_FILE:
        raise ConfigInvalid(f"{name} is longer than {MAX_FILE} bytes: no settings file.")
    return content


def read_toml(path: Path, name: str) -> Mapping[str, Any]:
    """Read a settings file in TOML; `name` is its path for messages. Raises ConfigInvalid."""
    import tomllib

    try:
        return tomllib.loads(_read_file(path, name).decode())
    except (ValueError, RecursionError) as exc:
        raise ConfigInvalid(f"{name} is not valid TOML: {describe_parse_error(exc)}.") from exc


def read_pi_settings(path: Path, name: str) -> Mapping[str, Any]:
    """Read the key `handoff` of pi's settings. Raises ConfigInvalid."""
    import json

    try:
        document = json.loads(_read_file(path, name) or b"{}")
    except (ValueError, RecursionError) as exc:
        raise ConfigInvalid(f"{name} is not valid JSON: {describe_parse_error(exc)}.") from exc
    handoff = document.get("handoff", {}) if isinstance(document, dict) else {}
    if not isinstance(handoff, dict):
        raise ConfigInvalid(f'{name}: "handoff" must be an object.')
    return handoff


def parse_value(variable: str, text: str, kind: Any) -> Any:
    """Parse the text of an environment variable as a setting of a type. Raises ConfigInvalid."""
    if kind is bool:
        if text.lower() not in ("1", "0", "true", "false", "yes", "no", "on", "off"):
            raise ConfigInvalid(f"{variable}={text!r} must be true or false.")
        return text.lower() in ("1", "true", "yes", "on")
    if kind is int:
        if not re.fullmatch(r"-?[0-9]{1,9}", text.strip()):
            raise ConfigInvalid(f"{variable}={text!r} must be a whole number.")
        return int(text)
    return text
