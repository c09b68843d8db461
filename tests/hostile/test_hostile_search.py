"""Finding and reading under hostile names, times, words and neighbours."""

import json
import os
import re
import shutil
import sqlite3
from pathlib import Path

import pytest
from command_line import GOAL, SECRET, World
from handoffs import made
from msgspec.structs import replace

from tasuki.handoffs import create_event
from tasuki.vault import Vault
from tasuki_testing import ThreadBuilder

ESCAPE = "\x1b]0;PWNED\x07"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A fresh world."""
    return World(tmp_path)


def thread(seed: int = 1, cwd: str = "/home/dev/proj") -> ThreadBuilder:
    """An empty thread of Claude Code."""
    return ThreadBuilder("claude", cwd=cwd, seed=seed)


def test_a_secret_at_the_cut_of_the_first_words_does_not_leave_by_half(world: World) -> None:
    """The words are redacted before they are cut for the list."""
    world.thread(thread().user("quokka " + "a" * 90 + " token " + SECRET).assistant("ok"))

    assert SECRET[:9] not in world.run("find", "quokka").stdout


def test_folders_hold_no_escape_sequence_and_no_secret(world: World) -> None:
    """What a thread says of its folder is cleaned like its words."""
    world.thread(thread(cwd=f"/tmp/{ESCAPE}x").user("quokka"))
    world.thread(thread(2, cwd=f"/tmp/{SECRET}").user("quokka"))
    for arguments in (("find", "quokka"), ("threads", "--all")):
        assert "\x1b" not in world.run(*arguments).stdout
    assert SECRET[4:] not in world.run("find", "quokka").stdout


@pytest.mark.parametrize("more", [(), ("quokka?",), ("--json",), ("--markdown",)])
def test_times_are_cleaned_too(world: World, more: tuple[str, ...]) -> None:
    """A time that is no time leaves without what moves a cursor, and without its secret."""
    path = world.thread(thread().user("quokka").assistant("x"))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**r, "timestamp": ESCAPE + SECRET}) + "\n" for r in rows))
    out = world.run("read", str(path), *more).stdout

    assert out
    assert "\x1b" not in out
    assert SECRET[4:] not in out


def test_names_of_broken_files_are_cleaned(world: World) -> None:
    """What cannot be indexed is told without the escape sequence of its name."""
    path = world.thread(thread().user("quokka"))
    (path.parent / f"b{ESCAPE}.jsonl").write_text("garbage\n")
    done = world.run("find", "quokka")

    assert "PWNED" in done.stderr or "jsonl" in done.stderr
    assert "\x1b" not in done.stderr


def test_one_name_that_is_no_text_does_not_end_a_search(world: World) -> None:
    """It is told, and the others are found."""
    path = world.thread(thread().user("quokka"))
    shutil.copy(path, os.fsencode(path.parent) + b"/bad\xff.jsonl")
    done = world.run("find", "quokka")

    assert done.returncode == 0
    assert "is not UTF-8; it cannot be searched" in done.stderr
    assert "Traceback" not in done.stderr


def test_one_link_in_a_circle_does_not_end_a_search(world: World) -> None:
    """Nothing behind it is read."""
    world.thread(thread().user("quokka"))
    folder = world.home / ".gemini" / "tmp"
    folder.mkdir(parents=True)
    (folder / "loop").symlink_to("loop")

    assert world.run("find", "quokka").returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [("find", "repo:\udcff"), ("find", "quokka", "file:\udcff", "--json"),
     ("read", "@1", "why quokka \udcff", "--json"), ("read", "@1", "why quokka \udcff")],
)  # fmt: skip
def test_words_that_are_no_text_are_no_traceback(world: World, arguments: tuple[str, ...]) -> None:
    """Bytes of the command line that are no UTF-8 are looked for in vain."""
    world.thread(thread(cwd=str(world.project)).user("quokka"))

    assert "Traceback" not in world.run(*arguments).stderr


@pytest.mark.parametrize(
    ("arguments", "found"),
    [(("repo:proj -apricot",), False), (("-apricot quokka",), False), (("-banana quokka",), True),
     (("repo:proj -banana",), True), (("quokka", "-http"), True)],
)  # fmt: skip
def test_unwanted_words_stand_anywhere(
    world: World, arguments: tuple[str, ...], found: bool
) -> None:
    """Before the wanted ones, with filters alone, and with letters that are flags elsewhere."""
    world.thread(thread().user("quokka apricot"))
    done = world.run("find", *arguments)

    assert "Usage" not in done.stdout
    assert (done.returncode == 0) == found


@pytest.mark.parametrize(
    "filter", ["/home/dev/proj/src/login.py", "./src/login.py", "login.py", "app/[id]/*.tsx", "app/[id]/page.tsx"]
)  # fmt: skip
def test_a_file_is_found_however_it_is_named(world: World, filter: str) -> None:
    """Absolute, relative, by its end, and with brackets in its name."""
    world.thread(
        thread()
        .user("x")
        .edit("/home/dev/proj/src/login.py", "a", "b")
        .edit("app/[id]/page.tsx", "a", "b")
    )

    assert world.run("find", f"file:{filter}").returncode == 0


@pytest.mark.parametrize("words", ["タイムアウト", "uberprufe", "cafe\u0301s"])
def test_lines_are_shown_in_any_script(world: World, words: str) -> None:
    """Words without blanks between them, without accents, or with them apart, lead to a line."""
    path = world.thread(
        thread()
        .user("これは接続のタイムアウトを直して")
        .assistant("Überprüfe den Zugang des Cafés")
    )

    assert "    #" in world.run("find", words).stdout
    assert world.run("read", str(path), f"{words}?").returncode == 0


def test_a_long_thread_does_not_hide_others(world: World) -> None:
    """A word that fills the newest thread is found in the older ones too."""
    path = world.thread(thread(1).user("apricot the decision"))
    os.utime(path, (1e9, 1e9))
    long = thread(2).user("start")
    for n in range(600):
        long.shell("make", f"apricot {n} " + "lorem ipsum " * 400)
    world.thread(long)

    assert len(json.loads(world.run("find", "apricot", "--json").stdout)["threads"]) == 2


def test_a_label_opens_where_one_id_is_in_two_files(world: World) -> None:
    """What is printed to open a hit opens one, though its id does not tell which."""
    path = world.thread(thread().user("quokka"))
    other = path.parent.parent / "-other"
    other.mkdir()
    shutil.copy(path, other)
    label = re.search(r"tasuki read (\S+)", world.run("find", "quokka").stderr)

    assert label
    assert world.run("read", label[1]).returncode == 0


def test_the_database_of_another_program_is_left_alone(world: World) -> None:
    """A file of the index's name that is not ours is refused, with the way out."""
    world.data.mkdir()
    with sqlite3.connect(world.data / "index.db") as database:
        database.execute("CREATE TABLE mine (x)")
    done = world.run("find", "x")

    assert done.returncode == 1
    assert "TASUKI_DATA" in done.stderr
    with sqlite3.connect(world.data / "index.db") as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]


def test_a_kept_handoff_protects_a_parent_known_by_its_beginning(
    tmp_path: Path, world: World
) -> None:
    """A child that names only the first digits of its parent keeps it from being pruned."""
    vault = Vault(world.data / "handoffs")
    parent = made(created="2020-01-01T00:00:00Z")
    child = made(created="2099-01-01T00:00:00Z", parent=parent.id[:8])
    lone = made(created="2020-01-02T00:00:00Z")
    for handoff in (parent, child, lone):
        vault.save(handoff, f"## Next Goal (verbatim)\n{handoff.goal.text}")
    world.run("handoffs", "prune", "--older-than", "30", "--yes")

    assert {h.id for h in vault.list_handoffs()} == {parent.id, child.id}


def test_nothing_is_pruned_while_a_handoff_cannot_be_read(world: World) -> None:
    """Its descent is unknown, so nothing tells that the others may go."""
    vault = Vault(world.data / "handoffs")
    parent, child = made(created="2020-01-01T00:00:00Z"), made(created="2020-01-03T00:00:00Z")
    for handoff in (parent, child):
        vault.save(handoff, "brief")
    (vault.root / child.id / "handoff.json").write_text("{")
    done = world.run("handoffs", "prune", "--older-than", "30", "--yes")

    assert done.returncode == 1
    assert "Nothing is deleted while a handoff cannot be read" in done.stderr
    assert [h.id for h in vault.list_handoffs()] == [parent.id]


def test_events_that_cannot_be_read_keep_a_handoff(world: World) -> None:
    """What happened to it is uncertain, so it stays, and the others are listed and pruned."""
    vault = Vault(world.data / "handoffs")
    odd, plain = made(created="2020-01-01T00:00:00Z"), made(created="2020-01-02T00:00:00Z")
    for handoff in (odd, plain):
        vault.save(handoff, "brief")
    (vault.root / odd.id / "events.jsonl").mkdir()
    world.run("handoffs", "prune", "--older-than", "30", "--yes")

    assert [h.id for h in vault.list_handoffs()] == [odd.id]


@pytest.mark.parametrize("brief", ["", "# Handoff Context\nwithout its end"])
def test_a_damaged_brief_is_not_started(world: World, brief: str) -> None:
    """A stored brief that lost its goal starts nothing, and says so."""
    vault = Vault(world.data / "handoffs")
    handoff = made(goal=GOAL, to="claude")
    vault.save(handoff, brief)
    vault.append_event(handoff.id, create_event("drafted"))
    done = world.run("start", handoff.id[:8], "--tmux", "--yes")

    assert done.returncode == 1
    assert "its goal is not in it" in done.stderr
    assert [e.kind for e in vault.load_events(handoff.id)] == ["drafted"]


def test_a_path_with_a_nul_is_a_thread_that_is_gone(world: World) -> None:
    """What the handoff kept is read instead."""
    vault = Vault(world.data / "handoffs")
    handoff = made(goal=GOAL, to="claude")
    handoff = replace(handoff, predecessor=replace(handoff.predecessor, path="/tmp/a\0b.jsonl"))
    vault.save(handoff, f"## Next Goal (verbatim)\n{GOAL}")
    done = world.run("read", handoff.id[:8])

    assert done.returncode == 0
    assert "as stored with the handoff" in done.stdout
    assert "Traceback" not in done.stderr
