"""Settings: flags > environment > project file > `.pi/settings.json` > user file > defaults.

The names are the seed's in `.pi/settings.json` (`minGoalLength`) and the same with underscores in
tasuki's own TOML files and in the environment (`min_goal_length`, `TASUKI_MIN_GOAL_LENGTH`).
Files found in a repository are somebody else's words: they may bound and shape a brief, never
choose an author, a model, an address or a command to run (`USER_ONLY`).
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tasuki.errors import ConfigInvalid

PROJECT_FILE = ".tasuki.toml"


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set, with its default."""

    budget: int = 2500
    """Tokens (characters / 4) of the brief without the goal; a hard bound."""
    max_files: int = 20
    max_commands: int = 10
    max_information_items: int = 12
    max_decision_items: int = 8
    max_open_questions: int = 6
    min_goal_length: int = 12
    include_metadata: bool = True
    include_skill: bool = True
    include_file_reasons: bool = True
    include_handoff_preamble: bool = True
    show_progress_phases: bool = True
    validate_files: bool = True
    author: str = "offline"
    use_current_model: bool = True
    model: str | None = None
    to: str = ""
    """Harness of the successor; empty for the predecessor's own."""
    mcp_start: bool = False
    """Whether the MCP tool `handoff` starts the successor in tmux, its first prompt unsent."""

    def limits(self) -> dict[str, int]:
        """Caps of the sections of a draft."""
        return {
            "files": self.max_files,
            "commands": self.max_commands,
            "context": self.max_information_items,
            "decisions": self.max_decision_items,
            "questions": self.max_open_questions,
        }


USER_ONLY = frozenset({"author", "model", "use_current_model", "to", "mcp_start"})
"""Settings that a repository cannot set; they are taken from the user's own file, the environment
and flags alone."""
_NUMBERS = ("budget", "max_files", "max_commands", "max_information_items", "max_decision_items",
            "max_open_questions", "min_goal_length")  # fmt: skip
MIN_BUDGET = 300


def user_file() -> Path:
    """The user's own settings file; `TASUKI_CONFIG` names another one."""
    if given := os.environ.get("TASUKI_CONFIG"):
        return Path(given)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "tasuki" / "config.toml"


def load(cwd: Path, flags: Mapping[str, Any] | None = None) -> Settings:
    """The settings that hold in a folder. Raises ConfigInvalid naming the file and the key.

    Keys of `flags` whose value is None were not given.
    """
    values: dict[str, Any] = {}
    for source, found, trusted in _sources(cwd):
        for key, value in found.items():
            name = snake(key)
            if name not in Settings.__struct_fields__:
                raise ConfigInvalid(f"{source}: unknown setting {key!r}. Known: {_known()}.")
            if trusted or name not in USER_ONLY:
                values[name] = _typed(source, key, name, value)
    values.update({k: v for k, v in (flags or {}).items() if v is not None})
    return _valid(Settings(**values))


def _sources(cwd: Path) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Where settings come from, the weakest first: name, values, whether it is the user's own."""
    yield str(user_file()), _toml(user_file()), True
    pi = _nearest(cwd, ".pi/settings.json")
    if pi:
        found = {k: v for k, v in _pi(pi).items() if snake(k) in Settings.__struct_fields__}
        yield f'{pi} ("handoff")', found, False
    if project := _nearest(cwd, PROJECT_FILE):
        yield str(project), _toml(project), False
    yield "environment", dict(_environment()), True


def _nearest(cwd: Path, name: str) -> Path | None:
    """A file of this name here or in a parent folder, up to the root of the repository."""
    for folder in (cwd, *cwd.parents):
        if (folder / name).is_file():
            return folder / name
        if (folder / ".git").exists():
            return None
    return None


def _toml(path: Path) -> Mapping[str, Any]:
    if not path.exists():
        return {}
    import tomllib

    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as exc:
        raise ConfigInvalid(f"Cannot read {path}: {exc.strerror}.") from exc
    except (ValueError, RecursionError) as exc:
        raise ConfigInvalid(f"{path} is not valid TOML: {exc}.") from exc


def _pi(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_bytes() or b"{}")
    except OSError as exc:
        raise ConfigInvalid(f"Cannot read {path}: {exc.strerror}.") from exc
    except (ValueError, RecursionError) as exc:
        raise ConfigInvalid(f"{path} is not valid JSON: {exc}.") from exc
    handoff = found.get("handoff", {}) if isinstance(found, dict) else {}
    if not isinstance(handoff, dict):
        raise ConfigInvalid(f'{path}: "handoff" must be an object.')
    return handoff


def _environment() -> Iterator[tuple[str, Any]]:
    for name, kind in Settings.__annotations__.items():
        text = os.environ.get(f"TASUKI_{name.upper()}")
        if text is not None:
            yield name, _from_text(name, text, kind)


def _from_text(name: str, text: str, kind: Any) -> Any:
    if kind is bool:
        if text.lower() not in ("1", "0", "true", "false", "yes", "no", "on", "off"):
            raise ConfigInvalid(f"TASUKI_{name.upper()}={text!r} must be true or false.")
        return text.lower() in ("1", "true", "yes", "on")
    if kind is int:
        if not re.fullmatch(r"-?[0-9]{1,9}", text.strip()):
            raise ConfigInvalid(f"TASUKI_{name.upper()}={text!r} must be a whole number.")
        return int(text)
    return text


def _typed(source: str, key: str, name: str, value: Any) -> Any:
    try:
        return msgspec.convert(value, Settings.__annotations__[name])
    except msgspec.ValidationError as exc:
        raise ConfigInvalid(f"{source}: {key} = {value!r} is not usable: {exc}.") from exc


def _valid(settings: Settings) -> Settings:
    for name in _NUMBERS:
        if getattr(settings, name) < 0:
            raise ConfigInvalid(f"{name} must not be negative; it is {getattr(settings, name)}.")
    if settings.budget < MIN_BUDGET:
        raise ConfigInvalid(
            f"budget must be at least {MIN_BUDGET} tokens; it is {settings.budget}."
        )
    return settings


def snake(name: str) -> str:
    """`minGoalLength` as `min_goal_length`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower().replace("-", "_")


def _known() -> str:
    return ", ".join(Settings.__struct_fields__)
