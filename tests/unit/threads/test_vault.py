"""Handoffs are kept whole or not at all, for the user alone, and are never rewritten."""

import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from handoffs import event, made
from tree import SUPPORT

from tasuki import prepare_handoff
from tasuki.errors import HandoffNotFound, StoreFailed
from tasuki.vault import Vault, create_handoff_id, derive_state
from tasuki_testing import story


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    """A vault in a folder that does not exist yet."""
    return Vault(tmp_path / "deep" / "data" / "handoffs")


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB of its own."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("mounting needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_what_is_saved_comes_back(vault: Vault) -> None:
    """A handoff and its brief come back to the letter."""
    handoff = made()

    folder = vault.save(handoff, "# Brief\r\n\ttabs, ✓ and no newline at the end")

    assert folder == vault.root / handoff.id
    assert handoff == vault.get(handoff.id)
    assert vault.load_brief(handoff.id[:6]) == "# Brief\r\n\ttabs, ✓ and no newline at the end"
    assert [handoff] == vault.list_handoffs()
    assert vault.problems == []


def test_only_the_user_can_read(vault: Vault) -> None:
    """Folders are 0700 and files 0600, whatever the umask."""
    old = os.umask(0)
    try:
        folder = vault.save(made(), "brief")
        vault.append_event(folder.name, event("started"))
    finally:
        os.umask(old)

    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (folder, *folder.iterdir())}
    assert {
        folder.name: 0o700,
        "handoff.json": 0o600,
        "brief.md": 0o600,
        "events.jsonl": 0o600,
    } == (modes)
    assert stat.S_IMODE(vault.root.stat().st_mode) == 0o700
    assert stat.S_IMODE(vault.root.parent.stat().st_mode) == 0o700


def test_data_folder_follows_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TASUKI_DATA names the data folder."""
    monkeypatch.setenv("TASUKI_DATA", str(tmp_path / "elsewhere"))

    assert tmp_path / "elsewhere" / "handoffs" == Vault().root


def test_import_is_light() -> None:
    """platformdirs is not imported before the default folder is needed."""
    code = "import sys, tasuki.vault; print('platformdirs' in sys.modules)"

    out = subprocess.check_output([sys.executable, "-c", code], text=True)

    assert out.strip() == "False"


def test_ids_are_random_and_valid() -> None:
    """An id is 32 hexadecimal digits, and no two are the same."""
    ids = {create_handoff_id() for _ in range(1000)}

    assert len(ids) == 1000
    assert all(len(id) == 32 and int(id, 16) >= 0 for id in ids)


@pytest.mark.parametrize(
    "id", ["../../../../tmp/x", "A" * 32, "a" * 31, "a" * 33, "/etc", "a" * 32 + "\n", "." * 32, ""]
)
def test_an_id_is_checked_before_it_becomes_a_path(vault: Vault, id: str) -> None:
    """A handoff with a foreign id is not stored, and nothing is made for it."""
    with pytest.raises(StoreFailed, match="32 hexadecimal digits"):
        vault.save(msgspec.structs.replace(made(), id=id), "brief")

    assert not vault.root.exists()


@pytest.mark.parametrize("prefix", ["", "abc", "..", "../x", "xyzw", "a" * 33, "abcd/", "ab\0cd"])
def test_a_prefix_is_checked(vault: Vault, prefix: str) -> None:
    """What is no prefix of an id is refused with what is needed."""
    with pytest.raises(HandoffNotFound, match="first 4 digits"):
        vault.get(prefix)


def test_unknown_and_ambiguous_prefixes(vault: Vault) -> None:
    """An unknown prefix names the folder looked in; an ambiguous one lists what it could be."""
    for tail in "01":
        vault.save(made("abcd" + tail * 28), "brief")

    with pytest.raises(HandoffNotFound, match=r"No handoff 9999 is stored in .*handoffs"):
        vault.get("9999")
    with pytest.raises(HandoffNotFound, match=r"2 handoffs begin with abcd: abcd0000, abcd1111"):
        vault.get("abcd")
    assert vault.get("ABCD1").id == "abcd" + "1" * 28


def test_newest_first(vault: Vault) -> None:
    """Handoffs are listed by the time they were made, newest first."""
    days = ["2025-11-03T00:00:00Z", "2025-11-01T00:00:00Z", "2025-11-02T00:00:00Z"]
    for day in days:
        vault.save(made(created=day), "brief")

    assert sorted(days, reverse=True) == [handoff.created for handoff in vault.list_handoffs()]


def test_damaged_folders_are_reported(vault: Vault) -> None:
    """A damaged handoff does not hide the others; it is named, with its brief."""
    good, empty, wrong, moved = made(), made(), made(), made()
    for handoff in (good, empty, wrong, moved):
        vault.save(handoff, "brief")
    (vault.root / empty.id / "handoff.json").write_text("")
    (vault.root / wrong.id / "handoff.json").write_text('{"id": 7}')
    (vault.root / moved.id).rename(vault.root / ("0" * 32))
    (vault.root / "notes.txt").write_text("not ours")

    assert [good] == vault.list_handoffs()
    assert len(vault.problems) == 3
    assert any(empty.id in problem for problem in vault.problems)
    with pytest.raises(HandoffNotFound, match=r"may still be readable: .*brief\.md"):
        vault.get(wrong.id)
    assert vault.load_brief(wrong.id) == "brief"


def test_what_is_stored_is_never_rewritten(vault: Vault) -> None:
    """Saving a second handoff under the same id fails and changes nothing."""
    first = made()
    vault.save(first, "first")

    with pytest.raises(StoreFailed, match="never rewritten"):
        vault.save(made(first.id, goal="Something else altogether"), "second")

    assert first == vault.get(first.id)
    assert vault.load_brief(first.id) == "first"
    assert [first.id] == os.listdir(vault.root)


def test_events_are_appended(vault: Vault) -> None:
    """Events come back in order; the handoff itself stays as it is."""
    handoff = made()
    folder = vault.save(handoff, "brief")
    before = (folder / "handoff.json").read_bytes()

    for kind in ("drafted", "started", "delivered"):
        vault.append_event(handoff.id[:8], event(kind, pane="%1\n✓"))

    assert [e.kind for e in vault.load_events(handoff.id)] == ["drafted", "started", "delivered"]
    assert vault.load_events(handoff.id)[0].detail["pane"] == "%1\n✓"
    assert (folder / "events.jsonl").read_bytes().count(b"\n") == 3
    assert before == (folder / "handoff.json").read_bytes()


def test_no_events_yet(vault: Vault) -> None:
    """A handoff without events is a draft."""
    handoff = made()
    vault.save(handoff, "brief")

    assert vault.load_events(handoff.id) == []
    assert vault.load_state(handoff.id) == "draft"


def test_a_truncated_last_line_is_accepted(vault: Vault) -> None:
    """A line cut off by a killed process is left out, and the next event stands on its own."""
    folder = vault.save(made(), "brief")
    vault.append_event(folder.name, event("started"))
    with (folder / "events.jsonl").open("ab") as stream:
        stream.write(b'{"at":"2025-11-02T10:00:01Z","kind":"deliv')

    assert [e.kind for e in vault.load_events(folder.name)] == ["started"]
    vault.append_event(folder.name, event("acknowledged"))
    assert [e.kind for e in vault.load_events(folder.name)] == ["started", "acknowledged"]


@pytest.mark.parametrize(
    ("kinds", "state"),
    [
        ("", "draft"),
        ("drafted drift", "draft"),
        ("drafted started", "started"),
        ("started failed", "failed"),
        ("started intent", "uncertain"),
        ("started intent delivered", "delivered"),
        ("started delivered acknowledged drift", "acknowledged"),
        ("started acknowledged delivered", "acknowledged"),
        ("started delivered failed", "delivered"),
        ("started uncertain failed", "failed"),
        ("started failed started", "started"),
        ("started acknowledged started", "started"),
        ("something-new", "draft"),
    ],
)
def test_state_follows_from_events(kinds: str, state: str) -> None:
    """The state is the furthest point that the last start is known to have reached."""
    assert state == derive_state([event(kind) for kind in kinds.split()])


def test_cited_entries_can_be_opened(vault: Vault) -> None:
    """Cited text is there when the thread is not; unknown references are left out."""
    handoff = made()
    vault.save(handoff, "brief")

    kept = {citation.ref: citation.text for citation in vault.get(handoff.id).citations}
    assert [kept[ref] for ref in (9, 3) if ref in kept] == ["always"]


def test_two_processes_save_at_once(vault: Vault) -> None:
    """Eight processes that save and append at once lose nothing."""
    shared = made()
    vault.save(shared, "brief")
    code = (
        "import sys; sys.path.insert(0, sys.argv[3]);"
        "from pathlib import Path; from handoffs import *; from tasuki.vault import *;"
        "v = Vault(Path(sys.argv[1]))\n"
        "for n in range(25):\n"
        "    v.save(made(), 'brief'); v.append_event(sys.argv[2], event('drift', x='y' * 3000))\n"
    )
    here = str(SUPPORT)
    command = [sys.executable, "-c", code, str(vault.root), shared.id, here]

    workers = [subprocess.Popen(command) for _ in range(8)]

    assert [worker.wait() for worker in workers] == [0] * 8
    assert len(vault.list_handoffs()) == 201
    assert len(vault.load_events(shared.id)) == 200
    assert [name for name in os.listdir(vault.root) if name.startswith(".")] == []


def test_one_id_is_won_once(vault: Vault) -> None:
    """Of processes that save the same id at once, exactly one succeeds."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]);"
        "from pathlib import Path; from handoffs import *; from tasuki.vault import *;"
        "v = Vault(Path(sys.argv[1]))\n"
        "try: v.save(made('ab' * 16), 'brief')\n"
        "except Exception as e: sys.exit(9 if type(e).__name__ == 'StoreFailed' else 1)\n"
    )
    command = [sys.executable, "-c", code, str(vault.root), str(SUPPORT)]

    ends = sorted(w.wait() for w in [subprocess.Popen(command) for _ in range(4)])

    assert ends == [0, 9, 9, 9]
    assert vault.load_brief("abab") == "brief"


def test_a_killed_process_leaves_nothing_visible(vault: Vault) -> None:
    """A process killed in the middle of a save leaves no handoff; its remains go an hour later."""
    vault.save(made(), "brief")
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[2]);"
        "from pathlib import Path; import tasuki.vault.store as store; from handoffs import *; from tasuki.vault import *\n"
        "store.sync_folder = lambda folder: os.kill(os.getpid(), 9)\n"
        "Vault(Path(sys.argv[1])).save(made(), 'half')\n"
    )
    command = [sys.executable, "-c", code, str(vault.root), str(SUPPORT)]

    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL

    left = [name for name in os.listdir(vault.root) if name.startswith(".new-")]
    assert len(left) == 1
    assert len(vault.list_handoffs()) == 1
    assert vault.problems == []
    vault.save(made(), "brief")
    assert (vault.root / left[0]).exists()
    hour_ago = time.time() - 3700
    os.utime(vault.root / left[0], (hour_ago, hour_ago))
    vault.save(made(), "brief")
    assert not (vault.root / left[0]).exists()


def test_disk_full(mount: Path) -> None:
    """On a full disk the error says so, nothing half-written stays, and old ones stay readable."""
    vault = Vault(mount / "handoffs")
    kept = made()
    vault.save(kept, "brief")

    with pytest.raises(StoreFailed, match="the disk is full"):
        vault.save(made(), "x" * 1_000_000)

    assert [kept.id] == os.listdir(vault.root)
    assert [kept] == vault.list_handoffs()


def test_the_last_room_on_a_disk_is_for_the_handoff(
    mount: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read of the thread is kept only behind it, where room is left."""
    long = "".join(f"\n\nCase {n} of the parser is checked." for n in range(1_500))
    thread = story("claude").user(f"Look at these.{long}").assistant("Done.").write(tmp_path)

    def hand_off(data: Path) -> list[int]:
        monkeypatch.setenv("TASUKI_DATA", str(data))
        assert prepare_handoff(str(thread), "cover the parser with tests").stored
        files = [one for one in data.rglob("*") if one.is_file()]
        kept = [(one.stat().st_size + 4_095) // 4_096 for one in files if "cache" in one.parts]
        return [sum((one.stat().st_size + 4_095) // 4_096 for one in files) - sum(kept), *kept]

    handoff, kept = hand_off(tmp_path / "data")
    pages = 64 - max(handoff, kept) - 1
    (mount / "other").write_bytes(b"x" * 4_096 * pages)

    assert hand_off(mount / "data") == [handoff]


def test_disk_full_while_appending(mount: Path) -> None:
    """An event that does not fit is refused, and those before it stay as they were."""
    vault = Vault(mount / "handoffs")
    kept = made()
    vault.save(kept, "brief")
    vault.append_event(kept.id, event("started"))

    with pytest.raises(StoreFailed, match=r"event could not be added .* the disk is full"):
        vault.append_event(kept.id, event("drift", text="x" * 1_000_000))

    assert [e.kind for e in vault.load_events(kept.id)] == ["started"]
    vault.append_event(kept.id, event("delivered"))
    assert vault.load_state(kept.id) == "delivered"


def test_file_size_limit(vault: Vault) -> None:
    """A file size limit of the process is named."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises(StoreFailed, match="file size limit"):
            vault.save(made(), "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)

    assert vault.list_handoffs() == []


def test_read_only(mount: Path) -> None:
    """A read-only file system is named as one, and what is on it can be read."""
    vault = Vault(mount / "handoffs")
    kept = made()
    vault.save(kept, "brief")
    subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)

    with pytest.raises(StoreFailed, match="read-only"):
        vault.save(made(), "brief")
    with pytest.raises(StoreFailed, match="read-only"):
        vault.append_event(kept.id, event("started"))
    assert [kept] == vault.list_handoffs()


def test_no_permission(tmp_path: Path) -> None:
    """A folder that may not be written to is named, with another way."""
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    lock = ["chattr", "+i", str(locked)]
    if os.geteuid() == 0 and subprocess.run(lock, check=False, capture_output=True).returncode:
        pytest.skip("root may write everywhere here: no chattr")
    try:
        with pytest.raises(StoreFailed, match=r"no permission .* TASUKI_DATA"):
            Vault(locked / "handoffs").save(made(), "brief")
    finally:
        if os.geteuid() == 0:
            subprocess.run(["chattr", "-i", str(locked)], check=True)


def test_a_file_in_the_way() -> None:
    """A file where the folder should be is named as one."""
    with tempfile.NamedTemporaryFile() as file:
        with pytest.raises(StoreFailed, match="is a file, not a folder"):
            Vault(Path(file.name)).save(made(), "brief")
        assert Vault(Path(file.name)).list_handoffs() == []


def test_a_goal_that_no_file_can_hold(vault: Vault) -> None:
    """A lone surrogate, as a broken argument brings it, is refused with a sentence."""
    with pytest.raises(StoreFailed, match="Remove it from the goal"):
        vault.save(made(goal="broken \udc80 argument"), "brief")

    assert vault.list_handoffs() == []


def test_stored_form_is_stable(vault: Vault) -> None:
    """handoff.json is indented JSON for people, with its version."""
    folder = vault.save(made(), "brief")

    text = (folder / "handoff.json").read_text()

    assert json.loads(text)["version"] == 1
    assert text.startswith("{\n  ")
