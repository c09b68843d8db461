"""Which model is asked, where, and with which key."""

import json
from pathlib import Path

import pytest
from keyless import SECRET, keyless_home, named, repository

from tasuki.config import settings
from tasuki.config.settings import LoadedSettings, Settings, load_with_sources
from tasuki.draft.models.known_providers import KNOWN_PROVIDERS
from tasuki.draft.models.providers import ModelEndpoint, resolve_endpoint
from tasuki.errors import ModelUnavailable


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a key."""
    return keyless_home(tmp_path, monkeypatch)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository without settings."""
    return repository(tmp_path)


def own_file(text: str) -> None:
    """Write the user's own settings."""
    path = settings.find_user_file()
    assert path is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def wish(project: Path, **handoff: object) -> None:
    """Write what a repository wishes for where pi's settings are."""
    (project / ".pi").mkdir(exist_ok=True)
    (project / ".pi" / "settings.json").write_text(json.dumps({"handoff": handoff}))


# -- which model -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("current", "variable", "expected"),
    [
        ("claude-sonnet-4-5-20250929", "ANTHROPIC_API_KEY", "anthropic/claude-sonnet-4-5-20250929"),
        ("claude-opus-4-6[1m]", "ANTHROPIC_API_KEY", "anthropic/claude-opus-4-6"),
        ("claude-sonnet-4.5", "ANTHROPIC_API_KEY", "anthropic/claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY", "anthropic/claude-sonnet-4-5"),
        ("gpt-5.5", "OPENAI_API_KEY", "openai/gpt-5.5"),
        ("o3", "OPENAI_API_KEY", "openai/o3"),
        ("codex-mini-latest", "OPENAI_API_KEY", "openai/codex-mini-latest"),
        ("gemini-2.5-pro", "GEMINI_API_KEY", "google/gemini-2.5-pro"),
        ("gemini/gemini-2.5-pro", "GOOGLE_API_KEY", "google/gemini-2.5-pro"),
        ("openrouter/anthropic/claude-sonnet-4.5", "OPENROUTER_API_KEY", "openrouter/anthropic/claude-sonnet-4.5"),
        ("groq/openai/gpt-oss-120b", "GROQ_API_KEY", "groq/openai/gpt-oss-120b"),
    ],
)  # fmt: skip
def test_the_threads_own_model_is_attributed(
    project: Path, monkeypatch: pytest.MonkeyPatch, current: str, variable: str, expected: str
) -> None:
    """A recorded name tells its provider; only the first slash separates."""
    monkeypatch.setenv(variable, SECRET)
    endpoint = resolve_endpoint(load_with_sources(project), current)

    assert named(endpoint) == expected
    assert endpoint.key == SECRET
    assert endpoint.source == f"the thread's own model, key from {variable}"
    assert endpoint.window == 100_000


@pytest.mark.parametrize(
    ("provider", "url"),
    [(name, known.base_url) for name, known in KNOWN_PROVIDERS.items() if known.keys],
)
def test_every_known_provider_is_found_by_its_variable(
    project: Path, monkeypatch: pytest.MonkeyPatch, provider: str, url: str
) -> None:
    """The variable alone suffices, and the address is the provider's own."""
    monkeypatch.setenv(KNOWN_PROVIDERS[provider].keys[0], SECRET)
    endpoint = resolve_endpoint(load_with_sources(project, {"model": f"{provider}/some-model"}), "")

    assert endpoint.base_url == url
    assert endpoint.api == KNOWN_PROVIDERS[provider].api
    assert endpoint.key == ("" if endpoint.api == "pydantic" else SECRET)
    assert bool(url) == (endpoint.api != "pydantic")


def test_the_strongest_source_decides_between_model_and_current(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model alone means itself; with `use_current_model` in the same source, or in a stronger
    one, the thread's own is meant."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("GROQ_API_KEY", SECRET)

    def meant() -> str:
        return named(resolve_endpoint(load_with_sources(project), "claude-x"))

    own_file('model = "groq/a"')
    assert meant() == "groq/a"
    assert load_with_sources(project).settings.use_current_model is False
    own_file('model = "groq/a"\nuse_current_model = false')
    assert meant() == "groq/a"
    own_file('model = "groq/a"\nuse_current_model = true')
    assert meant() == "anthropic/claude-x"
    monkeypatch.setenv("TASUKI_MODEL", "groq/b")
    assert meant() == "groq/b"
    monkeypatch.setenv("TASUKI_USE_CURRENT_MODEL", "1")
    assert meant() == "anthropic/claude-x"
    assert (
        named(resolve_endpoint(load_with_sources(project, {"model": "groq/c"}), "claude-x"))
        == "groq/c"
    )


def test_no_model_is_an_error_that_says_what_to_set(project: Path) -> None:
    """Neither the thread nor the settings name one, or the one that is named has no key."""
    cases = {
        "": "does not record which model it used",
        "llama3": "names no provider. Write provider/model-id",
        "gpt-5.5": "no key for openai was found: OPENAI_API_KEY is not set",
        "claude-x": "ANTHROPIC_API_KEY is not set, ANTHROPIC_AUTH_TOKEN is not set",
        "openai-codex/gpt-5.5": 'its tokens are not used. With your own key: model = "openai/gpt-5.5"',
        "opneai/gpt-5.5": "Did you mean openai?",
        "anthropic/../../x": "cannot be the name of a model",
        "evil]\n/x": "names no provider",
    }
    for current, said in cases.items():
        with pytest.raises(ModelUnavailable) as caught:
            resolve_endpoint(load_with_sources(project), current)
        assert str(caught.value).startswith("No model selected. "), current
        assert said in str(caught.value)
        assert "--author offline" in str(caught.value)
        assert "~/.config/tasuki/config.toml" in str(caught.value)


def test_not_the_current_and_no_other_is_no_model(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`use_current_model = false` alone leaves none, and the message names where keys are."""
    monkeypatch.setenv("GROQ_API_KEY", SECRET)
    own_file("use_current_model = false")

    with pytest.raises(ModelUnavailable, match=r"excluded, .*keys were found for groq"):
        resolve_endpoint(load_with_sources(project), "groq/a")


def test_settings_of_a_program_are_the_users_own() -> None:
    """Settings made by hand, without a source, are taken as they stand."""
    made = LoadedSettings(Settings(model="ollama/llama3:8b", model_window=8000))
    endpoint = resolve_endpoint(made, "claude-x")

    assert (named(endpoint), endpoint.key, endpoint.window) == ("ollama/llama3:8b", "", 8000)
    assert endpoint.base_url == "http://127.0.0.1:11434/v1"


# -- what a repository wishes for ------------------------------------------------------


def test_a_repository_chooses_among_the_threads_own_provider(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seed's settings are honoured: a faster model of the provider that has the thread."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    wish(project, useCurrentModel=False, model="anthropic/claude-3-haiku")
    endpoint = resolve_endpoint(load_with_sources(project), "claude-sonnet-4-5")

    assert named(endpoint) == "anthropic/claude-3-haiku"
    assert endpoint.source == (
        f'the model ({project}/.pi/settings.json ("handoff")), key from ANTHROPIC_API_KEY'
    )
    assert endpoint.notes == ()


def test_a_repository_cannot_choose_another_provider(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its wish is told and not followed, until the user names the provider."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("GROQ_API_KEY", SECRET)
    wish(project, useCurrentModel=False, model="groq/fast")
    refused = resolve_endpoint(load_with_sources(project), "claude-x")

    assert named(refused) == "anthropic/claude-x"
    assert len(refused.notes) == 1
    assert "asks for the model 'fast' of groq, which is not used" in refused.notes[0]
    assert "write [providers.groq] in ~/.config/tasuki/config.toml" in refused.notes[0]
    own_file("[providers.groq]\n")
    assert named(resolve_endpoint(load_with_sources(project), "claude-x")) == "groq/fast"
    own_file('model = "groq/mine"')
    assert named(resolve_endpoint(load_with_sources(project), "claude-x")) == "groq/fast"


def test_a_repository_cannot_bring_a_thread_back_to_its_provider(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the user says that the thread's own model is not to be asked, no wish changes it."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    own_file('model = "ollama/llama3"\nuse_current_model = false')
    for handoff in ({"useCurrentModel": True}, {"model": "anthropic/claude-3-haiku"}):
        wish(project, **handoff)
        endpoint = resolve_endpoint(load_with_sources(project), "claude-x")

        assert named(endpoint) == "ollama/llama3"
        assert "which is not used" in endpoint.notes[0]


def test_a_wish_in_vain_is_told_when_there_is_no_model_either(project: Path) -> None:
    """The error holds the sentence that says where to allow it."""
    (project / ".tasuki.toml").write_text('model = "groq/fast"')

    with pytest.raises(ModelUnavailable, match=r"asks for the model 'fast' of groq, .*To allow it"):
        resolve_endpoint(load_with_sources(project), "")


# -- where it is -----------------------------------------------------------------------


def test_the_users_table_counts_alone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Address, variable, way of speaking, window and schema come from it; no other key is taken."""
    own_file(
        'model = "work/some/model"\n[providers.work]\nbase_url = "https://models.example.com/v1/"\n'
        'key_env = "WORK_KEY"\napi = "responses"\nwindow = 32000\njson_schema = false\n'
    )
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    with pytest.raises(ModelUnavailable, match="WORK_KEY is not set"):
        resolve_endpoint(load_with_sources(project), "")
    monkeypatch.setenv("WORK_KEY", f" {SECRET}\n")
    endpoint = resolve_endpoint(load_with_sources(project), "")

    assert endpoint == ModelEndpoint(
        "work", "some/model", "responses", "https://models.example.com/v1/", SECRET,
        window=32000, json_schema=False,
        source="the model (~/.config/tasuki/config.toml), key from WORK_KEY",
    )  # fmt: skip


def test_a_table_without_an_address_is_an_error_for_a_provider_nobody_knows(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable alone does not say where to ask."""
    monkeypatch.setenv("WORK_KEY", SECRET)
    own_file('model = "work/m"\n[providers.work]\nkey_env = "WORK_KEY"')

    with pytest.raises(ModelUnavailable, match=r"providers\.work has no base_url"):
        resolve_endpoint(load_with_sources(project), "")


def test_a_table_with_an_address_alone_needs_no_key(project: Path) -> None:
    """A server of one's own is asked without one, as chat completions."""
    own_file('model = "mine/m"\n[providers.mine]\nbase_url = "http://127.0.0.1:8080/v1"')
    endpoint = resolve_endpoint(load_with_sources(project), "")

    assert (endpoint.api, endpoint.key) == ("openai", "")
    assert endpoint.notes == ()


def test_a_table_may_only_bound_a_known_provider(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without address and variable it leaves both as they are known."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    own_file("[providers.anthropic]\nwindow = 9000\njson_schema = false")
    endpoint = resolve_endpoint(load_with_sources(project), "claude-x")

    assert (endpoint.api, endpoint.window, endpoint.json_schema) == ("anthropic", 9000, False)
    assert endpoint.key == SECRET


def test_an_address_of_the_environment_is_used(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anthropic's gateway takes the token first; another's OpenAI speaks chat completions."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://gateway.example.com")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-anthropic-itself")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", SECRET)
    gateway = resolve_endpoint(load_with_sources(project), "claude-x")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:9/v1")
    local = resolve_endpoint(load_with_sources(project), "gpt-x")
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://box:11434")
    ollama = resolve_endpoint(load_with_sources(project), "ollama/m")

    assert (gateway.base_url, gateway.key, gateway.bearer) == (
        "https://gateway.example.com", SECRET, True,
    )  # fmt: skip
    assert (local.base_url, local.key, local.api) == ("http://localhost:9/v1", "", "openai")
    assert (ollama.base_url, ollama.key) == ("http://box:11434/v1", "")


def test_an_address_that_is_none_keeps_the_key_at_home(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an unusable address the key is not sent to the provider's own instead."""
    monkeypatch.setenv("OPENAI_BASE_URL", "https://me:pass@host/v1")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    with pytest.raises(
        ModelUnavailable, match="the value of OPENAI_BASE_URL is not an address"
    ) as caught:
        resolve_endpoint(load_with_sources(project), "gpt-x")
    assert "pass" not in str(caught.value).replace("password", "")


def test_a_key_that_can_be_read_on_its_way_is_warned_of(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """http to another machine is allowed, and told."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://10.1.2.3/v1")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    assert resolve_endpoint(load_with_sources(project), "gpt-x").notes == (
        "The key and the thread go unencrypted to http://10.1.2.3/v1. Use https://.",
    )


@pytest.mark.parametrize("key", ["sk-ant-oat01-subscription", "two words", "über", " "])
def test_what_is_no_key_is_not_sent(
    project: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """A subscription's token, and what no header can hold, count as no key and are not repeated."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)

    with pytest.raises(ModelUnavailable) as caught:
        resolve_endpoint(load_with_sources(project), "claude-x")
    assert key.strip() == "" or key not in str(caught.value)


def test_a_key_is_never_in_a_repr(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither `repr` nor `str` of an endpoint shows it."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    endpoint = resolve_endpoint(load_with_sources(project), "claude-x")

    assert SECRET not in f"{endpoint!r} {endpoint} {[endpoint]}"
    assert "anthropic/claude-x" in repr(endpoint)
