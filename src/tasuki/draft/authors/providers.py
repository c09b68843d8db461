"""Which model is asked, where, and with which key: decided without loading any model library.

A model is named `provider/model-id`; only the first slash separates. Its provider is looked up in
the user's `[providers.NAME]`, in the variables it is known by, in the user's own files of pi and of
Codex, in this order (`places`). What a repository wishes for is used only where the user lets it.
"""

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from tasuki import config
from tasuki.config import Loaded, ModelChoice, Provider
from tasuki.draft.authors import provider_files as files
from tasuki.draft.authors.places import KNOWN, SUBSCRIPTIONS, Known, canonical, places, table_of
from tasuki.draft.authors.provider_files import Api, Found
from tasuki.errors import ModelUnavailable
from tasuki.setting import is_open_http

NONE = "No model selected."
"""How every error of this module begins."""
THREADS_OWN = "the thread's own model"
_BARE = (
    ("anthropic", re.compile(r"claude-")),
    ("openai", re.compile(r"(?:gpt-(?!oss)|chatgpt-|codex-|o[0-9](?:-|$))")),
    ("google", re.compile(r"gemini-")),
)
"""Whose model a name without a provider is."""
_PROVIDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ID = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._:/@+~-]{0,199}")


class Endpoint(Struct, frozen=True):
    """A model that can be asked. Its `repr` does not show the key."""

    provider: str
    model: str
    """Id as the endpoint knows it."""
    api: Api
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


class Name(Struct, frozen=True):
    """A model by name, and who named it; all empty if nobody did."""

    provider: str = ""
    model: str = ""
    why: str = ""


def resolve(loaded: Loaded, current: str, harness: str = "") -> Endpoint:
    """The model that the settings mean, ready to be asked.

    `current` is the thread's own model as its `harness` records it, empty if it records none.
    Raises ModelUnavailable, which says what was looked for and what to set.
    """
    name, notes = chosen(loaded, current, harness)
    try:
        _check(name, loaded)
        found = _endpoint(name, loaded)
    except ModelUnavailable as error:
        raise ModelUnavailable(" ".join((str(error), *notes))) from None
    return replace(found, notes=(*notes, *_open(found, loaded)))


# -- which model -----------------------------------------------------------------------


def chosen(loaded: Loaded, current: str, harness: str = "") -> tuple[Name, tuple[str, ...]]:
    """The model that is meant, and what was wished for in vain. The strongest source decides.

    The name has no provider if nobody knows whose the model is, and no model if none is meant.
    """
    of_thread = _of_thread(current, harness, loaded)
    may_use = _allowed(loaded, of_thread)
    notes: list[str] = []
    not_current = False
    for choice in _choices(loaded):
        takes_current = bool(choice.current) and not not_current
        name = of_thread if takes_current else _named(choice, loaded)
        if not choice.own and name.model and name.provider not in may_use:
            notes.append(_in_vain(choice, name))
            continue
        if takes_current or name.model:
            return name, tuple(notes)
        not_current = not_current or choice.current is False
    return Name() if not_current else of_thread, tuple(notes)


def _choices(loaded: Loaded) -> tuple[ModelChoice, ...]:
    settings = loaded.settings
    if loaded.choices or not settings.model:
        return loaded.choices or (ModelChoice("settings", current=settings.use_current_model),)
    return (ModelChoice("settings", model=settings.model),)


def _allowed(loaded: Loaded, of_thread: Name) -> set[str]:
    """Providers that a repository may choose a model of: those that the user uses anyway."""
    allowed = set(loaded.settings.providers)
    own = [choice for choice in _choices(loaded) if choice.own]
    allowed |= {_named(choice, loaded).provider for choice in own if choice.model}
    if not any(choice.current is False for choice in own):
        allowed.add(of_thread.provider)
    return allowed - {""}


def _in_vain(choice: ModelChoice, name: Name) -> str:
    wish = f"the model {name.model!r}" if choice.model else THREADS_OWN
    if not name.provider:
        return (
            f"{choice.source} asks for {wish}, and that is not used: it does not say whose it is."
        )
    return (
        f"{choice.source} asks for {wish} of {name.provider}, and that is not used: a repository may "
        "only choose among the providers that you use, the thread's own and those of your file. "
        f"To allow it, write [providers.{name.provider}] in {_own_file()}."
    )


def _named(choice: ModelChoice, loaded: Loaded) -> Name:
    return split(choice.model, f"the model ({choice.source})", loaded)


def _of_thread(current: str, harness: str, loaded: Loaded) -> Name:
    """The thread's own model. Codex records no provider, so the one it is set to counts."""
    provider = files.codex_provider() if harness == "codex" and current else ""
    if provider and provider != "openai":
        return Name(provider, current, THREADS_OWN)
    return split(current.removesuffix("[1m]").removeprefix("models/"), THREADS_OWN, loaded)


def split(text: str, why: str, loaded: Loaded) -> Name:
    """`provider/model-id`, or a model's name alone if it tells whose it is. No provider if not."""
    provider, slash, model = text.strip().partition("/")
    if slash and not _PROVIDER.fullmatch(provider):
        return Name("", text, why)
    if slash:
        return Name(canonical(provider, loaded.settings.providers), model, why)
    bare = provider
    owner = next((name for name, shape in _BARE if shape.match(bare)), "")
    if owner == "anthropic":  # others write claude-sonnet-4.5
        bare = re.sub(r"(?<=-[0-9])\.(?=[0-9])", "-", bare)
    return Name(owner, bare, why)


def _check(name: Name, loaded: Loaded) -> None:
    """Raises ModelUnavailable if this names no model."""
    said = f"{NONE} {_upper(name.why)} is {name.model[:80]!r}"
    if not name.why:
        said = f"{NONE} The thread's own model is not wanted, and no other is named."
    elif not name.model and name.why == THREADS_OWN:
        said = f"{NONE} The thread does not record which model it had."
    elif not name.provider:
        said += ", and that does not say whose it is. Write provider/model-id, such as anthropic/claude-3-haiku."
    elif not _ID.fullmatch(name.model):
        said += f" of {name.provider}, and no model can be called that."
    else:
        return
    raise ModelUnavailable(f"{said} {_set(loaded)}")


# -- where it is, and the key ----------------------------------------------------------


def _endpoint(name: Name, loaded: Loaded) -> Endpoint:
    known = KNOWN.get(name.provider)
    table = table_of(name.provider, loaded.settings.providers)
    missing: list[str] = []
    for found in places(name.provider, name.model, table):
        if not (found.key or found.keyless):
            missing.append(found.missing)
            continue
        by_table, by_name = table or Provider(), known or Known()
        own_address = found.base_url != by_name.base_url
        return Endpoint(
            provider=by_name.name or name.provider,
            model=name.model,
            api=found.api or by_name.api,
            base_url=found.base_url,
            key=found.key if by_name.api != "pydantic" or found.base_url else "",
            bearer=found.bearer,
            window=by_table.window or found.window or loaded.settings.model_window,
            json_schema=by_table.json_schema and (own_address or by_name.json_schema),
            source=f"{name.why}, {_key_words(found)}",
        )
    raise ModelUnavailable(_why_not(name, loaded, missing))


def _open(found: Endpoint, loaded: Loaded) -> Iterator[str]:
    """A warning where a key can be read on its way, unless the settings have warned of it."""
    table = table_of(found.provider, loaded.settings.providers)
    told = table and table.base_url and table.key_env
    if found.key and not told and is_open_http(found.base_url):
        yield f"The key and the thread go unencrypted to {found.base_url}. Use https://."


def _key_words(found: Found) -> str:
    return f"key from {found.key_from}" if found.key else "without a key"


# -- why there is none -----------------------------------------------------------------


def _why_not(name: Name, loaded: Loaded, missing: list[str]) -> str:
    provider, model = name.provider, f"{name.provider}/{name.model}"
    begin = f"{NONE} {_upper(name.why)} is {model}"
    looked = "; ".join(filter(None, missing))
    if provider in SUBSCRIPTIONS and not looked:
        same = SUBSCRIPTIONS[provider]
        instead = f' With a key of your own: model = "{same}/{name.model}".' if same else ""
        return f"{begin}, and {provider} is a subscription: its tokens are not used.{instead} {_set(loaded)}"
    if looked:
        return f"{begin}, and no key for {provider} was found: {looked}. {_set(loaded)}"
    import difflib

    near = difflib.get_close_matches(provider, (*KNOWN, *loaded.settings.providers), n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return (
        f"{begin}, and nothing says where {provider} is.{hint} Write base_url and key_env under "
        f"[providers.{provider}] in {_own_file()}. {_set(loaded)}"
    )


def _set(loaded: Loaded) -> str:
    others = ", ".join(usable(loaded))
    found = f" (keys were found for {others})" if others else ""
    return (
        f'To name another{found}: model = "provider/model-id" in {_own_file()}, or TASUKI_MODEL. '
        "Without a model: --author offline."
    )


def usable(loaded: Loaded) -> list[str]:
    """Providers that could be asked, from the environment and the user's own file alone."""
    tables = loaded.settings.providers
    return [
        provider
        for provider in sorted({*KNOWN, *tables})
        if (found := next(places(provider, "", table_of(provider, tables)), None))
        and (found.key or (found.keyless and provider in tables))
    ]


def _own_file() -> str:
    own = config.user_file()
    return config.tilde(own) if own else "the file that TASUKI_CONFIG names"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
