"""Which model is asked, where, and with which key; decided without loading a model library.

A model is named `provider/model-id`; only the first slash separates. Its provider is looked
up in the user's `[providers.NAME]`, in the provider's known variables, and in the user's
files of pi, in this order (`list_places`). A repository's wishes are used only if the user
allows it.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tasuki.config import settings as config
from tasuki.config.settings import LoadedSettings, ModelChoice, Provider
from tasuki.config.validation import is_open_http
from tasuki.draft.models.known_providers import (
    KNOWN_PROVIDERS,
    SUBSCRIPTIONS,
    KnownProvider,
    ProviderApi,
    find_table,
    list_places,
    resolve_alias,
)
from tasuki.errors import ModelUnavailable
from tasuki.patterns import compile_pattern

NO_MODEL = "No model selected."
"""The start of every error of this module."""
THREAD_MODEL = "the thread's own model"
_BARE_NAMES = (
    ("anthropic", compile_pattern(r"claude-")),
    ("openai", compile_pattern(r"(?:gpt-(?!oss)|chatgpt-|codex-|o[0-9](?:-|$))")),
    ("google", compile_pattern(r"gemini-")),
)
"""The provider of a model name without a provider."""
_PROVIDER = compile_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ID = compile_pattern(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._:/@+~-]{0,199}")


class ModelEndpoint(Struct, frozen=True):
    """A model that can be asked. Its `repr` does not show the key."""

    provider: str
    model: str
    """Id as the endpoint knows it."""
    api: ProviderApi
    """`pydantic`: pydantic-ai finds address and key itself from `provider:model`."""
    base_url: str = ""
    """Empty for the library's default."""
    key: str = ""
    """Empty where none is needed; then none of the environment may be sent either."""
    bearer: bool = False
    """The key goes as a bearer token, not as the API's own key header (Anthropic alone)."""
    window: int = 0
    """Tokens that a request may have; never 0 after `resolve`."""
    json_schema: bool = True
    source: str = ""
    """Where the model and its key came from."""
    notes: tuple[str, ...] = ()
    """What the user should know before a thread is sent there."""

    def __repr__(self) -> str:
        key = "…" if self.key else "none"
        return f"Endpoint({self.provider}/{self.model}, {self.api}, {self.base_url!r}, key {key})"

    __str__ = __repr__


class ModelName(Struct, frozen=True):
    """A model by name, and its source; all empty if none was named."""

    provider: str = ""
    model: str = ""
    why: str = ""


def resolve_endpoint(loaded: LoadedSettings, current: str) -> ModelEndpoint:
    """Return the model that the settings mean, ready for requests.

    `current` is the thread's own model as it is recorded, empty if none is.
    Raises ModelUnavailable, which says what was looked for and what to set.
    """
    name, notes = choose_model(loaded, current)
    try:
        _check_name(name, loaded)
        found = _find_endpoint(name, loaded)
    except ModelUnavailable as error:
        raise ModelUnavailable(" ".join((str(error), *notes))) from None
    return replace(found, notes=(*notes, *_warn_unencrypted(found, loaded)))


# -- which model -----------------------------------------------------------------------


def choose_model(loaded: LoadedSettings, current: str) -> tuple[ModelName, tuple[str, ...]]:
    """The intended model, and notes on wishes that were refused. The strongest source decides.

    The name has no provider if that is not known, and no model if none is meant.
    """
    named = current.removesuffix("[1m]").removeprefix("models/")
    thread_model = split_model_name(named, THREAD_MODEL, loaded)
    settings = loaded.settings
    only = ModelChoice("settings", current=settings.use_current_model)
    if settings.model:
        only = ModelChoice("settings", model=settings.model)
    choices = [
        (choice, split_model_name(choice.model, f"the model ({choice.source})", loaded))
        for choice in loaded.choices or (only,)
    ]
    may_use = _list_allowed(loaded, choices, thread_model)
    notes: list[str] = []
    not_current = False
    for choice, name in choices:
        takes_current = bool(choice.current) and not not_current
        name = thread_model if takes_current else name
        if not choice.own and name.model and name.provider not in may_use:
            notes.append(_describe_refusal(choice, name))
            continue
        if takes_current or name.model:
            return name, tuple(notes)
        not_current = not_current or choice.current is False
    return ModelName() if not_current else thread_model, tuple(notes)


def _list_allowed(
    loaded: LoadedSettings,
    choices: Sequence[tuple[ModelChoice, ModelName]],
    thread_model: ModelName,
) -> set[str]:
    """Providers of which a repository may choose a model: those that the user uses anyway."""
    own = [(choice, name) for choice, name in choices if choice.own]
    allowed = {*loaded.settings.providers, *(name.provider for choice, name in own if choice.model)}
    if not any(choice.current is False for choice, _ in own):
        allowed.add(thread_model.provider)
    return allowed - {""}


def _describe_refusal(choice: ModelChoice, name: ModelName) -> str:
    wish = f"the model {name.model!r}" if choice.model else THREAD_MODEL
    if not name.provider:
        return f"{choice.source} asks for {wish}, which is not used: it names no provider."
    return (
        f"{choice.source} asks for {wish} of {name.provider}, which is not used: a repository may only choose "
        "among the providers that you use, the thread's own and those in your file. "
        f"To allow it, write [providers.{name.provider}] in {_describe_own_file()}."
    )


def split_model_name(text: str, why: str, loaded: LoadedSettings) -> ModelName:
    """Split `provider/model-id`, or find the provider of a bare model name, if it is known."""
    provider, slash, model = text.strip().partition("/")
    if slash and not _PROVIDER.fullmatch(provider):
        return ModelName("", text, why)
    if slash:
        return ModelName(resolve_alias(provider, loaded.settings.providers), model, why)
    bare = provider
    owner = next((name for name, shape in _BARE_NAMES if shape.match(bare)), "")
    if owner == "anthropic":  # others write claude-sonnet-4.5
        bare = re.sub(r"(?<=-[0-9])\.(?=[0-9])", "-", bare)
    return ModelName(owner, bare, why)


def _check_name(name: ModelName, loaded: LoadedSettings) -> None:
    """Raise ModelUnavailable if this names no model."""
    message = f"{NO_MODEL} {_capitalize(name.why)} is {name.model[:80]!r}"
    if not name.why:
        message = f"{NO_MODEL} The thread's own model is excluded, and no other is named."
    elif not name.model and name.why == THREAD_MODEL:
        message = f"{NO_MODEL} The thread does not record which model it used."
    elif not name.provider:
        message += (
            ", which names no provider. Write provider/model-id, such as anthropic/claude-3-haiku."
        )
    elif not _ID.fullmatch(name.model):
        message += f" of {name.provider}, which cannot be the name of a model."
    else:
        return
    raise ModelUnavailable(f"{message} {_explain_setting(loaded)}")


# -- where it is, and the key ----------------------------------------------------------


def _find_endpoint(name: ModelName, loaded: LoadedSettings) -> ModelEndpoint:
    known = KNOWN_PROVIDERS.get(name.provider)
    table = find_table(name.provider, loaded.settings.providers)
    missing: list[str] = []
    for found in list_places(name.provider, name.model, table):
        if not (found.key or found.keyless):
            missing.append(found.missing)
            continue
        by_table, by_name = table or Provider(), known or KnownProvider()
        own_address = found.base_url != by_name.base_url
        return ModelEndpoint(
            provider=by_name.name or name.provider,
            model=name.model,
            api=found.api or by_name.api,
            base_url=found.base_url,
            key=found.key if by_name.api != "pydantic" or found.base_url else "",
            bearer=found.bearer,
            window=by_table.window or found.window or loaded.settings.model_window,
            json_schema=by_table.json_schema and (own_address or by_name.json_schema),
            source=f"{name.why}, {f'key from {found.key_from}' if found.key else 'without a key'}",
        )
    raise ModelUnavailable(_explain_missing(name, loaded, missing))


def _warn_unencrypted(found: ModelEndpoint, loaded: LoadedSettings) -> Iterator[str]:
    """Yield a warning if a key is sent unencrypted, unless the settings already warned of it."""
    table = find_table(found.provider, loaded.settings.providers)
    is_warned = table and table.base_url and table.key_env
    if found.key and not is_warned and is_open_http(found.base_url):
        yield f"The key and the thread go unencrypted to {found.base_url}. Use https://."


# -- why there is none -----------------------------------------------------------------


def _explain_missing(name: ModelName, loaded: LoadedSettings, missing: list[str]) -> str:
    provider, model = name.provider, f"{name.provider}/{name.model}"
    begin = f"{NO_MODEL} {_capitalize(name.why)} is {model}"
    looked = "; ".join(filter(None, missing))
    if provider in SUBSCRIPTIONS and not looked:
        same = SUBSCRIPTIONS[provider]
        instead = f' With your own key: model = "{same}/{name.model}".' if same else ""
        return f"{begin}, and {provider} is a subscription: its tokens are not used.{instead} {_explain_setting(loaded)}"
    if looked:
        return f"{begin}, and no key for {provider} was found: {looked}. {_explain_setting(loaded)}"
    import difflib

    near = difflib.get_close_matches(provider, (*KNOWN_PROVIDERS, *loaded.settings.providers), n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return (
        f"{begin}, and no address of {provider} is known.{hint} Write base_url and key_env under "
        f"[providers.{provider}] in {_describe_own_file()}. {_explain_setting(loaded)}"
    )


def _explain_setting(loaded: LoadedSettings) -> str:
    others = ", ".join(list_usable(loaded))
    found = f" (keys were found for {others})" if others else ""
    return (
        f'To name another{found}: model = "provider/model-id" in {_describe_own_file()}, or TASUKI_MODEL. '
        "Without a model: --author offline."
    )


def list_usable(loaded: LoadedSettings) -> list[str]:
    """Return providers that could be asked, from the environment and the user's own file alone."""
    tables = loaded.settings.providers
    return [
        provider
        for provider in sorted({*KNOWN_PROVIDERS, *tables})
        if (found := next(list_places(provider, "", find_table(provider, tables)), None))
        and (found.key or (found.keyless and provider in tables))
    ]


def _describe_own_file() -> str:
    own = config.find_user_file()
    return config.format_path(own) if own else "the file that TASUKI_CONFIG names"


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
