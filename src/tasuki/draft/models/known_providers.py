"""Where a provider is, and its key: from its known variables, else from pi's files.

An address and its key come from one place: a key is never sent to an address that another
place names. pi's files are only read. A key that a command prints is not used, since no command
is ever run to get one; neither are the tokens of a subscription. Formats: pi 1.5 `models.json`
and `auth.json` (its docs/models-configuration.md, docs/providers.md).
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from tasuki.config import settings
from tasuki.config.settings import Provider
from tasuki.config.validation import is_local, is_plain_url
from tasuki.files import expand_user

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
        why = f"the value of {self.where} is not an address, or contains a password or a query"
        return replace(self, base_url="", key="", keyless=False, missing=why)


def read_key_variable(name: str) -> str:
    """Return the key in an environment variable, or an empty string."""
    return _clean_key(os.environ.get(name, ""))


def explain_no_key(name: str) -> str:
    """Return what is wrong with a variable in which no key was found."""
    if os.environ.get(name, "").strip():
        return f"{name} holds no usable key"
    return f"{name} is not set"


def _clean_key(text: str) -> str:
    """Return a key without surrounding blanks. Return nothing if it does not look like a key, or is one of a subscription."""
    text = text.strip()
    return text if re.fullmatch(r"[!-~]+", text) and not text.startswith("sk-ant-oat") else ""


# -- pi --------------------------------------------------------------------------------


def read_pi(provider: str, model: str) -> ProviderPlace | None:
    """Return what the user's pi files say about a provider, None if they do not name it."""
    name, home = "PI_CODING_AGENT_DIR", settings.find_home()
    if configured := os.environ.get(name):
        folder = expand_user(configured, name)
    elif home:
        folder = home / ".pi/agent"
    else:
        return None
    providers = _ensure_dict(_read_json(folder / "models.json").get("providers"))
    stored = _ensure_dict(_read_json(folder / "auth.json").get(provider))
    if provider not in providers and not stored:
        return None
    where = settings.format_path(folder / "models.json")
    about = _ensure_dict(providers.get(provider))
    entries = about.get("models")
    entries = [_ensure_dict(m) for m in entries] if isinstance(entries, list) else []
    overrides = _ensure_dict(_ensure_dict(about.get("modelOverrides")).get(model))
    model_entry = {**overrides, **next((m for m in entries if m.get("id") == model), {})}
    auth = settings.format_path(folder / "auth.json")
    key, key_from, missing = _read_pi_key(about, stored, where, auth)
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
        missing = f"{auth} holds the tokens of a subscription, which are not used"
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
        return "", "", f"{where} names a command for the key, and no command is run to get a key"
    name = written.removeprefix("$").removeprefix("{").removesuffix("}")
    named = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
    if named and (written.startswith("$") or name in os.environ):
        why = f"{where}: {explain_no_key(name)}"
        return read_key_variable(name), f"{name}, which {where} names", why
    if named and re.fullmatch(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+", name):
        return "", "", f"{where}: {explain_no_key(name)}"
    if "$" in written:
        return "", "", f"{where} builds the key from variables, which is not supported"
    return _clean_key(written), where, f"the key in {where} cannot be sent"


# -- files -----------------------------------------------------------------------------


def _read_json(path: Path) -> Mapping[str, Any]:
    """Return the object in a file; an empty one if there is no such file, or it is too long or not JSON."""
    try:
        if not path.is_file():
            return {}
        with path.open("rb") as file:
            content = file.read(MAX_FILE + 1)
        return _ensure_dict(json.loads(content)) if len(content) <= MAX_FILE else {}
    except (OSError, ValueError, RecursionError):
        return {}


def _ensure_dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _get_text(about: Mapping[str, Any], key: str) -> str:
    value = about.get(key)
    return value.strip() if isinstance(value, str) else ""


class KnownProvider(Struct, frozen=True):
    """A provider that needs no settings: its API, and the variables with its key and address."""

    api: ProviderApi = "openai"
    base_url: str = ""
    keys: tuple[str, ...] = ()
    """Variables that may hold the key, the first that is set counts."""
    bases: tuple[str, ...] = ()
    """Variables that may hold the address."""
    local: bool = False
    """On this machine, so it needs no key."""
    json_schema: bool = True
    name: str = ""
    """As the library names it, where that is another name."""


KNOWN_PROVIDERS: Mapping[str, KnownProvider] = {
    "anthropic": KnownProvider("anthropic", "https://api.anthropic.com", keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), bases=("ANTHROPIC_BASE_URL",)),
    "openai": KnownProvider("responses", "https://api.openai.com/v1", keys=("OPENAI_API_KEY",), bases=("OPENAI_BASE_URL",)),
    "google": KnownProvider("google", "https://generativelanguage.googleapis.com", keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"), bases=("GOOGLE_GEMINI_BASE_URL",)),
    "openrouter": KnownProvider(base_url="https://openrouter.ai/api/v1", keys=("OPENROUTER_API_KEY",)),
    "groq": KnownProvider(base_url="https://api.groq.com/openai/v1", keys=("GROQ_API_KEY",)),
    "mistral": KnownProvider(base_url="https://api.mistral.ai/v1", keys=("MISTRAL_API_KEY",)),
    "xai": KnownProvider(base_url="https://api.x.ai/v1", keys=("XAI_API_KEY",)),
    "deepseek": KnownProvider(base_url="https://api.deepseek.com", keys=("DEEPSEEK_API_KEY",), json_schema=False),
    "cerebras": KnownProvider(base_url="https://api.cerebras.ai/v1", keys=("CEREBRAS_API_KEY",)),
    "together": KnownProvider(base_url="https://api.together.xyz/v1", keys=("TOGETHER_API_KEY",)),
    "fireworks": KnownProvider(base_url="https://api.fireworks.ai/inference/v1", keys=("FIREWORKS_API_KEY",)),
    "huggingface": KnownProvider(base_url="https://router.huggingface.co/v1", keys=("HF_TOKEN",)),
    "moonshotai": KnownProvider(base_url="https://api.moonshot.ai/v1", keys=("MOONSHOT_API_KEY", "MOONSHOTAI_API_KEY")),
    "nebius": KnownProvider(base_url="https://api.studio.nebius.com/v1", keys=("NEBIUS_API_KEY",)),
    "sambanova": KnownProvider(base_url="https://api.sambanova.ai/v1", keys=("SAMBANOVA_API_KEY",)),
    "vercel-ai-gateway": KnownProvider(base_url="https://ai-gateway.vercel.sh/v1", keys=("AI_GATEWAY_API_KEY", "VERCEL_AI_GATEWAY_API_KEY")),
    "ollama": KnownProvider(base_url="http://127.0.0.1:11434/v1", keys=("OLLAMA_API_KEY",), bases=("OLLAMA_BASE_URL",), local=True),
    "lmstudio": KnownProvider(base_url="http://127.0.0.1:1234/v1", bases=("LMSTUDIO_BASE_URL",), local=True),
    "amazon-bedrock": KnownProvider("pydantic", keys=("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"), name="bedrock"),
    "azure": KnownProvider("pydantic", keys=("AZURE_OPENAI_API_KEY",)),
    "cohere": KnownProvider("pydantic", keys=("CO_API_KEY",)),
    "google-vertex": KnownProvider("pydantic", keys=("GOOGLE_CLOUD_PROJECT", "GOOGLE_APPLICATION_CREDENTIALS"), name="google-cloud"),
}  # fmt: skip
"""Addresses as in the providers' own documentation and in pydantic-ai 2.60."""
ALIASES = {
    "gemini": "google", "claude": "anthropic", "together-ai": "together", "together_ai": "together",
    "moonshot": "moonshotai", "vercel": "vercel-ai-gateway", "bedrock": "amazon-bedrock",
    "google-cloud": "google-vertex", "vertex_ai": "google-vertex", "fireworks_ai": "fireworks",
    "azure-openai-responses": "azure", "lm-studio": "lmstudio", "lm_studio": "lmstudio",
    "x-ai": "xai", "openai-responses": "openai",
}  # fmt: skip
"""Names that other programs record for the same providers."""
SUBSCRIPTIONS = {
    "openai-codex": "openai", "google-gemini-cli": "google", "google-antigravity": "google",
    "github-copilot": "", "copilot": "", "cursor": "", "opencode": "", "opencode-go": "", "radius": "",
}  # fmt: skip
"""Providers paid by subscription, and the provider that offers the same models for a key."""


def resolve_alias(provider: str, tables: Mapping[str, Provider]) -> str:
    """Return the main name of a provider with several, unless the user has one of that name."""
    alias = ALIASES.get(provider.lower())
    return alias if alias and provider not in tables and not read_pi(provider, "") else provider


def find_table(provider: str, tables: Mapping[str, Provider]) -> Provider | None:
    """Return the user's own table of a provider, under this name or an alias."""
    same = (table for name, table in tables.items() if ALIASES.get(name) == provider)
    return tables.get(provider) or next(same, None)


def list_places(provider: str, model: str, table: Provider | None) -> Iterator[ProviderPlace]:
    """Yield what each place says about a provider, in order of precedence.

    `table` is the user's own; if it names an address or a key's variable, only it counts.
    """
    known = KNOWN_PROVIDERS.get(provider)
    if table and (table.base_url or table.key_env):
        yield _read_table(provider, table, known)
        return
    if known:
        yield _read_environment(known)
    pi_place = read_pi(provider, model)
    if pi_place and (pi_place.base_url or (known and known.base_url)):
        own_url = known.base_url if known else ""
        yield pi_place if pi_place.base_url else replace(pi_place, base_url=own_url)
    if known and known.local:
        yield ProviderPlace(api=known.api, base_url=known.base_url, keyless=True)


def _read_environment(known: KnownProvider) -> ProviderPlace:
    """Return the key in a variable of a known provider, and the address in another.

    At a custom address Anthropic's token takes precedence over the key, as in Claude Code: the
    key is more likely that of Anthropic itself.
    """
    address_variable = next((name for name in known.bases if os.environ.get(name, "").strip()), "")
    url = os.environ[address_variable].strip() if address_variable else known.base_url
    keys = known.keys[::-1] if address_variable and known.api == "anthropic" else known.keys
    name = next((name for name in keys if read_key_variable(name)), "")
    found = ProviderPlace(
        where=address_variable or "the environment",
        api="openai" if address_variable and known.api == "responses" else known.api,
        key=read_key_variable(name),
        key_from=name,
        bearer=name == "ANTHROPIC_AUTH_TOKEN",
        missing="" if name else ", ".join(map(explain_no_key, known.keys)),
        keyless=bool(address_variable) and not name and (known.local or is_local(url)),
    )
    if known.local:  # Programs write that of a local server with `/v1` or without it.
        url = url.rstrip("/")
        url = url if url.count("/") > 2 else f"{url}/v1"
    return found.with_usable_url(url)


def _read_table(provider: str, table: Provider, known: KnownProvider | None) -> ProviderPlace:
    """Return what the user's own table says. If it names a variable, only that counts."""
    where = f"providers.{provider}"
    names = (table.key_env,) if table.key_env else known.keys if known else ()
    name = next((name for name in names if read_key_variable(name)), "")
    url = table.base_url or (known.base_url if known else "")
    missing = "" if name else ", ".join(map(explain_no_key, names))
    if not url and not (known and known.api == "pydantic"):
        name, missing = "", f"{where} has no base_url"
    # At a custom address it is OpenAI's, unless its name says otherwise.
    is_own = known and (not table.base_url or known.api in ("anthropic", "google"))
    return ProviderPlace(
        where=where,
        api=table.api or (known.api if known and is_own else "openai"),
        base_url=url,
        key=read_key_variable(name),
        key_from=name,
        bearer=name == "ANTHROPIC_AUTH_TOKEN",
        missing=missing,
        keyless=bool(url) and not table.key_env,
    )
