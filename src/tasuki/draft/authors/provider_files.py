"""Where the user's own files of pi and of Codex say that models are asked, and with which key.

These files are only read. A key that a command prints is not used, since nothing is ever run to get
one, nor are the tokens of a subscription.
Formats: pi 1.5 `models.json` and `auth.json` (its docs/models-configuration.md, docs/providers.md),
Codex 0.169 `config.toml`. omp's `models.yml` is not read.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from tasuki import config
from tasuki.paths import expand_user
from tasuki.setting import is_plain_url

Api = Literal["openai", "responses", "anthropic", "google", "pydantic"]
MAX_FILE = 5_000_000
"""Bytes; what is longer is not read."""


_APIS: Mapping[str, Api] = {
    "openai-completions": "openai",
    "openai-responses": "responses",
    "anthropic-messages": "anthropic",
    "google-generative-ai": "google",
}


class Found(Struct, frozen=True):
    """What one place says about a provider; empty where it says nothing. Its `repr` has no key."""

    where: str = ""
    api: Api | None = None
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

    def kept(self, url: str) -> "Found":
        """The same, without the key if its address is one that cannot be used."""
        if not url or is_plain_url(url):
            return replace(self, base_url=url.rstrip("/"))
        why = f"the address in {self.where} is none, or holds a password or a query"
        return replace(self, base_url="", key="", keyless=False, missing=why)


def variable(name: str) -> str:
    """The key that a variable of the environment holds, or nothing."""
    return _sendable(os.environ.get(name, ""))


def why_no_key(name: str) -> str:
    """What is wrong with a variable in which no key was found."""
    if os.environ.get(name, "").strip():
        return f"{name} holds no key that can be used"
    return f"{name} is not set"


def _sendable(text: str) -> str:
    """A key without blanks around it; nothing if no key looks like that, or a subscription's does."""
    text = text.strip()
    return text if re.fullmatch(r"[!-~]+", text) and not text.startswith("sk-ant-oat") else ""


# -- pi --------------------------------------------------------------------------------


def pi(provider: str, model: str) -> Found | None:
    """What the user's own files of pi say about a provider, None if they do not name it."""
    folder = _folder("PI_CODING_AGENT_DIR", ".pi/agent")
    if not folder:
        return None
    providers = _dict(_json(folder / "models.json").get("providers"))
    stored = _dict(_json(folder / "auth.json").get(provider))
    if provider not in providers and not stored:
        return None
    where = config.tilde(folder / "models.json")
    about = _dict(providers.get(provider))
    entries = about.get("models")
    entries = [_dict(m) for m in entries] if isinstance(entries, list) else []
    of_model: Mapping[str, Any] = next((m for m in entries if m.get("id") == model), {})
    of_model = {**_dict(_dict(about.get("modelOverrides")).get(model)), **of_model}
    key, key_from, missing = _pi_key(about, stored, where, config.tilde(folder / "auth.json"))
    url = _text(of_model, "baseUrl") or _text(about, "baseUrl")
    api = _APIS.get(_text(of_model, "api") or _text(about, "api"))
    window = of_model.get("contextWindow")
    return Found(
        where,
        api=api,
        key=key,
        key_from=key_from,
        bearer=about.get("authHeader") is True and api == "anthropic",
        window=window if isinstance(window, int) and window > 0 else 0,
        missing=missing,
        keyless=bool(url) and not (key or missing),
    ).kept(url.removesuffix("/v1beta") if api == "google" else url)


def _pi_key(
    about: Mapping[str, Any], stored: Mapping[str, Any], models: str, auth: str
) -> tuple[str, str, str]:
    """The key, where it came from, and why there is none; pi asks `auth.json` first."""
    missing = ""
    if stored and stored.get("type") != "api_key":
        missing = f"{auth} holds the tokens of a subscription, and those are not used"
    for where, written in ((auth, _text(stored, "key")), (models, _text(about, "apiKey"))):
        if written and not (where == auth and missing):
            key, key_from, why = _pi_value(written, where)
            if key:
                return key, key_from, ""
            missing = missing or why
    return "", "", missing


def _pi_value(written: str, where: str) -> tuple[str, str, str]:
    """A key as pi writes it: to the letter, as the name of a variable, or as a command."""
    if written.startswith("!"):
        return "", "", f"{where} has a command for the key, and no command is run to get one"
    name = written.removeprefix("$").removeprefix("{").removesuffix("}")
    named = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
    if named and (written.startswith("$") or name in os.environ):
        return variable(name), f"{name}, which {where} names", f"{where}: {why_no_key(name)}"
    if named and re.fullmatch(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+", name):
        return "", "", f"{where}: {why_no_key(name)}"
    if "$" in written:
        return "", "", f"{where} puts the key together from variables, and that is not read"
    return _sendable(written), where, f"the key in {where} is none that can be sent"


# -- Codex -----------------------------------------------------------------------------


def codex_provider() -> str:
    """The provider that the user's Codex asks, empty for its own default."""
    return _text(_codex()[1], "model_provider")


def codex(provider: str) -> Found | None:
    """What the user's Codex says about one of its `model_providers`, None if it names no such."""
    where, document = _codex()
    about = _dict(_dict(document.get("model_providers")).get(provider))
    url = _text(about, "base_url")
    if not url:
        return None
    name = _text(about, "env_key")
    if not name and about.get("requires_openai_auth") is True:
        name = "OPENAI_API_KEY"
    key = variable(name) if name else ""
    return Found(
        where,
        api="openai" if about.get("wire_api") == "chat" else "responses",
        key=key,
        key_from=f"{name}, which {where} names",
        missing=f"{where}: {why_no_key(name)}" if name and not key else "",
        keyless=not name,
    ).kept(url)


def _codex() -> tuple[str, Mapping[str, Any]]:
    import tomllib

    folder = _folder("CODEX_HOME", ".codex")
    if not folder:
        return "", {}
    path = folder / "config.toml"
    try:
        return config.tilde(path), tomllib.loads(_content(path).decode())
    except (ValueError, RecursionError):
        return config.tilde(path), {}


# -- files -----------------------------------------------------------------------------


def _folder(name: str, below_home: str) -> Path | None:
    given = os.environ.get(name)
    if given:
        return expand_user(given, name)
    own = config.home()
    return own / below_home if own else None


def _content(path: Path) -> bytes:
    """What a file holds; nothing if it is no file, cannot be read, or is too long."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            content = file.read(MAX_FILE + 1)
    except (OSError, ValueError):
        return b""
    return content if len(content) <= MAX_FILE else b""


def _json(path: Path) -> Mapping[str, Any]:
    try:
        return _dict(json.loads(_content(path) or b"{}"))
    except (ValueError, RecursionError):
        return {}


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(about: Mapping[str, Any], key: str) -> str:
    value = about.get(key)
    return value.strip() if isinstance(value, str) else ""
