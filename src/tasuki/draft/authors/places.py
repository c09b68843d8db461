"""Where a provider is, and its key: of the known ones by their variables, else from the user's files.

An address and its key come from one place: a key is never sent to an address that another names.
"""

import os
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from tasuki.config import Provider
from tasuki.draft.authors import provider_files as files
from tasuki.draft.authors.provider_files import Api, Found, variable, why_no_key
from tasuki.setting import is_local


class Known(Struct, frozen=True):
    """A provider that needs no settings: how it is spoken to, and the variables it is known by."""

    api: Api = "openai"
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


KNOWN: Mapping[str, Known] = {
    "anthropic": Known("anthropic", "https://api.anthropic.com", keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), bases=("ANTHROPIC_BASE_URL",)),
    "openai": Known("responses", "https://api.openai.com/v1", keys=("OPENAI_API_KEY",), bases=("OPENAI_BASE_URL",)),
    "google": Known("google", "https://generativelanguage.googleapis.com", keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"), bases=("GOOGLE_GEMINI_BASE_URL",)),
    "openrouter": Known(base_url="https://openrouter.ai/api/v1", keys=("OPENROUTER_API_KEY",)),
    "groq": Known(base_url="https://api.groq.com/openai/v1", keys=("GROQ_API_KEY",)),
    "mistral": Known(base_url="https://api.mistral.ai/v1", keys=("MISTRAL_API_KEY",)),
    "xai": Known(base_url="https://api.x.ai/v1", keys=("XAI_API_KEY",)),
    "deepseek": Known(base_url="https://api.deepseek.com", keys=("DEEPSEEK_API_KEY",), json_schema=False),
    "cerebras": Known(base_url="https://api.cerebras.ai/v1", keys=("CEREBRAS_API_KEY",)),
    "together": Known(base_url="https://api.together.xyz/v1", keys=("TOGETHER_API_KEY",)),
    "fireworks": Known(base_url="https://api.fireworks.ai/inference/v1", keys=("FIREWORKS_API_KEY",)),
    "huggingface": Known(base_url="https://router.huggingface.co/v1", keys=("HF_TOKEN",)),
    "moonshotai": Known(base_url="https://api.moonshot.ai/v1", keys=("MOONSHOT_API_KEY", "MOONSHOTAI_API_KEY")),
    "nebius": Known(base_url="https://api.studio.nebius.com/v1", keys=("NEBIUS_API_KEY",)),
    "sambanova": Known(base_url="https://api.sambanova.ai/v1", keys=("SAMBANOVA_API_KEY",)),
    "vercel-ai-gateway": Known(base_url="https://ai-gateway.vercel.sh/v1", keys=("AI_GATEWAY_API_KEY", "VERCEL_AI_GATEWAY_API_KEY")),
    "ollama": Known(base_url="http://127.0.0.1:11434/v1", keys=("OLLAMA_API_KEY",), bases=("OLLAMA_BASE_URL",), local=True),
    "lmstudio": Known(base_url="http://127.0.0.1:1234/v1", bases=("LMSTUDIO_BASE_URL",), local=True),
    "amazon-bedrock": Known("pydantic", keys=("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"), name="bedrock"),
    "azure": Known("pydantic", keys=("AZURE_OPENAI_API_KEY",)),
    "cohere": Known("pydantic", keys=("CO_API_KEY",)),
    "google-vertex": Known("pydantic", keys=("GOOGLE_CLOUD_PROJECT", "GOOGLE_APPLICATION_CREDENTIALS"), name="google-cloud"),
}  # fmt: skip
"""Addresses as their own documentation and pydantic-ai 2.60 have them."""
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
"""Providers that are paid by a subscription, and where the same models are had for a key."""


def canonical(provider: str, tables: Mapping[str, Provider]) -> str:
    """The name of a provider that programs call by several, unless the user has one so called."""
    alias = ALIASES.get(provider.lower())
    if not alias or provider in tables or files.pi(provider, "") or files.codex(provider):
        return provider
    return alias


def table_of(provider: str, tables: Mapping[str, Provider]) -> Provider | None:
    """The user's own table of a provider, under this name or another that means the same."""
    same = (table for name, table in tables.items() if ALIASES.get(name) == provider)
    return tables.get(provider) or next(same, None)


def places(provider: str, model: str, table: Provider | None) -> Iterator[Found]:
    """What each place says about a provider, the first that counts first.

    `table` is the user's own; if it names an address or a key's variable, it counts alone.
    """
    known = KNOWN.get(provider)
    if table and (table.base_url or table.key_env):
        yield _of_table(provider, table, known)
        return
    if known:
        yield _of_environment(known)
    of_pi = files.pi(provider, model)
    if of_pi and (of_pi.base_url or (known and known.base_url)):
        yield of_pi if of_pi.base_url else replace(of_pi, base_url=known.base_url if known else "")
    if of_codex := files.codex(provider):
        yield of_codex
    if known and known.local:
        yield Found(api=known.api, base_url=known.base_url, keyless=True)


def _of_environment(known: Known) -> Found:
    """The key that a variable of a known provider holds, and the address that another names.

    At an address of its own Anthropic's token goes before the key, as in Claude Code: the key is
    more likely that of Anthropic itself.
    """
    at = next((name for name in known.bases if os.environ.get(name, "").strip()), "")
    url = os.environ[at].strip() if at else known.base_url
    keys = known.keys[::-1] if at and known.api == "anthropic" else known.keys
    name = next((name for name in keys if variable(name)), "")
    found = Found(
        where=at or "the environment",
        api="openai" if at and known.api == "responses" else known.api,
        key=variable(name),
        key_from=name,
        bearer=name == "ANTHROPIC_AUTH_TOKEN",
        missing="" if name else ", ".join(map(why_no_key, known.keys)),
        keyless=bool(at) and not name and (known.local or is_local(url)),
    )
    return found.kept(_with_version(url) if known.local else url)


def _with_version(url: str) -> str:
    """Programs write the address of a local server with `/v1` or without."""
    url = url.rstrip("/")
    return url if url.count("/") > 2 else f"{url}/v1"


def _of_table(provider: str, table: Provider, known: Known | None) -> Found:
    """What the user's own table says. The variable that it names counts alone."""
    where = f"providers.{provider}"
    names = (table.key_env,) if table.key_env else known.keys if known else ()
    name = next((name for name in names if variable(name)), "")
    url = table.base_url or (known.base_url if known else "")
    missing = "" if name else ", ".join(map(why_no_key, names))
    if not url and not (known and known.api == "pydantic"):
        name, missing = "", f"{where} has no base_url"
    return Found(
        where=where,
        api=table.api or _api_of(table, known),
        base_url=url,
        key=variable(name),
        key_from=name,
        bearer=name == "ANTHROPIC_AUTH_TOKEN",
        missing=missing,
        keyless=bool(url) and not table.key_env,
    )


def _api_of(table: Provider, known: Known | None) -> Api:
    """How an address of the user's own is spoken to: as OpenAI's, unless its name says more."""
    if known and (not table.base_url or known.api in ("anthropic", "google")):
        return known.api
    return "openai"
