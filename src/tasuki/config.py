"""Settings: flags > environment > project file > `.pi/settings.json` > user file > defaults.

The names are the seed's in `.pi/settings.json` (`minGoalLength`) and the same with underscores in
tasuki's own TOML files and in the environment (`min_goal_length`, `TASUKI_MIN_GOAL_LENGTH`).
Files found in a repository are somebody else's words: they may bound and shape a brief and name a
model, never choose an author, an address, a key or a command to run (`USER_ONLY`). Whether a model
that they name may be used is decided where models are resolved, from `Loaded.choices`.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from tasuki import setting
from tasuki.errors import ConfigInvalid
from tasuki.paths import expand_user
from tasuki.setting import snake, typed, unknown_key

PROJECT_FILE = ".tasuki.toml"
PI_FILE = ".pi/settings.json"
MAX_FILE = 1_000_000
"""Bytes of a settings file; a longer one is an error."""


class Provider(Struct, frozen=True, forbid_unknown_fields=True):
    """Where models of one provider are asked: a table `[providers.NAME]` of the user's own file."""

    base_url: str = ""
    """Empty for the address that the provider is known under."""
    key_env: str = ""
    """Name of the environment variable that holds the key, never the key."""
    api: Literal["openai", "responses", "anthropic", "google"] | None = None
    """None for the provider's own; `openai` for one that is not known."""
    window: int = 0
    """Tokens that a request may have; 0 if not known."""
    json_schema: bool = True
    """Whether the endpoint is asked to hold the JSON schema of the answer."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set, with its default."""

    budget: int = 4000
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
    author: Literal["offline", "model", "agent"] = "offline"
    agent_format: Literal["structured", "markdown"] = "structured"
    """Shape of the document that an agent writes."""
    author_seconds: int = 180
    """Time limit of one question to a model or an agent."""
    strict: bool = False
    """Whether an author that fails is an error; else the next one down writes."""
    use_current_model: bool = True
    """Whether the thread's own model is asked. False as well where a `model` is meant."""
    model: str | None = None
    """`provider/model-id`, as the user's own sources name it; see `Loaded.choices`."""
    model_window: int = 100_000
    """Tokens that a request may have where the provider says nothing."""
    providers: dict[str, Provider] = {}
    """Addresses and key variables of models, by the name before the slash of `provider/model-id`."""
    to: str = ""
    """Harness of the successor; empty for the predecessor's own."""
    mcp_start: bool = False
    """Whether the MCP tool `handoff` starts the successor in tmux, its first prompt unsent."""
    suggest_at: int = 80
    """Percent of the context from which a handoff is suggested, once for a thread; 0 for never."""
    auto_handoff_at: int = 0
    """Percent of the context from which a draft is made and shown without a word; 0 for never."""
    notify: str = ""
    """Where a suggestion goes beside the screen: `desktop`, or addresses of apprise, in words."""
    notify_about: str = "all"
    """Which events of the fleet are sent there, in words; the others are in its list alone."""
    context_threshold: int = 80
    """Percent of the context at which an agent of the fleet is over its threshold."""
    keep_days: int = 30
    """Days for which the fleet keeps its log, alerts and what is left of agents that ended; 0 for ever."""
    fleet_root: str = ""
    """Folder that holds `data/personas/`; empty for tasuki's data folder."""
    fleet_tmux: str = "default"
    """Name of the tmux server (`tmux -L`) that agents of the fleet run in."""
    review_in: Literal["window", "popup"] = "window"
    """Where in tmux a handoff is reviewed that was begun inside an agent."""

    def limits(self) -> dict[str, int]:
        """Caps of the sections of a draft."""
        return {
            "files": self.max_files,
            "commands": self.max_commands,
            "context": self.max_information_items,
            "decisions": self.max_decision_items,
            "questions": self.max_open_questions,
        }


class ModelChoice(Struct, frozen=True):
    """What one source says about the model to use."""

    source: str
    own: bool = True
    """It is the user's own source, not a repository's file."""
    model: str = ""
    current: bool | None = None
    """Whether the thread's own model is wanted; None if nothing is said."""


class LookedAt(Struct, frozen=True):
    """A file that settings may come from."""

    path: str
    exists: bool


class Loaded(Struct, frozen=True):
    """Settings, where each value came from, and what is wrong but no error."""

    settings: Settings
    sources: dict[str, str] = {}
    problems: tuple[str, ...] = ()
    choices: tuple[ModelChoice, ...] = ()
    """What was said about the model, the strongest source first; empty: what the settings say."""
    files: tuple[LookedAt, ...] = ()


class Source(Struct, frozen=True):
    """One place that settings come from, with what it holds."""

    name: str
    values: Mapping[str, Any]
    repository: bool = False
    """Somebody else's words, not the user's own."""
    lenient: bool = False
    """Other programs keep keys here too, so one that is not known is no error."""

    def of(self, name: str) -> str:
        """Where one value came from: of the environment, the variable."""
        return f"environment TASUKI_{name.upper()}" if self.name == "environment" else self.name


USER_ONLY = frozenset({
    "author", "agent_format", "author_seconds", "strict", "model_window", "providers", "to", "mcp_start",
    "auto_handoff_at", "notify", "notify_about", "review_in", "context_threshold", "keep_days",
    "fleet_root", "fleet_tmux",
})  # fmt: skip
"""Settings that a repository cannot set; they are taken from the user's own file, the environment
and flags alone."""
NAMES_ONLY = frozenset({"model", "use_current_model"})
"""Settings that a repository may wish for."""
ALERTS = ("done", "failed", "needs_you", "threshold", "unacknowledged")
"""Events of the fleet that the operator can be told of."""
ALL = "all"
"""A word of `notify_about` that stands for each of them."""
BOUNDS: dict[str, tuple[int, int | None, str]] = {
    "budget": (300, None, "tokens"),
    "author_seconds": (1, 3600, "seconds"),
    "model_window": (2000, None, "tokens"),
    "suggest_at": (0, 100, "percent"),
    "auto_handoff_at": (0, 100, "percent"),
    "context_threshold": (1, 100, "percent"),
}
"""Least and greatest value, and the unit; every other number must not be negative."""
_KINDS: Mapping[str, Any] = Settings.__annotations__


def user_file() -> Path | None:
    """The user's own settings file, None without a home; `TASUKI_CONFIG` names another one."""
    if given := os.environ.get("TASUKI_CONFIG"):
        return Path(os.path.abspath(expand_user(given, "TASUKI_CONFIG")))
    base = os.environ.get("XDG_CONFIG_HOME") or ""
    if os.path.isabs(base):
        return Path(base) / "tasuki" / "config.toml"
    own = home()
    return own / ".config" / "tasuki" / "config.toml" if own else None


def fleet_root(settings: Settings, data: Path) -> Path:
    """The folder of the fleet's personas, an absolute path: the setting, else the data folder."""
    root = settings.fleet_root
    return Path(os.path.abspath(expand_user(root, "fleet_root"))) if root else data


def home() -> Path | None:
    """The user's folder, None if nobody knows it."""
    try:
        found = Path.home()
    except RuntimeError:
        return None
    return found if found.is_absolute() else None


def tilde(path: Path) -> str:
    """A path for a message, with `~` for the home folder."""
    own = home()
    if own and own != Path("/") and path.is_relative_to(own):
        return f"~/{path.relative_to(own)}"
    return str(path)


def load(cwd: Path, flags: Mapping[str, Any] | None = None) -> Settings:
    """The settings that hold in a folder. Raises ConfigInvalid naming the file and the key.

    Keys of `flags` whose value is None were not given.
    """
    return loaded(cwd, flags).settings


def loaded(cwd: Path, flags: Mapping[str, Any] | None = None) -> Loaded:
    """The settings that hold in a folder, with their sources. Raises ConfigInvalid as `load`."""
    values: dict[str, Any] = {}
    sources = dict.fromkeys(Settings.__struct_fields__, "default")
    problems: list[str] = []
    choices: list[ModelChoice] = []
    files: list[LookedAt] = []
    for source in _sources(cwd, flags or {}, files, problems):
        found = _taken(source, problems)
        choice = _choice(source, found)
        if choice:
            choices.insert(0, choice)
        for name, value in found.items():
            if not (source.repository and name in NAMES_ONLY):
                values[name], sources[name] = value, source.of(name)
    settings = _valid(_meant(Settings(**values), choices, sources), sources)
    problems += _open_addresses(settings, sources)
    return Loaded(settings, sources, tuple(problems), tuple(choices), tuple(files))


def checked(name: str, values: Mapping[str, Any]) -> Settings:
    """What the user's own file would mean with these values alone. Raises ConfigInvalid naming `name`."""
    found = _taken(Source(name, values), [])
    return _valid(Settings(**found), dict.fromkeys(Settings.__struct_fields__, name))


def _taken(source: Source, problems: list[str]) -> dict[str, Any]:
    """What a source may say and says, by the names of the settings."""
    found: dict[str, Any] = {}
    for key, value in source.values.items():
        name = snake(key)
        if name not in _KINDS:
            unknown = unknown_key(key, key, Settings.__struct_fields__)
            if not source.lenient:
                raise ConfigInvalid(f"{source.name}: {unknown}")
            problems.append(f"{source.name}: {unknown}")
        elif source.repository and name in USER_ONLY:
            problems.append(f"{source.name}: {key} is ignored, since a repository cannot set it. "
                            f"If you want it, set it in {_own_name()}.")  # fmt: skip
        else:
            found[name] = typed(source.of(name), key, _KINDS[name], value)
    for name, provider in found.get("providers", {}).items():
        _check_provider(source.name, f"providers.{name}", provider)
    return found


def _choice(source: Source, found: Mapping[str, Any]) -> ModelChoice | None:
    model, current = (found.get("model") or "").strip(), found.get("use_current_model")
    if not model and current is None:
        return None
    return ModelChoice(
        source.of("model" if model else "use_current_model"),
        own=not source.repository,
        model=model,
        current=current,
    )


def _meant(settings: Settings, choices: list[ModelChoice], sources: dict[str, str]) -> Settings:
    """The settings with `use_current_model` false where the user's own sources mean a `model`.

    The strongest of them decides; one that names a model and says nothing else means that model.
    """
    own = next((choice for choice in choices if choice.own), None)
    if own and own.model and own.current is None:
        sources["use_current_model"] = f"{own.source}, where model is set"
        return replace(settings, use_current_model=False)
    return settings


def _sources(
    cwd: Path, flags: Mapping[str, Any], files: list[LookedAt], problems: list[str]
) -> Iterator[Source]:
    """Where settings come from, the weakest first."""
    own = user_file()
    if own is None:
        problems.append("Your home folder is not known, so your own settings file was not read. "
                        "TASUKI_CONFIG can name one.")  # fmt: skip
    elif not _is_there(own, files, problems):
        if os.environ.get("TASUKI_CONFIG") and not problems:
            problems.append(
                f"TASUKI_CONFIG names {tilde(own)}, which is not there. The defaults hold."
            )
    else:
        yield Source(tilde(own), _toml(own))
    if pi := _nearest(cwd, PI_FILE, files):
        yield Source(f'{tilde(pi)} ("handoff")', _pi(pi), repository=True, lenient=True)
    if project := _nearest(cwd, PROJECT_FILE, files):
        yield Source(tilde(project), _toml(project), repository=True)
    yield Source("environment", dict(_environment(problems)))
    yield Source("flag", {k: v for k, v in flags.items() if v is not None})


def _is_there(path: Path, files: list[LookedAt], problems: list[str]) -> bool:
    """Whether the user's own file is there; a folder that cannot be looked into is a problem."""
    try:
        exists = path.exists()
    except (OSError, ValueError) as exc:
        problems.append(f"Cannot look for {tilde(path)}: {getattr(exc, 'strerror', None) or exc}. "
                        "The defaults hold.")  # fmt: skip
        exists = False
    files.append(LookedAt(tilde(path), exists))
    return exists


def _nearest(cwd: Path, name: str, files: list[LookedAt]) -> Path | None:
    """A file of this name here or in a parent folder, up to the root of the repository."""
    own = user_file()
    for folder in (cwd, *cwd.parents):
        path = folder / name
        if os.path.isfile(path) and path != own:
            files.append(LookedAt(tilde(path), exists=True))
            return path
        if os.path.exists(folder / ".git"):
            break
    files.append(LookedAt(tilde(cwd / name), exists=False))
    return None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE + 1)
    except OSError as exc:
        raise ConfigInvalid(f"Cannot read {tilde(path)}: {exc.strerror}.") from exc
    if len(content) > MAX_FILE:
        raise ConfigInvalid(f"{tilde(path)} is longer than {MAX_FILE} bytes: no settings file.")
    return content


def _toml(path: Path) -> Mapping[str, Any]:
    import tomllib

    try:
        return tomllib.loads(_read(path).decode())
    except (ValueError, RecursionError) as exc:
        raise ConfigInvalid(f"{tilde(path)} is not valid TOML: {setting.tell_fault(exc)}.") from exc


def _pi(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(_read(path) or b"{}")
    except (ValueError, RecursionError) as exc:
        raise ConfigInvalid(f"{tilde(path)} is not valid JSON: {setting.tell_fault(exc)}.") from exc
    handoff = found.get("handoff", {}) if isinstance(found, dict) else {}
    if not isinstance(handoff, dict):
        raise ConfigInvalid(f'{tilde(path)}: "handoff" must be an object.')
    return handoff


def _environment(problems: list[str]) -> Iterator[tuple[str, Any]]:
    for name, kind in _KINDS.items():
        variable = f"TASUKI_{name.upper()}"
        text = os.environ.get(variable)
        if text is None:
            continue
        if name == "providers":
            problems.append(f"{variable} is ignored: write [providers.NAME] in {_own_name()}.")
        else:
            yield name, _from_text(variable, text, kind)


def _from_text(variable: str, text: str, kind: Any) -> Any:
    if kind is bool:
        if text.lower() not in ("1", "0", "true", "false", "yes", "no", "on", "off"):
            raise ConfigInvalid(f"{variable}={text!r} must be true or false.")
        return text.lower() in ("1", "true", "yes", "on")
    if kind is int:
        if not re.fullmatch(r"-?[0-9]{1,9}", text.strip()):
            raise ConfigInvalid(f"{variable}={text!r} must be a whole number.")
        return int(text)
    return text


def alerts(settings: Settings) -> str:
    """The kinds of events of the fleet that are sent, in words."""
    words = settings.notify_about.split()
    return " ".join(kind for kind in ALERTS if kind in words or ALL in words)


def _valid(settings: Settings, sources: Mapping[str, str]) -> Settings:
    if other := [word for word in settings.notify_about.split() if word not in (ALL, *ALERTS)]:
        raise ConfigInvalid(
            f"{sources['notify_about']}: notify_about knows no {setting.shown(other[0])}. "
            f"Words: {' '.join((ALL, *ALERTS))}."
        )
    for name, kind in _KINDS.items():
        if kind is not int:
            continue
        value = getattr(settings, name)
        least, most, unit = BOUNDS.get(name, (0, None, ""))
        if value < least:
            bound = f"be at least {least} {unit}" if unit else "not be negative"
            raise ConfigInvalid(f"{_named(sources[name], name)} must {bound}; it is {value}.")
        if most is not None and value > most:
            raise ConfigInvalid(
                f"{_named(sources[name], name)} must be at most {most} {unit}; it is {value}."
            )
    return settings


def _named(source: str, name: str) -> str:
    """A setting as it was given: by a flag, a variable or a file."""
    if source == "flag":
        return f"--{'author-model' if name == 'model' else name.replace('_', '-')}"
    variable = f"TASUKI_{name.upper()}"
    return variable if source.endswith(variable) else f"{source}: {name}"


def _check_provider(where: str, key: str, provider: Provider) -> None:
    setting.checked_variable(where, f"{key}.key_env", provider.key_env)
    setting.checked_url(where, f"{key}.base_url", provider.base_url)
    if provider.window < 0:
        raise ConfigInvalid(f"{where}: {key}.window must not be negative; it is {provider.window}.")


def _open_addresses(settings: Settings, sources: Mapping[str, str]) -> Iterator[str]:
    for name, provider in settings.providers.items():
        if provider.key_env and setting.is_open_http(provider.base_url):
            yield (f"{sources['providers']}: providers.{name} sends the key and the thread "
                   f"unencrypted to {provider.base_url}. Use https://.")  # fmt: skip


def _own_name() -> str:
    own = user_file()
    return tilde(own) if own else "the file that TASUKI_CONFIG names"
