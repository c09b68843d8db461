"""Read from the user's own files of pi and Codex which models they ask, and with which key.

These files are only read. A key that a command prints is not used, since no command is ever
run to get one; neither are the tokens of a subscription. Formats: pi 1.5 `models.json` and
`auth.json` (its docs/models-configuration.md, docs/providers.md), Codex 0.169
`config.toml`. omp's `models.yml` is not read.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from tasuki.config import settings
from tasuki.config.validation import is_plain_url
from tasuki.paths import expand_user

ProviderApi = Literal["openai", "responses", "anthropic", "google", "pydantic"]
MAX_FILE = 5_000_000
"""Bytes; longer files are not read."""


_APIS: Mapping[str, ProviderApi] = {
    "openai-completions": "openai",
    "openai-responses": "responses",
    "anthropic-messages": "anthropic",
    "google-generative-ai": "google",
}


class ProviderPlace(Struct, frozen=True):
    """What one place says about a provider; empty where it says nothing. Its `repr` has no key."""

    where: str = ""
    api: ProviderApi | None = None
    base_url: str = ""
    key: str = ""
    key_from: str = ""
    bearer: bool = False
    window: int = 0
    missing: str = ""
    """Why there is no key."""
    keyless: bool = False
    """The address is asked without a key."""

    def __repr__(self) -> str:
        return f"Found({self.where!r}, {self.api}, {self.base_url!r}, key of {self.key_from!r})"

    def with_usable_url(self, url: str) -> "ProviderPlace":
        """Return the same with the address, but without the key if the address cannot be used."""
        if not url or is_plain_url(url):
            return replace(self, base_url=url.rstrip("/"))
        why = f"the address in {self.where} is none, or holds a password or a query"
        return replace(self, base_url="", key="", keyless=False, missing=why)


def read_key_variable(name: str) -> str:
    """Return the key in an environment variable, or an empty string."""
    return _clean_key(os.environ.get(name, ""))


def explain_no_key(name: str) -> str:
    """Return what is wrong with a variable in which no key was found."""
    if os.environ.get(name, "").strip():
        return f"{name} holds no key that can be used"
    return f"{name} is not set"


def _clean_key(text: str) -> str:
    """Return a key without surrounding blanks.

    Return nothing if it does not look like a key, or is one of a subscription.
    """
    text = text.strip()
    return text if re.fullmatch(r"[!-~]+", text) and not text.startswith("sk-ant-oat") else ""


# -- pi --------------------------------------------------------------------------------


def read_pi(provider: str, model: str) -> ProviderPlace | None:
    """Return what the user's pi files say about a provider, None if they do not name it."""
    folder = _find_folder("PI_CODING_AGENT_DIR", ".pi/agent")
    if not folder:
        return None
    providers = _ensure_dict(_read_json(folder / "models.json").get("providers"))
    stored = _ensure_dict(_read_json(folder / "auth.json").get(provider))
    if provider not in providers and not stored:
        return None
    where = settings.format_path(folder / "models.json")
    about = _ensure_dict(providers.get(provider))
    entries = about.get("models")
    entries = [_ensure_dict(m) for m in entries] if isinstance(entries, list) else []
    model_entry: Mapping[str, Any] = next((m for m in entries if m.get("id") == model), {})
    model_entry = {
        **_ensure_dict(_ensure_dict(about.get("modelOverrides")).get(model)),
        **model_entry,
    }
    key, key_from, missing = _read_pi_key(
        about, stored, where, settings.format_path(folder / "auth.json")
    )
    url = _get_text(model_entry, "baseUrl") or _get_text(about, "baseUrl")
    api = _APIS.get(_get_text(model_entry, "api") or _get_text(about, "api"))
    window = model_entry.get("contextWindow")
    return ProviderPlace(
        where,
        api=api,
        key=key,
        key_from=key_from,
        bearer=about.get("authHeader") is True and api == "anthropic",
        window=window if isinstance(window, int) and window > 0 else 0,
        missing=missing,
        keyless=bool(url) and not (key or missing),
    ).with_usable_url(url.removesuffix("/v1beta") if api == "google" else url)


def _read_pi_key(
    about: Mapping[str, Any], stored: Mapping[str, Any], models: str, auth: str
) -> tuple[str, str, str]:
    """Return the key, where it came from, and why there is none; pi reads `auth.json` first."""
    missing = ""
    if stored and stored.get("type") != "api_key":
        missing = f"{auth} holds the tokens of a subscription, and those are not used"
    for where, written in ((auth, _get_text(stored, "key")), (models, _get_text(about, "apiKey"))):
        if written and not (where == auth and missing):
            key, key_from, why = _read_pi_value(written, where)
            if key:
                return key, key_from, ""
            missing = missing or why
    return "", "", missing


def _read_pi_value(written: str, where: str) -> tuple[str, str, str]:
    """Return a key as pi writes it: literally, as the name of a variable, or as a command."""
    if written.startswith("!"):
        return "", "", f"{where} has a command for the key, and no command is run to get one"
    name = written.removeprefix("$").removeprefix("{").removesuffix("}")
    named = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
    if named and (written.startswith("$") or name in os.environ):
        return (
            read_key_variable(name),
            f"{name}, which {where} names",
            f"{where}: {explain_no_key(name)}",
        )
    if named and re.fullmatch(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+", name):
        return "", "", f"{where}: {explain_no_key(name)}"
    if "$" in written:
        return "", "", f"{where} puts the key together from variables, and that is not read"
    return _clean_key(written), where, f"the key in {where} is none that can be sent"


# -- Codex -----------------------------------------------------------------------------


def read_codex_provider() -> str:
    """Return the provider that the user's Codex asks, empty for its own default."""
    return _get_text(_read_codex_config()[1], "model_provider")


def read_codex(provider: str) -> ProviderPlace | None:
    """Return what the user's Codex says about one of its `model_providers`, or None."""
    where, document = _read_codex_config()
    about = _ensure_dict(_ensure_dict(document.get("model_providers")).get(provider))
    url = _get_text(about, "base_url")
    if not url:
        return None
    name = _get_text(about, "env_key")
    if not name and about.get("requires_openai_auth") is True:
        name = "OPENAI_API_KEY"
    key = read_key_variable(name) if name else ""
    return ProviderPlace(
        where,
        api="openai" if about.get("wire_api") == "chat" else "responses",
        key=key,
        key_from=f"{name}, which {where} names",
        missing=f"{where}: {explain_no_key(name)}" if name and not key else "",
        keyless=not name,
    ).with_usable_url(url)


def _read_codex_config() -> tuple[str, Mapping[str, Any]]:
    import tomllib

    folder = _find_folder("CODEX_HOME", ".codex")
    if not folder:
        return "", {}
    path = folder / "config.toml"
    try:
        return settings.format_path(path), tomllib.loads(_read_content(path).decode())
    except (ValueError, RecursionError):
        return settings.format_path(path), {}


# -- files -----------------------------------------------------------------------------


def _find_folder(name: str, below_home: str) -> Path | None:
    configured = os.environ.get(name)
    if configured:
        return expand_user(configured, name)
    own = settings.find_home()
    return own / below_home if own else None


def _read_content(path: Path) -> bytes:
    """Return the content of a file; nothing if it cannot be read or is too long.

    Also nothing if the path is not a file.
    """
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            content = file.read(MAX_FILE + 1)
    except (OSError, ValueError):
        return b""
    return content if len(content) <= MAX_FILE else b""


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        return _ensure_dict(json.loads(_read_content(path) or b"{}"))
    except (ValueError, RecursionError):
        return {}


def _ensure_dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _get_text(about: Mapping[str, Any], key: str) -> str:
    value = about.get(key)
    return value.strip() if isinstance(value, str) else ""
