"""Settings: where they come from, and which of them a repository may set."""

import json
from pathlib import Path

import pytest

from tasuki import config
from tasuki.errors import ConfigInvalid


@pytest.fixture(autouse=True)
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file lies in the test's folder."""
    path = tmp_path / "user.toml"
    monkeypatch.setenv("TASUKI_CONFIG", str(path))
    return path


def test_the_defaults_are_the_seeds(tmp_path: Path) -> None:
    """Without any file the seed's values hold."""
    settings = config.load(tmp_path)

    assert (settings.max_files, settings.max_commands, settings.max_information_items) == (
        20,
        10,
        12,
    )
    assert (settings.max_decision_items, settings.max_open_questions) == (8, 6)
    assert (settings.min_goal_length, settings.budget, settings.author) == (12, 2500, "offline")


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
    settings = config.load(tmp_path, {"min_goal_length": 5, "budget": None})

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
    settings = config.load(tmp_path)

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
        config.load(tmp_path)
    assert caught.value.exit_code == 2


def test_a_broken_pi_file_and_environment_are_named_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invalid JSON and an environment value of the wrong kind are errors, not silence."""
    (tmp_path / ".pi").mkdir()
    (tmp_path / ".pi" / "settings.json").write_text("{nope")
    with pytest.raises(ConfigInvalid, match=r"settings\.json is not valid JSON"):
        config.load(tmp_path)
    (tmp_path / ".pi" / "settings.json").write_text("{}")
    monkeypatch.setenv("TASUKI_BUDGET", "lots")
    with pytest.raises(ConfigInvalid, match="TASUKI_BUDGET"):
        config.load(tmp_path)


def test_files_above_the_repository_are_not_looked_at(tmp_path: Path) -> None:
    """The search for a project file ends at the root of the repository."""
    (tmp_path / ".tasuki.toml").write_text("budget = 700")
    repository = tmp_path / "repo"
    (repository / ".git").mkdir(parents=True)
    (repository / "sub").mkdir()

    assert config.load(repository / "sub").budget == 2500
