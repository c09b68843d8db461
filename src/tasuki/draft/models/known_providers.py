"""Where a provider is, and its key: from its known variables, else from the user's files.

An address and its key come from one place: a key is never sent to an address that another
place names.
"""

import os
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from tasuki.config.settings import Provider
from tasuki.config.validation import is_local
from tasuki.draft.models import provider_files as files
from tasuki.draft.models.provider_files import (
    ProviderApi,
    ProviderPlace,
    explain_no_key,
    read_key_variable,
)


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
    if not alias or provider in tables or files.read_pi(provider, "") or files.read_codex(provider):
        return provider
    return alias


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
    pi_place = files.read_pi(provider, model)
    if pi_place and (pi_place.base_url or (known and known.base_url)):
        yield (
            pi_place
            if pi_place.base_url
            else replace(pi_place, base_url=known.base_url if known else "")
        )
    if codex_place := files.read_codex(provider):
        yield codex_place
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
    return found.with_usable_url(_add_version(url) if known.local else url)


def _add_version(url: str) -> str:
    """Return an address with `/v1`: programs write that of a local server with or without it."""
    url = url.rstrip("/")
    return url if url.count("/") > 2 else f"{url}/v1"


def _read_table(provider: str, table: Provider, known: KnownProvider | None) -> ProviderPlace:
    """Return what the user's own table says. If it names a variable, only that counts."""
    where = f"providers.{provider}"
    names = (table.key_env,) if table.key_env else known.keys if known else ()
    name = next((name for name in names if read_key_variable(name)), "")
    url = table.base_url or (known.base_url if known else "")
    missing = "" if name else ", ".join(map(explain_no_key, names))
    if not url and not (known and known.api == "pydantic"):
        name, missing = "", f"{where} has no base_url"
    return ProviderPlace(
        where=where,
        api=table.api or _choose_api(table, known),
        base_url=url,
        key=read_key_variable(name),
        key_from=name,
        bearer=name == "ANTHROPIC_AUTH_TOKEN",
        missing=missing,
        keyless=bool(url) and not table.key_env,
    )


def _choose_api(table: Provider, known: KnownProvider | None) -> ProviderApi:
    """Return the API of a custom address: OpenAI's, unless its name says otherwise."""
    if known and (not table.base_url or known.api in ("anthropic", "google")):
        return known.api
    return "openai"
