"""The installer: only what is ours, whole or not at all, and out again without a trace."""

import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import msgspec
import pytest
from msgspec import structs
from tree import IMPORTABLE

from tasuki.config import toml_text
from tasuki.errors import InstallFailed
from tasuki.harness.integration import Addition, JsonEntry, OwnFile, TomlTable
from tasuki.install.installer import Installer

SETTINGS = """{
    "model": "opus",   // the large one
    "hooks": {
        "Stop": [ {"hooks": [{"type": "command", "command": "say done"}]} ]
    },
    "permissions": {"allow": ["Read"]}
}
"""
TOML = '# mine\nmodel = "x"   # the large one\n\n[tui]\ntheme = "dark"\n'


def hook(command: str = "tasuki hook") -> dict[str, object]:
    """A hook of ours."""
    return {"hooks": [{"type": "command", "command": f": {command}; /opt/tasuki hook x"}]}


class Place:
    """A home with the files of one harness, and what is to be added to it."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.home.mkdir(exist_ok=True)
        self.settings, self.toml = self.home / "settings.json", self.home / "config.toml"
        self.command = self.home / "commands" / "deep" / "handoff.md"
        self.installer = Installer(root / "data")

    def additions(self) -> tuple[Addition, ...]:
        server = {"command": "/opt/tasuki", "env": {"TASUKI_INSTALLED": "1"}}
        return (
            OwnFile(str(self.command), "By tasuki install.\n", "the command"),
            JsonEntry(str(self.settings), ("hooks", "Stop"), hook(), "a hook"),
            JsonEntry(str(self.settings), ("hooks", "Prompt"), hook(), "another hook"),
            JsonEntry(str(self.settings), ("mcpServers",), server, "tools", "tasuki",
                      "TASUKI_INSTALLED"),
            TomlTable(str(self.toml), ("mcp_servers", "tasuki"),
                      'command = "/opt/tasuki"\nenv = { TASUKI_INSTALLED = "1" }', "tools"),
        )  # fmt: skip

    def install(self, additions: tuple[Addition, ...] | None = None) -> None:
        wanted = additions or self.additions()
        self.installer.apply_plan("x", wanted, self.installer.plan("x", wanted))

    def uninstall(self) -> None:
        wanted = self.additions()
        plan = self.installer.plan_removal("x", wanted)
        self.installer.apply_plan("x", wanted, plan, remove=True)

    def actions(self) -> list[str]:
        return [step.action for step in self.installer.plan("x", self.additions()).steps]

    def everything(self) -> dict[str, bytes]:
        """Every file of the home with what it holds."""
        files = [path for path in self.home.rglob("*") if path.is_file()]
        return {str(path.relative_to(self.home)): path.read_bytes() for path in files}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A harness with settings of the user's own."""
    made = Place(tmp_path)
    made.settings.write_text(SETTINGS)
    made.toml.write_text(TOML)
    return made


def test_what_was_installed_can_be_taken_out_without_a_trace(place: Place) -> None:
    """Every file is byte for byte what it was; what was made for it is gone, folders too."""
    before = place.everything()
    place.install()
    assert place.everything() != before
    place.uninstall()

    assert place.everything() == before
    assert not (place.home / "commands").exists()


def test_others_entries_and_comments_stay(place: Place) -> None:
    """What stood there stands there, in its own form."""
    place.install()

    text = place.settings.read_text()
    assert '"model": "opus",   // the large one' in text
    assert '{"hooks": [{"type": "command", "command": "say done"}]}' in text
    assert place.toml.read_text().startswith(TOML)
    assert (
        tomllib.loads(place.toml.read_text())["mcp_servers"]["tasuki"]["command"] == "/opt/tasuki"
    )


def test_a_second_run_changes_no_byte(place: Place) -> None:
    """It says that all is there, and writes nothing: not even times change."""
    place.install()
    before = place.everything()
    times = {path: path.stat().st_mtime_ns for path in place.home.rglob("*")}
    plan = place.installer.plan("x", place.additions())
    place.install()

    assert {step.action for step in plan.steps} == {"there"}
    assert not plan.has_changes
    assert place.everything() == before
    assert {path: path.stat().st_mtime_ns for path in place.home.rglob("*")} == times


def test_files_that_were_made_for_it_go_with_it(tmp_path: Path) -> None:
    """Where there was nothing, nothing is left; also of a file that another program rewrote."""
    place = Place(tmp_path)
    place.install()
    place.settings.write_text(json.dumps(json.loads(place.settings.read_text())))
    place.uninstall()

    assert list(place.home.iterdir()) == []


@pytest.mark.parametrize(
    "existing",
    ["{}", "{ }\n", '{"hooks": {}}', '{"hooks":{"Stop":[]}}', '{"a":1}', "{\r\n}\r\n", "", " \n"],
)
def test_odd_settings_come_back_to_the_letter(tmp_path: Path, existing: str) -> None:
    """Empty lists and objects of the user are not tidied away."""
    place = Place(tmp_path)
    place.settings.write_bytes(existing.encode())
    place.install()
    place.uninstall()

    assert place.settings.read_bytes() == existing.encode()


def test_without_the_record_ours_is_known_by_its_mark(place: Place) -> None:
    """A lost record costs nothing but the file that was made for it."""
    before = place.everything()
    place.install()
    shutil.rmtree(place.installer.data)
    place.uninstall()

    assert place.everything() == before


def test_what_others_added_meanwhile_stays(place: Place) -> None:
    """Hooks that another program put beside ours, into our list and our element, are not ours."""
    place.settings.unlink()
    place.install()
    settings = json.loads(place.settings.read_text())
    settings["hooks"]["Prompt"].append({"hooks": [{"command": "theirs"}]})
    settings["hooks"]["Stop"][0]["hooks"].append({"command": "theirs too"})
    settings["theme"] = "dark"
    place.settings.write_text(json.dumps(settings))
    with place.toml.open("a") as file:
        file.write("\n# about trust\n[hooks.state]\na = 1\n")
    place.uninstall()

    assert json.loads(place.settings.read_text()) == {
        "hooks": {
            "Stop": [{"hooks": [{"command": "theirs too"}]}],
            "Prompt": [{"hooks": [{"command": "theirs"}]}],
        },
        "theme": "dark",
    }
    assert place.toml.read_text() == TOML + "\n# about trust\n[hooks.state]\na = 1\n"


def test_a_table_ends_before_the_comment_of_the_next_one(place: Place) -> None:
    """Also where the record is lost, and only the mark tells what is ours."""
    place.install()
    with place.toml.open("a") as file:
        file.write("\n# about trust\n[hooks.state]\na = 1\n")
    shutil.rmtree(place.installer.data)
    place.uninstall()

    assert place.toml.read_text() == TOML + "\n# about trust\n[hooks.state]\na = 1\n"


TOML_FILES = (
    'mcp_servers = { foo = { command = "x" } }\n', "mcp_servers = {}\n", 'mcp_servers={foo={command="}"}}# {',
    'mcp_servers = { foo = { command = "x" }, "b" = {a = [1,\n2]} } # c\n[tui]\nx = 1\n',
    '"mcp_servers" = { foo.command = "x" }\r\n[tui]\r\n', '[mcp_servers]\nfoo.command = "x"\nfoo.args = []\n',
    'mcp_servers.foo.command = "x"\nmodel = "y"\n', 'mcp_servers.foo = { command = "x" }',
    '[mcp_servers."foo.bar"]\ncommand = "x"\n', "['mcp_servers'.foo]\ncommand='x'\n", "[mcp_servers] # c\n\n[tui]\na=1\n",
    "[[hooks.Stop]]\nx = 1\n[[hooks.Stop]]\nx = 2\n", 'hooks = { Stop = [ { command = "a" }, ] }\n',
    'model = "x"\r\n[mcp_servers.foo]\r\ncommand = "x"\r\n', "[mcp_servers]", "# only\n", "a = [\n[ 'x' ],\n]\n\n\n",
    'x = """\n[mcp_servers.tasuki]\nTASUKI_INSTALLED"""""\n', "\ufeffmodel = 'x'\n", "[mcp_servers.tasuki_other]\nb = 1.5\n",
    "a = [ { mcp_servers = { b = 1 } }, [{ mcp_servers.tasuki = { c = 'TASUKI_INSTALLED' } }] ]\n",
    "t = 1979-05-27 07:32:00\n'a.b' = \"\"\"\\\"\"\"\"\n",
)  # fmt: skip
"""Tables of TOML in every form."""


@pytest.mark.parametrize("text", TOML_FILES)
@pytest.mark.parametrize("has_record", [True, False])
def test_tables_in_every_form_of_toml_come_back_to_the_letter(
    tmp_path: Path, text: str, has_record: bool
) -> None:
    """The tools are a table of their own, or a member of an inline one, and nothing else changes."""
    place = Place(tmp_path)
    place.toml.write_bytes(text.encode())
    place.install()

    after = tomllib.loads(place.toml.read_bytes().decode().removeprefix("\ufeff"))
    assert after["mcp_servers"].pop("tasuki")["command"] == "/opt/tasuki"
    before = tomllib.loads(text.removeprefix("\ufeff"))
    assert after == {"mcp_servers": {}} | before
    assert {step.action for step in place.installer.plan("x", place.additions()).steps} == {"there"}
    if not has_record:
        (tmp_path / "data" / "installed.json").unlink()
    place.uninstall()
    back = place.toml.read_bytes().decode()
    # Only the record knows whether there was a newline at the end.
    assert (back if has_record else back.rstrip("\n")) == (
        text if has_record else text.rstrip("\n")
    )


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("[mcp_servers]\ntasuki = {env = 'TASUKI_INSTALLED'}\na = 1\n", "[mcp_servers]\na = 1\n"),
        ("mcp_servers = {tasuki = {env = 'TASUKI_INSTALLED'}, a = 1}\n", "mcp_servers = {a = 1}\n"),
        ("mcp_servers = { tasuki = {env = 'TASUKI_INSTALLED'} }\n", "mcp_servers = {}\n"),
        ("mcp_servers = {tasuki = {env = 'mine'}, a = 1}\n", None),
        ("mcp_servers.tasuki.env = 'TASUKI_INSTALLED'\n", None),
    ],
)
def test_a_table_that_was_written_anew_is_found_in_its_new_form(
    tmp_path: Path, text: str, left: str | None
) -> None:
    """Without the record; one without the mark, or without a place of its own, stays."""
    place = Place(tmp_path)
    place.toml.write_text(text)
    place.uninstall()

    assert place.toml.read_text() == (text if left is None else left)


def test_an_older_version_is_replaced(place: Place) -> None:
    """One of ours with another content is brought up to date, and one that is no more goes."""
    before = place.everything()
    stale = JsonEntry(str(place.settings), ("hooks", "Old"), hook(), "an old hook")
    old = [structs.replace(a, value=hook("tasuki hook 0.1")) if isinstance(a, JsonEntry) and not a.name
           else a for a in place.additions()]  # fmt: skip
    place.install((*old, stale))
    assert place.actions() == ["remove", "there", "replace", "replace", "there", "there"]
    place.install()

    text = place.settings.read_text()
    assert "hook 0.1" not in text
    assert "Old" not in text
    assert set(place.actions()) == {"there"}
    place.uninstall()
    assert place.everything() == before


def test_what_is_the_users_own_is_left_alone(place: Place) -> None:
    """A command, a server or a table of the same name stays, and the step says so."""
    place.command.parent.mkdir(parents=True)
    place.command.write_text("My own handoff.\n")
    place.settings.write_text('{"mcpServers": {"tasuki": {"command": "mine"}}}')
    place.toml.write_text('[mcp_servers.tasuki]\ncommand = "mine"\n')
    before = place.everything()
    assert place.actions() == ["foreign", "add", "add", "foreign", "foreign"]
    place.install()
    assert place.command.read_text() == "My own handoff.\n"
    place.uninstall()

    assert place.everything() == before


@pytest.mark.parametrize(("name", "broken"), [("settings", '{"a": '), ("toml", "a = = 1")])
def test_a_file_that_cannot_be_understood_stops_it_all(
    place: Place, name: str, broken: str
) -> None:
    """Nothing is written anywhere, and the sentence names the file and the line."""
    path: Path = getattr(place, name)
    path.write_text(broken)
    before = place.everything()
    with pytest.raises(InstallFailed, match=f"{path} was not changed, and nothing was written"):
        place.install()

    assert place.everything() == before


def test_bytes_that_are_no_text_are_left_alone(place: Place) -> None:
    """A file in another encoding is not rewritten."""
    place.settings.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(InstallFailed, match="is not UTF-8 text"):
        place.install()

    assert place.settings.read_bytes() == b'{"a": "\xff"}'


def test_modes_stay_and_links_are_followed(place: Place) -> None:
    """A file keeps its mode; a link still leads to the file that was changed."""
    real = place.home / "dotfiles.json"
    place.settings.rename(real)
    place.settings.symlink_to(real.name)
    real.chmod(0o640)
    place.install()

    assert place.settings.is_symlink()
    assert "tasuki hook" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    place.uninstall()
    assert real.read_text() == SETTINGS


def test_a_file_that_may_not_be_written_is_left_to_the_user(place: Place) -> None:
    """Read-only means read-only, also for an administrator; the rest is done, there and back."""
    place.toml.chmod(0o400)
    before = place.everything()
    plan = place.installer.plan("x", place.additions())
    assert list(plan.to_add) == [str(place.toml)]
    table = tomllib.loads(plan.to_add[str(place.toml)])["mcp_servers"]["tasuki"]
    assert table["command"] == "/opt/tasuki"
    place.install()
    assert place.toml.read_text() == TOML
    assert place.command.exists()
    assert not list(place.home.rglob(".tasuki-*"))
    assert place.actions() == ["there"] * 4 + ["by_hand"]

    added, _ = toml_text.add_table(TOML, ("mcp_servers", "tasuki"), place.additions()[-1].body)
    place.toml.chmod(0o600)
    place.toml.write_text(added)
    place.toml.chmod(0o400)
    assert set(place.actions()) == {"there"}
    removal = place.installer.plan_removal("x", place.additions())
    assert added.replace(removal.to_remove[str(place.toml)], "") == TOML
    place.uninstall()
    assert place.toml.read_text() == added
    assert {name: content for name, content in place.everything().items() if name != "config.toml"} == {
        name: content for name, content in before.items() if name != "config.toml"
    }  # fmt: skip


def test_an_older_part_in_a_file_that_may_not_be_written_is_told(place: Place) -> None:
    """What is to be removed, and what takes its place; the record stays until that is done."""
    place.install()
    place.settings.chmod(0o400)
    server = JsonEntry(str(place.settings), ("hooks", "Stop"), hook("tasuki hook 2"), "a hook")
    plan = place.installer.plan("x", (server,))

    assert "tasuki hook; /opt" in plan.to_remove[str(place.settings)]
    assert "tasuki hook 2; /opt" in plan.to_add[str(place.settings)]
    assert json.loads(plan.to_add[str(place.settings)]) == {"hooks": {"Stop": [server.value]}}
    place.install((server,))
    assert "TASUKI_INSTALLED" in place.settings.read_text()
    assert str(place.settings) in (place.installer.data / "installed.json").read_text()


def test_a_full_disk_leaves_all_as_it_was(place: Place) -> None:
    """Where the last file does not fit, none is changed; the limit on file sizes stands for the disk."""
    place.toml.write_text(TOML + "# " + "x" * 30_000 + "\n")
    before = place.everything()
    script = (
        "import resource, signal; from pathlib import Path; from test_install import Place;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000));"
        f"Place(Path({str(place.home.parent)!r})).install()"
    )
    path = os.pathsep.join((str(Path(__file__).parent), *IMPORTABLE))
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False
    )

    assert "InstallFailed: Cannot write" in done.stderr
    assert "Nothing was changed." in done.stderr
    assert place.everything() == before
    assert not (place.home / "commands").exists()


def test_two_at_once_end_in_one_installation(place: Place) -> None:
    """Several processes that install at the same time leave one of everything."""
    script = (
        "from pathlib import Path; from test_install import Place;"
        f"from tasuki.errors import InstallFailed; place = Place(Path({str(place.home.parent)!r}))\n"
        "try: place.install()\n"
        "except InstallFailed as error: assert 'changed' in str(error), error"
    )
    path = os.pathsep.join((str(Path(__file__).parent), *IMPORTABLE))
    env = {**os.environ, "PYTHONPATH": path}
    running = [subprocess.Popen([sys.executable, "-c", script], env=env) for _ in range(4)]
    assert [one.wait(60) for one in running] == [0, 0, 0, 0]

    assert place.settings.read_text().count(": tasuki hook;") == 2
    assert place.toml.read_text().count("[mcp_servers.tasuki]") == 1
    place.uninstall()
    assert place.everything() == {"settings.json": SETTINGS.encode(), "config.toml": TOML.encode()}


def test_who_comes_second_waits(place: Place) -> None:
    """While another tasuki installs, nothing is written; then it goes on."""
    place.installer.data.mkdir()
    with (place.installer.data / "installed.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = threading.Thread(target=place.install)
        waiting.start()
        waiting.join(0.5)
        assert waiting.is_alive()
        assert place.settings.read_text() == SETTINGS
    waiting.join(20)
    assert "tasuki hook" in place.settings.read_text()


def test_a_change_between_showing_and_writing_is_noticed(place: Place) -> None:
    """What would be done now must be what was shown."""
    plan = place.installer.plan("x", place.additions())
    place.toml.unlink()
    with pytest.raises(InstallFailed, match="changed while they were being read"):
        place.installer.apply_plan("x", place.additions(), plan)

    assert place.settings.read_text() == SETTINGS


def test_a_damaged_record_is_no_obstacle(place: Place) -> None:
    """The marks tell what is ours."""
    place.install()
    (place.installer.data / "installed.json").write_text("{")
    place.uninstall()

    assert place.settings.read_text() == SETTINGS


def test_the_record_holds_nothing_of_the_users(place: Place) -> None:
    """It remembers our own text alone: settings hold keys."""
    place.settings.write_text('{"env": {"SECRET": "hunter2-hunter2"}}')
    place.install()
    record = place.installer.data / "installed.json"

    assert "hunter2" not in record.read_text()
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    msgspec.json.decode(record.read_bytes())


def test_the_state_of_each_part_names_the_programs_that_it_runs(place: Place) -> None:
    """So that it is seen when a program is gone."""
    place.install()
    found = list(place.installer.list_parts("x", place.additions()))

    assert [standing.state for standing in found] == ["there"] * 5
    assert found[1].programs == ("/opt/tasuki",)
    assert found[4].programs == ("/opt/tasuki",)
