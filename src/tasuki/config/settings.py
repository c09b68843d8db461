"""Settings: flags > environment > project file > `.pi/settings.json` > user file > defaults.

The names are the seed's in `.pi/settings.json` (`minGoalLength`) and the same with
underscores in tasuki's own TOML files and in the environment (`min_goal_length`,
`TASUKI_MIN_GOAL_LENGTH`). Files found in a repository are other people's words: they may
limit and shape a brief and name a model, but never choose an author, an address, a key or a
command to run (`USER_ONLY`). Whether a model that they name may be used is decided where
models are resolved, from `Loaded.choices`.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from tasuki.config import validation
from tasuki.config.defaults import DEFAULT_BUDGET
from tasuki.config.validation import convert_to_snake, convert_value, describe_unknown_key
from tasuki.errors import ConfigInvalid, HomeUnknown
from tasuki.files import expand_user, find_home_folder

PROJECT_FILE = ".tasuki.toml"
PI_FILE = ".pi/settings.json"


class Provider(Struct, frozen=True, forbid_unknown_fields=True):
    """How models of one provider are asked: a table `[providers.NAME]` of the user's own file."""

    base_url: str = ""
    """Empty for the provider's usual address."""
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

    budget: int = DEFAULT_BUDGET
    """Tokens of the brief without the goal, by script; a hard bound."""
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
    """Whether the thread's own model is asked. Also False where a `model` is named."""
    model: str | None = None
    """`provider/model-id`, as the user's own sources name it; see `Loaded.choices`."""
    model_window: int = 100_000
    """Tokens that a request may have where the provider does not state it."""
    providers: dict[str, Provider] = {}
    """Addresses and key variables of models, by the name before the slash of `provider/model-id`."""
    to: str = ""
    """Harness of the successor; empty for the predecessor's own."""
    mcp_start: bool = False
    """Whether the MCP tool `handoff` starts the successor in tmux, its first prompt unsent."""
    suggest_at: int = 80
    """Percent of the context from which a handoff is suggested, once for a thread; 0 for never."""
    auto_handoff_at: int = 0
    """Percent of the context from which a draft is made and shown unasked; 0 for never."""
    notify: str = ""
    """Where a suggestion goes besides the screen: `desktop`, or addresses of apprise, in words."""
    notify_about: str = "all"
    """Which events of the fleet are sent there, in words; the others are only in its list."""
    context_threshold: int = 80
    """Percent of the context at which an agent of the fleet is over its threshold."""
    stuck_minutes: int = 15
    """Minutes without any sign of life after which a busy agent is called stuck; 0 for never."""
    resume_at_reset: int = 0
    """How often a day an agent goes on by itself when its usage limit has reset; 0 for never."""
    keep_days: int = 30
    """Days for which the fleet keeps its log, alerts and the remains of ended agents.

    0 means for ever.
    """
    cache: bool = True
    """Whether what was read of a thread is kept for the next command."""
    keep_threads: Literal["off", "handed-off", "all"] = "off"
    """Of which threads a copy is kept, for when their harness deletes them."""
    keep_threads_days: int = 90
    """Days after which such a copy is deleted; 0 means never."""
    keep_threads_bytes: int = 2 << 30
    """Bytes that all of them may take, compressed; 0 means any number."""
    fleet_root: str = ""
    """Folder that holds `data/personas/`; empty for tasuki's data folder."""
    fleet_tmux: str = "default"
    """Name of the tmux server (`tmux -L`) that agents of the fleet run in."""
    public_url: str = ""
    """Address under which a TLS proxy shows the dashboard: `https://NAME`, with a port or without."""
    proxy: str = ""
    """Whose `proxy_user_header` is believed: `user:NAME` of this machine, or another one's address."""
    proxy_user_header: str = ""
    """Header in which that proxy names the user whom it signed in."""
    proxy_users: str = ""
    """The users that it may sign in, in words; empty for nobody."""
    compaction: Literal["off", "restore", "replace"] = "restore"
    """What happens at a harness's own compaction, once `tasuki install --keep` was run.

    restore: its summary is checked and completed. replace: tasuki writes the summary, where the
    harness allows it; elsewhere as restore.
    """
    review_in: Literal["window", "popup"] = "window"
    """Where in tmux a handoff that was begun inside an agent is reviewed."""

    def list_limits(self) -> dict[str, int]:
        """Return the caps of the sections of a draft."""
        return {
            "files": self.max_files,
            "commands": self.max_commands,
            "context": self.max_information_items,
            "decisions": self.max_decision_items,
            "questions": self.max_open_questions,
        }


class ModelChoice(Struct, frozen=True):
    """What one source sets about the model to use."""

    source: str
    own: bool = True
    """It is the user's own source, not a repository's file."""
    model: str = ""
    current: bool | None = None
    """Whether the thread's own model is wanted; None if the source does not say."""


class SettingsFile(Struct, frozen=True):
    """A file that settings may come from."""

    path: str
    exists: bool


class LoadedSettings(Struct, frozen=True):
    """Settings, the source of each value, and problems that are no errors."""

    settings: Settings
    sources: dict[str, str] = {}
    problems: tuple[str, ...] = ()
    choices: tuple[ModelChoice, ...] = ()
    """What was set about the model, the strongest source first.

    If it is empty, the settings decide.
    """
    files: tuple[SettingsFile, ...] = ()


class SettingsSource(Struct, frozen=True):
    """One place that settings come from, with its values."""

    name: str
    values: Mapping[str, Any]
    repository: bool = False
    """Other people's words, not the user's own."""
    lenient: bool = False
    """Other programs keep keys here too, so an unknown one is no error."""

    def describe_origin(self, name: str) -> str:
        """Describe where one value came from: for the environment, the variable."""
        return f"environment TASUKI_{name.upper()}" if self.name == "environment" else self.name


USER_ONLY = frozenset({
    "author", "agent_format", "author_seconds", "strict", "model_window", "providers", "to", "mcp_start",
    "auto_handoff_at", "notify", "notify_about", "review_in", "context_threshold", "stuck_minutes", "resume_at_reset", "keep_days",
    "keep_threads", "keep_threads_days", "keep_threads_bytes", "fleet_root", "fleet_tmux", "public_url", "proxy",
    "proxy_user_header", "proxy_users", "compaction", "cache",
})  # fmt: skip
"""Settings that a repository cannot set.

They are taken from the user's own file, the environment and flags alone.
"""
NAMES_ONLY = frozenset({"model", "use_current_model"})
"""Settings that a repository may wish for."""
ALERTS = ("done", "failed", "limited", "needs_you", "stuck", "threshold", "unacknowledged")
"""Events of the fleet that the operator can be notified of."""
ALL = "all"
"""A word of `notify_about` that means each of them."""
BOUNDS: dict[str, tuple[int, int | None, str]] = {
    "budget": (300, None, "tokens"),
    "author_seconds": (1, 3600, "seconds"),
    "model_window": (2000, None, "tokens"),
    "suggest_at": (0, 100, "percent"),
    "auto_handoff_at": (0, 100, "percent"),
    "context_threshold": (1, 100, "percent"),
    "stuck_minutes": (0, 10080, "minutes"),
    "resume_at_reset": (0, 48, "times a day"),
}
"""Least and greatest value, and the unit; every other number must not be negative."""
_KINDS: Mapping[str, Any] = Settings.__annotations__


def find_user_file() -> Path | None:
    """Find the user's own settings file, None without a home; `TASUKI_CONFIG` names another one."""
    if named := os.environ.get("TASUKI_CONFIG"):
        return Path(os.path.abspath(expand_user(named, "TASUKI_CONFIG")))
    base = os.environ.get("XDG_CONFIG_HOME") or ""
    if os.path.isabs(base):
        return Path(base) / "tasuki" / "config.toml"
    own = find_home()
    return own / ".config" / "tasuki" / "config.toml" if own else None


def find_fleet_root(settings: Settings, data: Path) -> Path:
    """Return the folder of the fleet's personas, an absolute path.

    It is the setting, else the data folder.
    """
    root = settings.fleet_root
    return Path(os.path.abspath(expand_user(root, "fleet_root"))) if root else data


def find_home() -> Path | None:
    """Return the user's folder, None if it is unknown."""
    try:
        return find_home_folder()
    except HomeUnknown:
        return None


def format_path(path: Path) -> str:
    """Format a path for a message, with `~` for the home folder."""
    own = find_home()
    if own and own != Path("/") and path.is_relative_to(own):
        return f"~/{path.relative_to(own)}"
    return str(path)


def load_settings(cwd: Path) -> Settings:
    """Load the settings of a folder. Raises ConfigInvalid naming the file and the key."""
    return load_with_sources(cwd).settings


def load_with_sources(cwd: Path, flags: Mapping[str, Any] | None = None) -> LoadedSettings:
    """Load the settings of a folder with their sources.

    Keys of `flags` whose value is None were not given. Raises as `load_settings` does.
    """
    values: dict[str, Any] = {}
    sources = dict.fromkeys(Settings.__struct_fields__, "default")
    problems: list[str] = []
    choices: list[ModelChoice] = []
    files: list[SettingsFile] = []
    for source in _list_sources(cwd, flags or {}, files, problems):
        source_values = _select_values(source, problems)
        model = (source_values.get("model") or "").strip()
        current = source_values.get("use_current_model")
        if model or current is not None:
            origin = source.describe_origin("model" if model else "use_current_model")
            own = not source.repository
            choices.insert(0, ModelChoice(origin, own=own, model=model, current=current))
        for name, value in source_values.items():
            if not (source.repository and name in NAMES_ONLY):
                values[name], sources[name] = value, source.describe_origin(name)
    # One that names a model and nothing else means that model, not the thread's own.
    strongest = next((choice for choice in choices if choice.own), None)
    if strongest and strongest.model and strongest.current is None:
        sources["use_current_model"] = f"{strongest.source}, where model is set"
        values["use_current_model"] = False
    settings = _validate(Settings(**values), sources)
    problems += [
        f"{sources['providers']}: providers.{name} sends the key and the thread unencrypted to "
        f"{provider.base_url}. Use https://."
        for name, provider in settings.providers.items()
        if provider.key_env and validation.is_open_http(provider.base_url)
    ]
    given = (settings.proxy, settings.proxy_user_header, settings.proxy_users)
    if any(given):
        from tasuki.config.outside import find_problems

        problems += find_problems(settings.public_url, *given)
    return LoadedSettings(settings, sources, tuple(problems), tuple(choices), tuple(files))


def check_user_values(name: str, values: Mapping[str, Any]) -> Settings:
    """Return what the user's own file would mean with these values alone.

    Raises ConfigInvalid naming `name`.
    """
    accepted = _select_values(SettingsSource(name, values), [])
    return _validate(Settings(**accepted), dict.fromkeys(Settings.__struct_fields__, name))


def _select_values(source: SettingsSource, problems: list[str]) -> dict[str, Any]:
    """Select what a source may set and sets, by the names of the settings."""
    accepted: dict[str, Any] = {}
    for key, value in source.values.items():
        name = convert_to_snake(key)
        if name not in _KINDS:
            unknown = describe_unknown_key(key, key, Settings.__struct_fields__)
            if not source.lenient:
                raise ConfigInvalid(f"{source.name}: {unknown}")
            problems.append(f"{source.name}: {unknown}")
        elif source.repository and name in USER_ONLY:
            problems.append(f"{source.name}: {key} is ignored, since a repository cannot set it. "
                            f"If you want it, set it in {_format_user_file()}.")  # fmt: skip
        else:
            accepted[name] = convert_value(source.describe_origin(name), key, _KINDS[name], value)
    for name, provider in accepted.get("providers", {}).items():
        key = f"providers.{name}"
        validation.check_variable(source.name, f"{key}.key_env", provider.key_env)
        validation.check_url(source.name, f"{key}.base_url", provider.base_url)
        if provider.window < 0:
            raise ConfigInvalid(
                f"{source.name}: {key}.window must not be negative; it is {provider.window}."
            )
    return accepted


def _list_sources(
    cwd: Path, flags: Mapping[str, Any], files: list[SettingsFile], problems: list[str]
) -> Iterator[SettingsSource]:
    """Yield the sources of settings, the weakest first."""
    own = find_user_file()
    if own is None:
        problems.append("Your home folder is not known, so your own settings file was not read. "
                        "TASUKI_CONFIG can name one.")  # fmt: skip
    else:
        name, exists = format_path(own), False
        try:
            exists = own.exists()
        except (OSError, ValueError) as exc:
            reason = getattr(exc, "strerror", None) or exc
            problems.append(f"Cannot look for {name}: {reason}. The defaults apply.")
        files.append(SettingsFile(name, exists))
        if exists:
            yield SettingsSource(name, validation.read_toml(own, name))
        elif os.environ.get("TASUKI_CONFIG") and not problems:
            problems.append(
                f"TASUKI_CONFIG names {name}, which does not exist. The defaults apply."
            )
    if pi := _find_nearest(cwd, PI_FILE, files):
        name = format_path(pi)
        values = validation.read_pi_settings(pi, name)
        yield SettingsSource(f'{name} ("handoff")', values, repository=True, lenient=True)
    if project := _find_nearest(cwd, PROJECT_FILE, files):
        name = format_path(project)
        yield SettingsSource(name, validation.read_toml(project, name), repository=True)
    yield SettingsSource("environment", dict(_read_environment(problems)))
    yield SettingsSource("flag", {k: v for k, v in flags.items() if v is not None})


def list_places(cwd: Path) -> list[Path]:
    """List the files that settings of a folder may be in, whether they exist or not."""
    own = find_user_file()
    return [*([own] if own else []), *_list_places(cwd, PI_FILE), *_list_places(cwd, PROJECT_FILE)]


def _list_places(cwd: Path, name: str) -> Iterator[Path]:
    for folder in (cwd, *cwd.parents):
        yield folder / name
        if os.path.exists(folder / ".git"):
            return


def _find_nearest(cwd: Path, name: str, files: list[SettingsFile]) -> Path | None:
    """Find a file of this name here or in a parent folder, up to the repository's root."""
    own = find_user_file()
    for path in _list_places(cwd, name):
        if os.path.isfile(path) and path != own:
            files.append(SettingsFile(format_path(path), exists=True))
            return path
    files.append(SettingsFile(format_path(cwd / name), exists=False))
    return None


def _read_environment(problems: list[str]) -> Iterator[tuple[str, Any]]:
    for name, kind in _KINDS.items():
        variable = f"TASUKI_{name.upper()}"
        text = os.environ.get(variable)
        if text is None:
            continue
        if name == "providers":
            problems.append(
                f"{variable} is ignored: write [providers.NAME] in {_format_user_file()}."
            )
        else:
            yield name, validation.parse_value(variable, text, kind)


def list_alerts(settings: Settings) -> str:
    """Return the kinds of events of the fleet that are sent, in words."""
    words = settings.notify_about.split()
    return " ".join(kind for kind in ALERTS if kind in words or ALL in words)


def _validate(settings: Settings, sources: Mapping[str, str]) -> Settings:
    if other := [word for word in settings.notify_about.split() if word not in (ALL, *ALERTS)]:
        raise ConfigInvalid(
            f"{sources['notify_about']}: notify_about knows no {validation.format_value(other[0])}. "
            f"Words: {' '.join((ALL, *ALERTS))}."
        )
    if settings.public_url or settings.proxy or settings.proxy_user_header:
        from tasuki.config.outside import PARSERS

        for name, parse in PARSERS.items():
            try:
                if text := getattr(settings, name):
                    parse(text)
            except ValueError as error:
                raise ConfigInvalid(f"{_format_setting(sources[name], name)} {error}") from error
    for name, kind in _KINDS.items():
        if kind is not int:
            continue
        value = getattr(settings, name)
        least, most, unit = BOUNDS.get(name, (0, None, ""))
        bound = ""
        if value < least:
            bound = f"be at least {least} {unit}" if unit else "not be negative"
        elif most is not None and value > most:
            bound = f"be at most {most} {unit}"
        if bound:
            setting = _format_setting(sources[name], name)
            raise ConfigInvalid(f"{setting} must {bound}; it is {value}.")
    return settings


def _format_setting(source: str, name: str) -> str:
    """Format a setting as it was given: by a flag, a variable or a file."""
    if source == "flag":
        return f"--{'author-model' if name == 'model' else name.replace('_', '-')}"
    variable = f"TASUKI_{name.upper()}"
    return variable if source.endswith(variable) else f"{source}: {name}"


def _format_user_file() -> str:
    own = find_user_file()
    return format_path(own) if own else "the file that TASUKI_CONFIG names"


VARIABLE_PREFIX = "TASUKI_"
OTHER_VARIABLES = frozenset({
    "DATA", "CONFIG", "DATABASE_URL", "AGENT_TOKEN", "INSTALLED", "INSIDE", "PROGRESS", "TRACEBACK",
    "TEST_CACHE", "CORPORA", "CORPUS", "E2E", "ARTEFACTS", "WRITE_GOLDEN",
})  # fmt: skip
"""Variables that are no settings: the program's own, and those of its scripts and tests."""


def list_unknown_variables() -> Iterator[tuple[str, str]]:
    """Yield each variable that tasuki does not know, and a sentence about it."""
    import difflib

    settings = [name.upper() for name in Settings.__struct_fields__]
    for variable in sorted(os.environ):
        name = variable.removeprefix(VARIABLE_PREFIX)
        if name != variable and name not in OTHER_VARIABLES and name not in settings:
            near = difflib.get_close_matches(name, (*settings, "DATA", "CONFIG"), n=1, cutoff=0.65)
            hint = (
                f" Did you mean {VARIABLE_PREFIX}{near[0]}?" if near else " Settings: tasuki config"
            )
            yield (
                variable,
                f"{variable} is set in the environment, but tasuki does not know it.{hint}",
            )
