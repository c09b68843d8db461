"""`tasuki config`: a real process in a project of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tasuki.config.settings import Settings

SECRET = "sk-test-0123456789abcdef"


class Place:
    """A home, a project in it, and the program."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.project = self.home / "proj"
        (self.project / ".git").mkdir(parents=True)
        self.own = self.home / ".config" / "tasuki" / "config.toml"
        self.own.parent.mkdir(parents=True)
        self.env = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run `tasuki config`."""
        return subprocess.run(
            (sys.executable, "-m", "tasuki", "config", *arguments),
            cwd=self.project, env={**self.env, **env}, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=60,
        )  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A fresh place."""
    return Place(tmp_path)


def test_every_setting_is_shown_with_its_source(place: Place) -> None:
    """An asterisk marks what is not the default; the columns stand below each other."""
    place.own.write_text("max_files = 7\nmax_commands = 10\n")
    (place.project / ".tasuki.toml").write_text("budget = 900")
    done = place.run(TASUKI_STRICT="1")
    lines = done.stdout.splitlines()
    table = lines[: lines.index("")]

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert [line[2:].split()[0] for line in table] == list(Settings.__struct_fields__)
    rows = {line[2:].split()[0]: line for line in table}
    assert rows["max_files"].startswith("* ")
    assert rows["max_files"].endswith("  ~/.config/tasuki/config.toml")
    assert rows["max_commands"].startswith("  ")
    assert rows["budget"].endswith("  ~/proj/.tasuki.toml")
    assert rows["strict"].endswith("  environment TASUKI_STRICT")
    assert len({line.rindex("default") for line in table if line.endswith("  default")}) == 1


def test_the_files_that_were_looked_at_are_listed(place: Place) -> None:
    """Also those that are not there."""
    place.own.write_text("")
    done = place.run()

    assert "\n  ~/.config/tasuki/config.toml\n" in done.stdout
    assert "\n  ~/proj/.pi/settings.json (not there)\n" in done.stdout
    assert "\n  ~/proj/.tasuki.toml (not there)\n" in done.stdout


def test_the_json_document_has_values_and_sources(place: Place) -> None:
    """One versioned document; problems are in it, and on standard error."""
    place.own.write_text('[providers.x]\nbase_url = "https://host/v1"\n')
    (place.project / ".tasuki.toml").write_text('author = "agent"')
    done = place.run("--json", TASUKI_MODEL="x/y")
    document = json.loads(done.stdout)

    assert document["version"] == 1
    assert set(document["settings"]) == set(Settings.__struct_fields__)
    assert document["settings"]["model"] == {"value": "x/y", "source": "environment TASUKI_MODEL"}
    assert document["settings"]["author"] == {"value": "offline", "source": "default"}
    assert document["settings"]["providers"]["value"]["x"]["base_url"] == "https://host/v1"
    assert [problem.count("author is ignored") for problem in document["problems"]] == [1]
    assert "author is ignored" in done.stderr
    assert {"path": "~/proj/.tasuki.toml", "exists": True} in document["files"]
    assert "x/y at https://host/v1" in document["model"]


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_a_key_is_never_shown(place: Place, arguments: tuple[str, ...]) -> None:
    """Only the name of the variable that holds it, wherever it comes from."""
    place.own.write_text(
        'author = "model"\nmodel = "w/m"\n[providers.w]\nbase_url = "http://h/v1"\nkey_env = "W"'
    )
    pi = place.home / ".pi" / "agent"
    pi.mkdir(parents=True)
    (pi / "auth.json").write_text(json.dumps({"openai": {"type": "api_key", "key": SECRET}}))
    for env in (
        {"W": SECRET},
        {"TASUKI_MODEL": "openai/x"},
        {"TASUKI_MODEL": "groq/x", "GROQ_API_KEY": SECRET},
    ):
        done = place.run(*arguments, **env)

        assert done.returncode == 0, done.stderr
        assert SECRET not in done.stdout + done.stderr
        assert "key from" in done.stdout


def test_the_model_that_would_be_asked_is_told(place: Place) -> None:
    """Or why none would be, and where keys were found."""
    assert "asks the thread's own model; no key was found in the environment." in place.run().stdout
    with_key = place.run(ANTHROPIC_API_KEY=SECRET).stdout
    assert "asks the thread's own model; keys were found for anthropic." in with_key
    place.own.write_text('model = "openai/gpt-x"')
    none = place.run()
    assert "The author model asks nothing. No model selected." in none.stdout
    assert "OPENAI_API_KEY is not set" in none.stdout
    found = place.run(OPENAI_API_KEY=SECRET).stdout
    assert (
        "The author model asks openai/gpt-x at https://api.openai.com/v1: the model "
        "(~/.config/tasuki/config.toml), key from OPENAI_API_KEY." in found
    )


def test_what_a_repository_wishes_in_vain_is_told(place: Place) -> None:
    """On standard error, with where to allow it."""
    (place.project / ".pi").mkdir()
    (place.project / ".pi" / "settings.json").write_text('{"handoff": {"model": "groq/fast"}}')
    done = place.run()

    assert done.returncode == 0
    assert "asks for the model 'fast' of groq" in done.stderr
    assert "[providers.groq]" in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (".tasuki.toml", "budget = = 5", "~/proj/.tasuki.toml is not valid TOML"),
        (".tasuki.toml", "bugdet = 5", "unknown setting 'bugdet'. Did you mean budget?"),
        (".pi/settings.json", "{nope", "~/proj/.pi/settings.json is not valid JSON"),
        (".pi/settings.json", '{"handoff": 5}', '"handoff" must be an object'),
    ],
)  # fmt: skip
def test_a_broken_file_is_named(place: Place, name: str, text: str, said: str) -> None:
    """Exit code 2, the message, and nothing on standard output."""
    (place.project / ".pi").mkdir()
    (place.project / name).write_text(text)
    done = place.run()

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("home", ["/dev/null", "/nowhere", "", "not/absolute"])
def test_no_home_is_no_error(place: Place, home: str) -> None:
    """The defaults are shown."""
    done = place.run(HOME=home)

    assert done.returncode == 0, done.stderr
    assert "  budget " in done.stdout
    assert "Traceback" not in done.stderr


def test_on_a_narrow_terminal_the_source_goes_below(place: Place) -> None:
    """No line of the table is longer than the terminal but by a value that is longer itself."""
    place.own.write_text("max_files = 7")
    done = place.run(COLUMNS="48")
    lines = done.stdout.splitlines()
    table = lines[: lines.index("")]

    assert "    ~/.config/tasuki/config.toml" in table
    assert max(map(len, table)) <= 48


def test_nothing_heavy_is_imported(place: Place) -> None:
    """No model library, no validation library, no network."""
    program = (
        "import sys; sys.argv = ['tasuki', 'config']\n"
        "from tasuki.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: sys.stderr.write(' '.join(sys.modules))"
    )
    done = subprocess.run(
        (sys.executable, "-c", program),
        cwd=place.project, env=place.env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    modules = set(done.stderr.split())

    assert "tasuki.draft.models.providers" in modules
    heavy = {
        "pydantic",
        "pydantic_ai",
        "openai",
        "anthropic",
        "httpx",
        "rich",
        "asyncio",
        "ssl",
        "socket",
    }
    assert modules & heavy == set()
