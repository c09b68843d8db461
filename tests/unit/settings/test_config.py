"""Settings: where they come from, and which of them a repository may set."""

import json
import re
from pathlib import Path

import pytest
from tree import ROOT

from tasuki.config import settings as config
from tasuki.config import validation
from tasuki.config.settings import list_unknown_variables
from tasuki.errors import ConfigInvalid


@pytest.fixture(autouse=True)
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file lies in the test's folder."""
    path = tmp_path / "user.toml"
    path.touch()
    monkeypatch.setenv("TASUKI_CONFIG", str(path))
    return path


def test_the_defaults_are_the_seeds(tmp_path: Path) -> None:
    """Without any file the seed's values hold."""
    settings = config.load_settings(tmp_path)

    assert (settings.max_files, settings.max_commands, settings.max_information_items) == (
        20,
        10,
        12,
    )
    assert (settings.max_decision_items, settings.max_open_questions) == (8, 6)
    assert (settings.min_goal_length, settings.budget, settings.author) == (12, 4000, "offline")


def test_each_source_overrides_the_ones_below_it(
    tmp_path: Path, own_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flags beat the environment, that the project file, that pi's, that the user's own."""
    own_file.write_text(
        "max_files = 1\nmax_commands = 1\nbudget = 901\nmin_goal_length = 1\nmax_open_questions = 1"
    )
    (tmp_path / ".pi").mkdir()
    (tmp_path / ".pi" / "settings.json").write_text(
        json.dumps(
            {
                "theme": "x",
                "handoff": {"maxFiles": 2, "maxCommands": 2, "minGoalLength": 2, "unknownToUs": 1},
            }
        )
    )
    (tmp_path / ".tasuki.toml").write_text("max_files = 3\nmin_goal_length = 3\n")
    monkeypatch.setenv("TASUKI_MAX_FILES", "4")
    settings = config.load_with_sources(tmp_path, {"min_goal_length": 5, "budget": None}).settings

    assert settings.max_open_questions == 1
    assert settings.max_commands == 2
    assert settings.max_files == 4
    assert settings.min_goal_length == 5
    assert settings.budget == 901


def test_a_repository_cannot_choose_the_author_the_model_or_the_successor(
    tmp_path: Path, own_file: Path
) -> None:
    """Those settings are taken from the user's own file alone."""
    own_file.write_text('model = "mine/model"\n')
    (tmp_path / ".tasuki.toml").write_text(
        'author = "model"\nmodel = "evil/model"\nto = "codex"\nbudget = 700\n'
    )
    settings = config.load_settings(tmp_path)

    assert (settings.author, settings.model, settings.to, settings.budget) == (
        "offline",
        "mine/model",
        "",
        700,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("budget = 'many'", "budget"), ("bugdet = 5", "unknown setting 'bugdet'"), ("budget = 10", "at least 300"),
        ("max_files = -1", "must not be negative"), ("budget = = 5", "not valid TOML"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named_with_its_file(
    own_file: Path, tmp_path: Path, text: str, said: str
) -> None:
    """The message says which file and which key, or what bound was broken."""
    own_file.write_text(text)

    with pytest.raises(ConfigInvalid, match=said) as caught:
        config.load_settings(tmp_path)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"# first\n\xff", "line 2 holds a byte that is not UTF-8. Save it as UTF-8."),
        (None, "its values are nested too deeply."),
    ],
)
@pytest.mark.parametrize(("name", "kind"), [(".tasuki.toml", "TOML"), (".pi/settings.json", "JSON")])  # fmt: skip
def test_bytes_and_nesting_are_told_in_words(
    tmp_path: Path, name: str, kind: str, content: bytes | None, said: str
) -> None:
    """What no settings file holds is told with the line, not in Python's words."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    deep = b"[" * 20_000 + b"]" * 20_000
    path.write_bytes(content or (b"budget = " + deep if kind == "TOML" else deep))
    with pytest.raises(ConfigInvalid) as caught:
        config.load_settings(tmp_path)

    assert f"{name} is not valid {kind}: {said}" in str(caught.value)


def test_a_broken_pi_file_and_environment_are_named_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invalid JSON and an environment value of the wrong kind are errors, not silence."""
    (tmp_path / ".pi").mkdir()
    (tmp_path / ".pi" / "settings.json").write_text("{nope")
    with pytest.raises(ConfigInvalid, match=r"settings\.json is not valid JSON"):
        config.load_settings(tmp_path)
    (tmp_path / ".pi" / "settings.json").write_text("{}")
    monkeypatch.setenv("TASUKI_BUDGET", "lots")
    with pytest.raises(ConfigInvalid, match="TASUKI_BUDGET"):
        config.load_settings(tmp_path)


def test_files_above_the_repository_are_not_looked_at(tmp_path: Path) -> None:
    """The search for a project file ends at the root of the repository."""
    (tmp_path / ".tasuki.toml").write_text("budget = 700")
    repository = tmp_path / "repo"
    (repository / ".git").mkdir(parents=True)
    (repository / "sub").mkdir()

    assert config.load_settings(repository / "sub").budget == 4000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("budget = true", "budget must be a whole number, not true."),
        ("budget = 1.5", "budget must be a whole number, not 1.5."),
        ("strict = 1", "strict must be true or false, not 1."),
        ("to = 5", "to must be text, not 5."),
        ("model = []", "model must be text, not a list."),
        ("author = 'modle'", "author must be one of offline, model, agent, not 'modle'."),
        ("agent_format = 'xml'", "agent_format must be one of structured, markdown, not 'xml'."),
        ("providers = 'x'", "providers must be a table, not 'x'."),
        ("[providers]\nx = 5", "providers.x must be a table, not 5."),
        ("[providers.x]\nwindow = 'big'", "providers.x.window must be a whole number, not 'big'."),
        ("[providers.x]\nwindow = -1", "providers.x.window must not be negative; it is -1."),
        ("[providers.x]\njson_schema = 'no'", "providers.x.json_schema must be true or false, not 'no'."),
        ("[providers.x]\napi = 'grpc'", "providers.x.api must be one of openai, responses, anthropic, google, not 'grpc'."),
        ("[providers.x]\nbase_ulr = ''", "unknown setting 'providers.x.base_ulr'. Did you mean base_url?"),
        ("[providers.x]\nfoo = ''", "unknown setting 'providers.x.foo'. Known: base_url, key_env, api,"),
        ("bugdet = 5", "unknown setting 'bugdet'. Did you mean budget?"),
        ("maxFile = 5", "unknown setting 'maxFile'. Did you mean max_files?"),
        ("author_seconds = 0", "author_seconds must be at least 1 seconds; it is 0."),
        ("author_seconds = 3601", "author_seconds must be at most 3600 seconds; it is 3601."),
        ("model_window = 1999", "model_window must be at least 2000 tokens; it is 1999."),
    ],
)  # fmt: skip
def test_the_message_says_what_a_setting_must_be(
    own_file: Path, tmp_path: Path, text: str, said: str
) -> None:
    """File, key and type stand in it, in plain words, in tables too."""
    own_file.write_text(text)

    with pytest.raises(ConfigInvalid) as caught:
        config.load_settings(tmp_path)
    assert str(caught.value).startswith(f"{own_file}: ")
    assert said in str(caught.value)


KEY = "sk-ant-api03-abcdefABCDEF0123456789"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"key_env = '{KEY}'", "must be the name of an environment variable"),
        ("key_env = 'AIzaSyA0123456789abcdefghijklmnopqrstuv'", "must be the name of an environment variable"),
        ("key_env = 'gsk_abcDEF0123456789abcDEF'", "must be the name of an environment variable"),
        ("key_env = 'two words'", "must be the name of an environment variable"),
        ("base_url = 'https://me:hunter2@host/v1'", "holds a name, a password or a query"),
        ("base_url = 'https://host/v1?key=hunter2'", "holds a name, a password or a query"),
        ("base_url = 'ftp://host'", "must be an address such as"),
        ("base_url = 'hunter2'", "must be an address such as"),
        ("base_url = 'https://'", "must be an address such as"),
        ("base_url = 'http://host:99999'", "must be an address such as"),
        (f"api = '{KEY}'", "must be one of openai"),
        (f"window = '{KEY}'", "must be a whole number"),
        (f"'{KEY}' = 1", "unknown setting a text that may hold a key"),
    ],
)  # fmt: skip
def test_what_may_be_a_key_is_not_repeated(
    own_file: Path, tmp_path: Path, text: str, said: str
) -> None:
    """The message says what to write instead."""
    own_file.write_text(f"[providers.x]\n{text}")

    with pytest.raises(ConfigInvalid, match=said) as caught:
        config.load_settings(tmp_path)
    assert "hunter2" not in str(caught.value)
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "MY_KEY_2", "key", "SK_LIVE", "HF_TOKEN", "sk_work"]
)
def test_names_of_variables_are_no_keys(own_file: Path, tmp_path: Path, name: str) -> None:
    """They are taken as they stand."""
    own_file.write_text(f"[providers.x]\nkey_env = '{name}'")

    assert config.load_settings(tmp_path).providers["x"].key_env == name


def test_a_repository_is_told_what_it_cannot_set(tmp_path: Path, own_file: Path) -> None:
    """What it may not set is ignored with a sentence, whatever its value; the rest holds."""
    (tmp_path / ".pi").mkdir()
    (tmp_path / ".pi" / "settings.json").write_text(
        json.dumps({"handoff": {"maxFiles": 3, "maxFlies": 4, "providers": {"x": {"base_url": "evil"}}, "strict": 5}})
    )  # fmt: skip
    (tmp_path / ".tasuki.toml").write_text('author = "agent"\nmax_commands = 4')
    found = config.load_with_sources(tmp_path)

    assert (found.settings.author, found.settings.providers, found.settings.strict) == (
        "offline", {}, False,
    )  # fmt: skip
    assert (found.settings.max_files, found.settings.max_commands) == (3, 4)
    assert len(found.problems) == 4
    said = "\n".join(found.problems)
    assert "unknown setting 'maxFlies'. Did you mean max_files?" in said
    for key in ("providers", "strict", "author"):
        assert f"{key} is ignored, since a repository cannot set it." in said
    assert f"set it in {own_file}" in said


def test_a_wrong_type_in_the_settings_of_pi_is_an_error(tmp_path: Path) -> None:
    """There too, since the key is ours."""
    (tmp_path / ".pi").mkdir()
    (tmp_path / ".pi" / "settings.json").write_text('{"handoff": {"useCurrentModel": "yes"}}')

    with pytest.raises(ConfigInvalid, match=r'"handoff"\): useCurrentModel must be true or false'):
        config.load_settings(tmp_path)


def test_every_key_of_the_seed_is_honoured(tmp_path: Path) -> None:
    """All of `"handoff"` with the seed's names; the defaults written out change nothing."""
    seed = {
        "maxFiles": 20, "maxCommands": 10, "maxInformationItems": 12, "maxDecisionItems": 8, "maxOpenQuestions": 6,
        "minGoalLength": 12, "includeMetadata": True, "includeSkill": True, "includeFileReasons": True,
        "includeHandoffPreamble": True, "useCurrentModel": True, "model": None, "showProgressPhases": True,
        "validateFiles": True,
    }  # fmt: skip
    (tmp_path / ".pi").mkdir()
    (tmp_path / ".pi" / "settings.json").write_text(json.dumps({"handoff": seed}))
    found = config.load_with_sources(tmp_path)

    assert found.problems == ()
    assert found.settings == config.Settings()


def test_each_value_tells_where_it_came_from(
    tmp_path: Path, own_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file, a variable, a flag, or the default."""
    own_file.write_text("max_files = 1")
    (tmp_path / ".tasuki.toml").write_text("max_commands = 3")
    monkeypatch.setenv("TASUKI_STRICT", "on")
    sources = config.load_with_sources(tmp_path, {"author": "model", "to": None}).sources

    assert sources["max_files"] == str(own_file)
    assert sources["max_commands"] == str(tmp_path / ".tasuki.toml")
    assert sources["strict"] == "environment TASUKI_STRICT"
    assert (sources["author"], sources["to"]) == ("flag", "default")
    assert set(sources) == set(config.Settings.__struct_fields__)


def test_what_a_repository_wishes_for_is_no_setting(tmp_path: Path, own_file: Path) -> None:
    """A model that it names stands among the choices alone, marked as not the user's own."""
    own_file.write_text('model = "mine/a"')
    (tmp_path / ".tasuki.toml").write_text('model = "theirs/b"\nuse_current_model = true')
    found = config.load_with_sources(tmp_path)

    assert (found.settings.model, found.settings.use_current_model) == ("mine/a", False)
    assert [(c.own, c.model, c.current) for c in found.choices] == [
        (False, "theirs/b", True), (True, "mine/a", None),
    ]  # fmt: skip


def test_the_environment_sets_all_but_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text becomes the type of the setting; `providers` is left to the file, with a sentence."""
    for name, text in {"AUTHOR": "agent", "AGENT_FORMAT": "markdown", "AUTHOR_SECONDS": "60", "STRICT": "YES",
                       "MODEL": "a/b", "MODEL_WINDOW": "2000", "PROVIDERS": "{}"}.items():  # fmt: skip
        monkeypatch.setenv(f"TASUKI_{name}", text)
    found = config.load_with_sources(tmp_path)
    settings = found.settings

    assert (settings.author, settings.agent_format, settings.strict) == ("agent", "markdown", True)
    assert (settings.author_seconds, settings.model, settings.model_window) == (60, "a/b", 2000)
    assert len(found.problems) == 1
    assert "TASUKI_PROVIDERS is ignored" in found.problems[0]
    monkeypatch.setenv("TASUKI_AUTHOR", "gpt")
    with pytest.raises(ConfigInvalid, match="environment TASUKI_AUTHOR: author must be one of"):
        config.load_settings(tmp_path)


def test_a_key_that_goes_unencrypted_to_another_machine_is_warned_of(
    tmp_path: Path, own_file: Path
) -> None:
    """http is for this machine; elsewhere it is told, not forbidden."""
    own_file.write_text(
        "[providers.far]\nbase_url = 'http://10.0.0.1/v1'\nkey_env = 'K'\n"
        "[providers.near]\nbase_url = 'http://127.0.0.1:8080/v1'\nkey_env = 'K'\n"
        "[providers.open]\nbase_url = 'http://10.0.0.1/v1'\n"
    )
    problems = config.load_with_sources(tmp_path).problems

    assert len(problems) == 1
    assert "providers.far sends the key and the thread unencrypted" in problems[0]


def test_without_a_home_the_defaults_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home that is no folder, or a name that is none, is no error."""
    monkeypatch.delenv("TASUKI_CONFIG")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", "/dev/null")
    assert config.load_settings(tmp_path) == config.Settings()
    monkeypatch.setenv("HOME", "not/absolute")
    found = config.load_with_sources(tmp_path)

    assert found.settings == config.Settings()
    assert "Your home folder is not known" in found.problems[0]


def test_a_file_of_settings_has_a_bound(tmp_path: Path, own_file: Path) -> None:
    """What is longer than a settings file can be is not read to its end."""
    own_file.write_text("#" * (validation.MAX_FILE + 1))

    with pytest.raises(ConfigInvalid, match="is longer than"):
        config.load_settings(tmp_path)


def test_the_page_on_settings_has_every_setting_and_its_default() -> None:
    """`docs/settings.md`: one row each, with pi's name where a repository may set it."""
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in page.splitlines()
            if line.startswith("| `") and line.count("|") == 5]  # fmt: skip

    assert sorted(row[0].strip("`") for row in rows) == sorted(config.Settings.__struct_fields__)
    for name, pi, default in rows:
        value = getattr(config.Settings(), name.strip("`"))
        shown = (
            {True: "true", False: "false"}.get(value, value) if isinstance(value, bool) else value
        )
        if value not in (None, "", {}):
            assert default == str(shown), name
        if name.strip("`") in config.USER_ONLY:
            assert pi == "no", name
        else:
            assert config.convert_to_snake(pi.strip("`")) == name.strip("`")


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("TASUKI_BUGDET", " Did you mean TASUKI_BUDGET?"),
        ("TASUKI_DATA_DIR", " Did you mean TASUKI_DATA?"),
        ("TASUKI_XYZ", " Settings: tasuki config"),
    ],
)
def test_a_variable_that_is_none_of_ours_is_told(
    monkeypatch: pytest.MonkeyPatch, variable: str, hint: str
) -> None:
    """With the one that was probably meant; one without the prefix is nobody's business."""
    monkeypatch.setenv(variable, "1")
    monkeypatch.setenv("NOT_TASUKI_BUGDET", "1")

    told = f"{variable} is set in the environment, but tasuki does not know it.{hint}"
    assert list(list_unknown_variables()) == [(variable, told)]


def test_every_variable_that_is_used_somewhere_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the program, its scripts and its tests: none of them is warned of."""
    files = [*(ROOT / "scripts").iterdir(), *(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("conftest.py"),
             *(ROOT / "tests" / "support").rglob("*.py")]  # fmt: skip
    text = "".join(file.read_text() for file in files if file.is_file())
    used = set(re.findall(r"""["'${](TASUKI_[A-Z_0-9]+)\b""", text))
    assert {"TASUKI_DATA", "TASUKI_TEST_CACHE", "TASUKI_INSIDE"} <= used
    for variable in used:
        monkeypatch.setenv(variable, "1")

    assert list(list_unknown_variables()) == []
