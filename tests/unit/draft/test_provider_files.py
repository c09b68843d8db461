"""What the user's own files of pi say about models."""

import json
from pathlib import Path

import pytest
from keyless import SECRET, keyless_home, named, repository

from tasuki.config import settings
from tasuki.config.settings import load_with_sources
from tasuki.draft.models.providers import resolve_endpoint
from tasuki.errors import ModelUnavailable


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a key."""
    return keyless_home(tmp_path, monkeypatch)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository without settings."""
    return repository(tmp_path)


def pi_files(folder: Path, models: object = None, auth: object = None) -> None:
    """Write pi's files."""
    folder.mkdir(parents=True, exist_ok=True)
    if models is not None:
        (folder / "models.json").write_text(json.dumps({"providers": models}))
    if auth is not None:
        (folder / "auth.json").write_text(json.dumps(auth))


PI = {
    "fake": {
        "baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions", "apiKey": "dummy-key",
        "models": [{"id": "m", "contextWindow": 128000}, {"id": "c", "api": "anthropic-messages"}],
    }
}  # fmt: skip


def test_a_provider_of_pi_is_asked_as_pi_asks_it(project: Path, home: Path) -> None:
    """Address, key, way of speaking and window come from `models.json`."""
    pi_files(home / ".pi" / "agent", PI)
    endpoint = resolve_endpoint(load_with_sources(project), "fake/m")

    assert (endpoint.base_url, endpoint.key, endpoint.api, endpoint.window) == (
        "http://127.0.0.1:9/v1", "dummy-key", "openai", 128000,
    )  # fmt: skip
    assert endpoint.source == "the thread's own model, key from ~/.pi/agent/models.json"
    assert resolve_endpoint(load_with_sources(project), "fake/c").api == "anthropic"


def test_the_folder_of_pi_can_lie_elsewhere(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`PI_CODING_AGENT_DIR` is respected."""
    pi_files(tmp_path / "elsewhere", PI)
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "elsewhere"))

    assert resolve_endpoint(load_with_sources(project), "fake/m").key == "dummy-key"


@pytest.mark.parametrize("written", ["$MY_KEY", "${MY_KEY}", "MY_KEY"])
def test_pi_may_name_a_variable(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """The key is what the variable holds, and without it the name is no key."""
    pi_files(home / ".pi" / "agent", {"fake": {**PI["fake"], "apiKey": written}})
    with pytest.raises(ModelUnavailable, match="MY_KEY is not set"):
        resolve_endpoint(load_with_sources(project), "fake/m")
    monkeypatch.setenv("MY_KEY", SECRET)

    assert resolve_endpoint(load_with_sources(project), "fake/m").key == SECRET


def test_a_command_of_pi_is_never_run(project: Path, home: Path, tmp_path: Path) -> None:
    """The message says so, and the command left no trace."""
    mark = tmp_path / "ran"
    pi_files(home / ".pi" / "agent", {"fake": {**PI["fake"], "apiKey": f"!touch {mark}"}})

    with pytest.raises(ModelUnavailable, match="no command is run to get a key"):
        resolve_endpoint(load_with_sources(project), "fake/m")
    assert not mark.exists()


def test_keys_stored_by_pi_are_used_and_subscriptions_are_not(project: Path, home: Path) -> None:
    """`auth.json`: an entry of type `api_key` is a key, one of type `oauth` is none."""
    pi_files(
        home / ".pi" / "agent",
        auth={
            "openai": {"type": "api_key", "key": SECRET},
            "anthropic": {"type": "oauth", "access": "sk-ant-oat01-x", "refresh": "y"},
        },
    )
    endpoint = resolve_endpoint(load_with_sources(project), "gpt-x")

    assert (endpoint.key, endpoint.base_url) == (SECRET, "https://api.openai.com/v1")
    with pytest.raises(ModelUnavailable, match="tokens of a subscription, which are not used"):
        resolve_endpoint(load_with_sources(project), "claude-x")


def test_the_environment_goes_before_the_files_of_pi(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key of the environment goes to the provider, not to an address that a file names."""
    pi_files(
        home / ".pi" / "agent", {"openai": {"baseUrl": "https://p.example.com/v1", "apiKey": "k"}}
    )
    assert (
        resolve_endpoint(load_with_sources(project), "gpt-x").base_url == "https://p.example.com/v1"
    )
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    endpoint = resolve_endpoint(load_with_sources(project), "gpt-x")

    assert (endpoint.base_url, endpoint.key) == ("https://api.openai.com/v1", SECRET)


@pytest.mark.parametrize(
    "content", ["{nope", "[]", '{"providers": [1]}', '{"providers": {"fake": 3}}', ""]
)
def test_broken_files_of_pi_say_nothing(project: Path, home: Path, content: str) -> None:
    """They are another program's, so they are passed over."""
    pi_files(home / ".pi" / "agent", {})
    (home / ".pi" / "agent" / "models.json").write_text(content)

    with pytest.raises(ModelUnavailable, match=r"no address of fake is known|no key for fake"):
        resolve_endpoint(load_with_sources(project), "fake/m")


def test_a_thread_of_codex_belongs_to_the_provider_that_it_records(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its address is in the user's own table alone, and the error says so; Codex's file is not read."""
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(
        '[model_providers.corp]\nbase_url = "https://corp.example.com/v1"\nenv_key = "CORP_KEY"\n'
    )
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    monkeypatch.setenv("CORP_KEY", SECRET)
    with pytest.raises(ModelUnavailable, match=r"base_url and key_env under \[providers\.corp\]"):
        resolve_endpoint(load_with_sources(project), "corp/gpt-x")
    own_file = settings.find_user_file()
    assert own_file is not None
    own_file.parent.mkdir(parents=True, exist_ok=True)
    own_file.write_text(
        '[providers.corp]\nbase_url = "https://corp.example.com/v1"\nkey_env = "CORP_KEY"\n'
        'api = "responses"\n'
    )
    endpoint = resolve_endpoint(load_with_sources(project), "corp/gpt-x")

    assert (named(endpoint), endpoint.api, endpoint.key) == ("corp/gpt-x", "responses", SECRET)
    assert endpoint.base_url == "https://corp.example.com/v1"


def test_a_name_that_is_also_an_alias_is_the_users_own(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider of pi called `claude` is that provider, not Anthropic."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-other")
    assert resolve_endpoint(load_with_sources(project), "claude/x").provider == "anthropic"
    pi_files(home / ".pi" / "agent", {"claude": {**PI["fake"]}})
    endpoint = resolve_endpoint(load_with_sources(project), "claude/x")

    assert (endpoint.provider, endpoint.key) == ("claude", "dummy-key")


def test_without_a_home_the_environment_suffices(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read where no folder is known."""
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)

    assert resolve_endpoint(load_with_sources(project), "claude-x").key == SECRET
