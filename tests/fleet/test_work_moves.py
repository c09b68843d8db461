"""Uncommitted work moves from one clone to another, byte for byte, and comes back."""

import os
import random
import subprocess
from pathlib import Path

import pytest
from checkouts import Pair, change_files, commit_all, git, make_pair, read_state

from tasuki.errors import NotPossible
from tasuki.fleet.handoff.bundles.arrivals import remove_arrival, undo_unpack, unpack_work
from tasuki.fleet.handoff.bundles.packs import PackedWork, pack_work, remove_pack
from tasuki.fleet.handoff.bundles.places import WorkPlace, plan_place
from tasuki.fleet.handoff.bundles.repositories import describe_repository
from tasuki.fleet.store.failures import StepFailed

ID = "move-1"


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """An origin with two clones."""
    return make_pair(tmp_path)


def move(pair: Pair, wanted: str = "") -> tuple[PackedWork, WorkPlace]:
    """Pack the source's work and unpack it on the target."""
    packed = pack_work(str(pair.source), ID)
    place = pair.plan(packed, wanted=wanted)
    unpack_work(str(pair.target), place, packed, ID)
    return packed, place


def test_every_kind_of_change_travels_in_place(pair: Pair) -> None:
    """Staged, unstaged, both, deleted, renamed, new, modes and links; ignored files stay."""
    change_files(pair.source)
    before = read_state(pair.source)
    packed, place = move(pair)

    assert place == WorkPlace(str(pair.target), "main", True)
    assert read_state(pair.target) == before == read_state(pair.source)
    assert not (pair.target / "noise.log").exists()
    assert "new/notes.txt" in packed.files
    assert any("noise.log" in note for note in packed.left_out)
    assert git(pair.target, "symbolic-ref", "HEAD") == "refs/heads/main"


def test_packing_leaves_the_repository_as_it_is(pair: Pair) -> None:
    """Index file, stash, branches, reflog and all files; only one reference is new, until it is removed."""
    change_files(pair.source)
    (pair.source / "held").write_text("x")
    git(pair.source, "stash", "push", "-q", "--", "src/upload.py")
    references = git(pair.source, "for-each-ref")
    index = (pair.source / ".git" / "index").read_bytes()
    reflog = git(pair.source, "reflog")
    first = pack_work(str(pair.source), ID)

    assert pack_work(str(pair.source), ID) == first
    assert (pair.source / ".git" / "index").read_bytes() == index
    assert git(pair.source, "reflog") == reflog
    assert git(pair.source, "rev-parse", f"refs/tasuki/moves/{ID}") == first.work_commit
    remove_pack(str(pair.source), ID)
    remove_pack(str(pair.source), ID)
    assert git(pair.source, "for-each-ref") == references


def test_describing_changes_nothing(pair: Pair) -> None:
    """Not even the times that the index keeps, though a file was touched."""
    os.utime(pair.source / "run.sh", (1, 1))
    index = (pair.source / ".git" / "index").read_bytes()
    state = describe_repository(str(pair.source / "src"))

    assert (pair.source / ".git" / "index").read_bytes() == index
    assert (state.top, state.inside, state.branch) == (str(pair.source), "src", "main")
    assert (state.origin, state.published) == (str(pair.origin).removesuffix(".git"), True)
    assert (state.dirty, state.problem) == ((), "")
    change_files(pair.source)
    commit_all(pair.source, "more")
    assert not describe_repository(str(pair.source)).published
    git(pair.source, "checkout", "-q", "--detach")
    assert describe_repository(str(pair.source)).branch == ""


def test_nothing_travels_if_all_is_published(pair: Pair) -> None:
    """The target fetches what it lacks from the origin; its remote-tracking branches stay."""
    (pair.source / "README").write_text("second\n")
    commit = commit_all(pair.source, "second")
    git(pair.source, "push", "-q")
    packed, place = move(pair)

    assert (packed.bundle, packed.work_commit, packed.files) == (b"", "", ())
    assert place == WorkPlace(f"{pair.target}-dev-1", "move/dev-1", False)
    assert git(Path(place.folder), "rev-parse", "HEAD") == commit
    assert read_state(Path(place.folder)) == read_state(pair.source)


def test_unpublished_commits_travel(pair: Pair) -> None:
    """With their messages, onto a branch of their own, since the target does not know them before."""
    (pair.source / "README").write_text("second\n")
    commit_all(pair.source, "second")
    (pair.source / "README").write_text("third\n")
    commit_all(pair.source, "third")
    change_files(pair.source)
    _, place = move(pair)

    assert not place.in_place
    assert read_state(Path(place.folder)) == read_state(pair.source)
    assert git(Path(place.folder), "log", "--format=%s") == "third\nsecond\nstart"
    assert git(pair.target, "status", "--porcelain") == ""


def test_an_older_checkout_is_fast_forwarded(pair: Pair) -> None:
    """If it knows the commit and is clean on that branch."""
    (pair.source / "README").write_text("second\n")
    (pair.source / "src" / "client.py").unlink()
    commit = commit_all(pair.source, "second")
    git(pair.source, "push", "-q")
    git(pair.target, "fetch", "-q")
    before = git(pair.target, "rev-parse", "HEAD")
    (pair.source / "README").write_text("third\n")
    (pair.source / "src" / "new.py").write_text("")
    _, place = move(pair)

    assert place.in_place
    assert git(pair.target, "rev-parse", "main") == commit
    assert read_state(pair.target) == read_state(pair.source)
    assert "as it was before" in undo_unpack(str(pair.target), place, ID)
    assert git(pair.target, "rev-parse", "main") == before
    assert git(pair.target, "status", "--porcelain") == ""
    assert git(pair.target, "for-each-ref", "refs/tasuki") == ""
    assert (pair.target / "src" / "client.py").exists()
    assert undo_unpack(str(pair.target), place, ID) == "Nothing was unpacked."


@pytest.mark.parametrize(
    "why", ["dirty", "untracked", "branch", "ahead", "merge", "wanted", "sparse"]
)
def test_it_lands_beside_a_checkout_that_is_not_free(pair: Pair, why: str, tmp_path: Path) -> None:
    """One that is changed, on another branch, ahead, in a merge or partly checked out is left alone."""
    change_files(pair.source)
    wanted = str(tmp_path / "elsewhere") if why == "wanted" else ""
    if why == "dirty":
        (pair.target / "README").write_text("theirs\n")
    if why == "untracked":
        (pair.target / "theirs.txt").write_text("theirs\n")
    if why == "branch":
        git(pair.target, "checkout", "-q", "-b", "other")
    if why == "ahead":
        git(pair.target, "commit", "-q", "--allow-empty", "-m", "theirs")
    if why == "merge":
        (pair.target / ".git" / "MERGE_HEAD").write_text(
            git(pair.target, "rev-parse", "HEAD") + "\n"
        )
    if why == "sparse":
        git(pair.target, "sparse-checkout", "set", "src")
    before = read_state(pair.target)
    _, place = move(pair, wanted)

    assert place == WorkPlace(wanted or f"{pair.target}-dev-1", "move/dev-1", False)
    assert read_state(pair.target) == before
    assert read_state(Path(place.folder)) == read_state(pair.source)


def test_names_are_free(pair: Pair) -> None:
    """A folder or a branch that exists is not taken."""
    git(pair.target, "branch", "move/dev-1")
    (pair.target.parent / "target-dev-1").mkdir()
    git(pair.target, "checkout", "-q", "-b", "other")
    change_files(pair.source)
    _, place = move(pair)

    assert place == WorkPlace(f"{pair.target}-dev-1-2", "move/dev-1-2", False)


def test_a_branch_may_be_named_move(pair: Pair) -> None:
    """Then no branch can be in a folder of that name."""
    git(pair.target, "checkout", "-q", "-b", "move")
    change_files(pair.source)
    _, place = move(pair)

    assert place.branch == "move-dev-1"
    assert read_state(Path(place.folder)) == read_state(pair.source)


def test_what_is_remembered_can_be_removed(pair: Pair) -> None:
    """The work stays, and a call by mistake overwrites nothing."""
    change_files(pair.source)
    packed, place = move(pair)
    remove_arrival(str(pair.target), ID)
    remove_arrival(str(pair.target), ID)

    assert git(pair.target, "for-each-ref", "refs/tasuki") == ""
    assert undo_unpack(str(pair.target), place, ID) == "Nothing was unpacked."
    with pytest.raises(StepFailed, match="changed files by now"):
        unpack_work(str(pair.target), place, packed, ID)
    assert read_state(pair.target) == read_state(pair.source)


def test_a_second_call_finds_that_it_is_done(pair: Pair) -> None:
    """And overwrites nothing that was changed meanwhile."""
    change_files(pair.source)
    packed, place = move(pair)
    (pair.target / "src" / "upload.py").write_text("LIMIT = 4\n")

    assert unpack_work(str(pair.target), place, packed, ID) == f"{place.folder} is there"
    assert (pair.target / "src" / "upload.py").read_text() == "LIMIT = 4\n"


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("what", ["nothing", "file", "index", "commit", "untracked", "branch", "ignored"])  # fmt: skip
def test_only_unchanged_work_is_taken_back(pair: Pair, what: str, in_place: bool) -> None:
    """Whatever was done since is left as it is; ignored files count in a worktree, which would be removed."""
    change_files(pair.source)
    if not in_place:
        git(pair.target, "checkout", "-q", "-b", "other")
    original = read_state(pair.target)
    _, place = move(pair)
    folder = Path(place.folder)
    if what == "file":
        (folder / "src" / "upload.py").write_text("LIMIT = 4\n")
    if what == "index":
        git(folder, "add", "new/notes.txt")
    if what == "commit":
        git(folder, "commit", "-q", "--allow-empty", "-m", "theirs")
    if what == "untracked":
        (folder / "theirs.txt").write_text("")
    if what == "branch":
        git(folder, "checkout", "-q", "-b", "theirs")
    if what == "ignored":
        (folder / "their.log").write_text("")
    before = read_state(folder)

    if what == "nothing" or (what == "ignored" and in_place):
        undo_unpack(str(pair.target), place, ID)
        assert read_state(pair.target) == original
        assert folder.exists() == in_place
        assert git(pair.target, "for-each-ref", "refs/tasuki", "refs/heads/move") == ""
    else:
        assert "left as it is" in undo_unpack(str(pair.target), place, ID)
        assert read_state(folder) == before


# ---- kinds of files ------------------------------------------------------------------------------


def test_odd_names_travel(pair: Pair) -> None:
    """Line breaks, quotes, bytes that are no UTF-8, leading dashes, tabs, magic words of pathspecs."""
    names = [
        b"a\nb",
        b'"q"',
        b"\xff\xfe",
        b"-rf",
        b"t\tt",
        b":(top)x",
        b"*",
        "ü/é".encode(),
        b"sp ace/\\",
    ]
    for name in names:
        path = os.path.join(os.fsencode(pair.source), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(name)
    git(pair.source, "add", "--", os.fsdecode(b"\xff\xfe"), "-rf")
    git(pair.source, "add", "-N", "--", os.fsdecode(b"a\nb"))
    packed, place = move(pair)

    assert read_state(Path(place.folder)) == read_state(pair.source)
    assert "a\\nb" in packed.files
    assert all(name.isprintable() for name in packed.files)


def test_line_ends_travel_byte_for_byte(pair: Pair) -> None:
    """Under `core.autocrlf` and `.gitattributes`: changed files as they are, others as git writes them there."""
    (pair.source / ".gitattributes").write_text("*.bat eol=crlf\n*.sh eol=lf\n")
    (pair.source / "a.bat").write_bytes(b"one\r\ntwo\r\n")
    commit_all(pair.source, "line ends")
    git(pair.source, "push", "-q")
    for clone in (pair.source, pair.target):
        git(clone, "config", "core.autocrlf", "true")
    changed = {
        "a.bat": b"one\ntwo\r\nthree",
        "mixed.txt": b"one\r\ntwo\n",
        "src/upload.py": b"LIMIT = 2\r\n",
        "src/staged.py": b"x = 1\r\n",
    }
    for name, content in changed.items():
        (pair.source / name).write_bytes(content)
    git(pair.source, "add", "src/staged.py")
    _, place = move(pair)
    before, after = read_state(pair.source), read_state(Path(place.folder))

    assert (after["status"], after["index"]) == (before["status"], before["index"])
    assert {name: (Path(place.folder) / name).read_bytes() for name in changed} == changed
    assert (Path(place.folder) / "README").read_bytes() == b"read me\r\n"


def test_filters_of_the_user_hold(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Git LFS installs one: changed files travel byte for byte, unchanged and staged ones as git writes them there."""
    settings = tmp_path / "settings"
    settings.write_text(
        '[filter "loud"]\n\tclean = tr A-Z a-z\n\tsmudge = tr a-z A-Z\n\trequired = true\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    (pair.source / ".gitattributes").write_text("*.txt filter=loud\n")
    for name in ("same", "changed", "staged"):
        (pair.source / f"{name}.txt").write_text(f"{name.upper()}\n")
    commit_all(pair.source, "loud")
    git(pair.source, "push", "-q")
    (pair.source / "changed.txt").write_text("Mixed, And New\n")
    (pair.source / "staged.txt").write_text("NEXT\n")
    git(pair.source, "add", "staged.txt")
    (pair.source / "new.txt").write_text("New\n")
    _, place = move(pair)

    assert git(Path(place.folder), "cat-file", "-p", "HEAD:same.txt") == "same"
    assert read_state(Path(place.folder)) == read_state(pair.source)


def test_files_become_folders_and_folders_files(pair: Pair) -> None:
    """Also links that become folders."""
    (pair.source / "README").unlink()
    (pair.source / "README").mkdir()
    (pair.source / "README" / "a").write_text("a")
    (pair.source / "link").unlink()
    (pair.source / "link").mkdir()
    (pair.source / "link" / "b").write_text("b")
    for name in ("upload.py", "client.py"):
        (pair.source / "src" / name).unlink()
    (pair.source / "src").rmdir()
    (pair.source / "src").write_text("a file")
    _, place = move(pair)

    assert place.in_place
    assert read_state(pair.target) == read_state(pair.source)
    undo_unpack(str(pair.target), place, ID)
    assert git(pair.target, "status", "--porcelain") == ""


def test_intent_to_add_travels(pair: Pair) -> None:
    """Beside a new folder with nothing else in it."""
    (pair.source / "later.py").write_text("later\n")
    git(pair.source, "add", "-N", "later.py")
    git(pair.source, "rm", "-q", "--cached", "run.sh")
    git(pair.source, "add", "-N", "run.sh")
    _, place = move(pair)

    assert " A N... 000000 000000 100644" in f" {read_state(pair.source)['status']}".replace(
        ".A", " A"
    )
    assert read_state(Path(place.folder)) == read_state(pair.source)


def test_a_worktree_and_a_subfolder_are_sources_and_targets(pair: Pair, tmp_path: Path) -> None:
    """A linked worktree has an index and a HEAD of its own."""
    git(pair.source, "worktree", "add", "-q", "-b", "topic", str(tmp_path / "linked"))
    git(pair.target, "worktree", "add", "-q", "-b", "topic", str(tmp_path / "there"))
    change_files(tmp_path / "linked")
    packed = pack_work(str(tmp_path / "linked" / "src"), ID)
    origin = describe_repository(str(pair.source)).origin
    inside = str(tmp_path / "there" / "src")
    place = plan_place(inside, origin, packed.branch, packed.commit, "a")
    unpack_work(inside, place, packed, ID)

    assert place == WorkPlace(str(tmp_path / "there"), "topic", True)
    assert read_state(tmp_path / "there") == read_state(tmp_path / "linked")
    assert (
        git(pair.source, "status", "--porcelain") == git(pair.target, "status", "--porcelain") == ""
    )


def test_a_sparse_checkout_is_a_source(pair: Pair) -> None:
    """What is not checked out there is not deleted on the target."""
    git(pair.source, "sparse-checkout", "set", "src")
    git(pair.source, "rm", "-q", "--sparse", "--cached", "run.sh")
    (pair.source / "src" / "upload.py").write_text("LIMIT = 2\n")
    git(pair.source, "reset", "-q", "run.sh")
    _, place = move(pair)

    assert git(Path(place.folder), "status", "--porcelain") == " M src/upload.py"
    assert (Path(place.folder) / "run.sh").exists()


def test_a_split_index_is_a_source(pair: Pair) -> None:
    """The index may be spread over two files."""
    git(pair.source, "update-index", "--split-index")
    change_files(pair.source)
    _, place = move(pair)

    assert read_state(Path(place.folder)) == read_state(pair.source)


def test_a_shallow_clone_is_a_source(pair: Pair, tmp_path: Path) -> None:
    """Unless its unpublished commits reach to where it is cut."""
    (pair.source / "README").write_text("second\n")
    commit_all(pair.source, "second")
    git(pair.source, "push", "-q")
    shallow = tmp_path / "shallow"
    subprocess.run(
        ["git", "clone", "-q", "--depth=1", f"file://{pair.origin}", str(shallow)], check=True
    )
    change_files(shallow)
    commit_all(shallow, "mine")
    (shallow / "run.sh").write_text("echo\n")
    _, place = move(Pair(pair.origin, shallow, pair.target))

    assert read_state(Path(place.folder)) == read_state(shallow)
    git(shallow, "update-ref", "-d", "refs/remotes/origin/main")
    git(shallow, "update-ref", "-d", "refs/remotes/origin/HEAD")
    with pytest.raises(NotPossible, match="shallow clone"):
        pack_work(str(shallow), "move-2")


def test_a_partial_clone_is_a_source_and_a_target(pair: Pair, tmp_path: Path) -> None:
    """Without the contents of older commits."""
    (pair.source / "README").write_text("second\n")
    commit_all(pair.source, "second")
    git(pair.source, "push", "-q")
    git(pair.origin, "config", "uploadpack.allowFilter", "true")
    clones = [tmp_path / "one", tmp_path / "two"]
    for clone in clones:
        subprocess.run(
            ["git", "clone", "-q", "--filter=blob:none", f"file://{pair.origin}", str(clone)],
            check=True,
        )
    change_files(clones[0])
    _, place = move(Pair(pair.origin, *clones))

    assert place.in_place
    assert read_state(clones[1]) == read_state(clones[0])


def test_hashes_may_be_longer(tmp_path: Path) -> None:
    """In repositories of SHA-256."""
    pair = make_pair(tmp_path, "sha256")
    change_files(pair.source)
    commit_all(pair.source, "more")
    (pair.source / "README").write_text("again\n")
    packed, place = move(pair)

    assert len(packed.work_commit) == 64
    assert read_state(Path(place.folder)) == read_state(pair.source)


def test_what_does_not_travel_is_named(pair: Pair) -> None:
    """Repositories within, files that git was told to call unchanged, ignored ones."""
    git(pair.source, "init", "-q", "nested")
    (pair.source / "nested" / "x").write_text("")
    git(pair.source, "update-index", "--assume-unchanged", "README")
    (pair.source / "build").mkdir()
    (pair.source / "build" / "out").write_text("")
    notes = pack_work(str(pair.source), ID).left_out

    assert [note.partition(":")[2].strip() for note in notes] == ["nested/", "README", "build/"]


# ---- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["none", "empty", "bare", "no origin", "gone", "core.worktree"])
def test_what_is_no_checkout_is_refused(pair: Pair, kind: str, tmp_path: Path) -> None:
    """With a sentence that says what it is."""
    folder = tmp_path / "other"
    folder.mkdir()
    words = {"none": "no git repository", "empty": "no commit yet", "bare": "bare repository", "no origin": "no remote named origin", "gone": "no folder", "core.worktree": "set elsewhere"}  # fmt: skip
    if kind == "empty":
        git(folder, "init", "-q")
    if kind == "bare":
        folder = pair.origin
    if kind == "no origin":
        folder = pair.source
        git(folder, "remote", "remove", "origin")
    if kind == "gone":
        folder.rmdir()
    if kind == "core.worktree":
        folder = pair.source
        git(folder, "config", "core.worktree", str(tmp_path))

    with pytest.raises(NotPossible, match=words[kind]):
        pack_work(str(folder), ID)
    if kind not in ("empty", "no origin"):
        assert words[kind] in describe_repository(str(folder)).problem
        assert describe_repository(str(folder)).top == ""


@pytest.mark.parametrize("kind", ["merge", "rebase", "cherry-pick", "bisect", "lock", "unmerged"])
def test_an_operation_under_way_is_refused(pair: Pair, kind: str) -> None:
    """The sentence names it, and what ends it."""
    source = pair.source
    git(source, "checkout", "-q", "-b", "other")
    (source / "README").write_text("other\n")
    commit_all(source, "other")
    git(source, "checkout", "-q", "main")
    (source / "README").write_text("mine\n")
    commit_all(source, "mine")
    command = {
        "merge": "merge",
        "rebase": "rebase",
        "cherry-pick": "cherry-pick",
        "unmerged": "merge",
    }
    if kind in command:
        who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
        subprocess.run(
            ["git", *who, "-C", str(source), command[kind], "other"],
            capture_output=True,
            check=False,
        )
    if kind == "unmerged":
        (source / ".git" / "MERGE_HEAD").unlink()
    if kind == "bisect":
        git(source, "bisect", "start")
    if kind == "lock":
        (source / ".git" / "index.lock").write_text("")
    words = {"bisect": "bisection", "lock": "index.lock exists", "unmerged": "README is unmerged"}

    assert words.get(kind, kind) in describe_repository(str(source)).problem
    with pytest.raises(NotPossible, match=words.get(kind, kind)):
        pack_work(str(source), ID)
    assert git(source, "for-each-ref", "refs/tasuki") == ""


@pytest.mark.parametrize("what", ["commit", "file", "untracked", "staged"])
def test_a_changed_submodule_is_refused(pair: Pair, what: str, tmp_path: Path) -> None:
    """One that is as committed stays behind, with a note."""
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    (library / "lib.py").write_text("1\n")
    commit_all(library, "lib")
    git(pair.source, "submodule", "add", "-q", str(library), "lib")
    commit_all(pair.source, "lib")
    git(pair.source, "push", "-q")
    change_files(pair.source)
    packed, place = move(pair)
    assert any("git submodule update --init" in note for note in packed.left_out)
    assert git(Path(place.folder), "status", "--porcelain") == git(
        pair.source, "status", "--porcelain"
    )
    (pair.source / "lib" / ("new" if what == "untracked" else "lib.py")).write_text("2\n")
    if what in ("commit", "staged"):
        commit_all(pair.source / "lib", "two")
    if what == "staged":
        git(pair.source, "add", "lib")

    with pytest.raises(NotPossible, match="submodule lib is changed"):
        pack_work(str(pair.source), "move-2")


def test_other_repositories_are_no_place(pair: Pair, tmp_path: Path) -> None:
    """Nor are odd names and folders that exist."""
    packed = pack_work(str(pair.source), ID)
    with pytest.raises(NotPossible, match="another repository"):
        plan_place(str(pair.target), "github.com/x/y", "main", packed.commit, "a")
    with pytest.raises(NotPossible, match="whole path"):
        pair.plan(packed, wanted="relative")
    with pytest.raises(NotPossible, match="whole path"):
        pair.plan(packed, wanted=f"{tmp_path}/a/../b")
    with pytest.raises(NotPossible, match="exists already"):
        pair.plan(packed, wanted=str(tmp_path))
    for slug in ("", "../x", "a/b", "-x", "a" * 101, "x.lock"):
        with pytest.raises(NotPossible, match="letters, digits"):
            pair.plan(packed, slug)
    with pytest.raises(NotPossible, match="letters, digits"):
        pack_work(str(pair.source), "../heads/main")


def test_what_the_origin_does_not_have_is_said(pair: Pair) -> None:
    """A commit that a clone thinks is published, but was removed from the origin; and an origin that is gone."""
    (pair.source / "README").write_text("second\n")
    commit_all(pair.source, "second")
    git(pair.source, "push", "-q")
    git(pair.origin, "update-ref", "refs/heads/main", "HEAD~1")
    (pair.source / "README").write_text("third\n")
    packed = pack_work(str(pair.source), ID)
    place = pair.plan(packed)
    with pytest.raises(StepFailed, match=r"neither .*target nor its origin has"):
        unpack_work(str(pair.target), place, packed, ID)
    pair.origin.rename(pair.origin.with_name("away"))
    with pytest.raises(StepFailed, match="could not be fetched") as failed:
        unpack_work(str(pair.target), place, packed, ID)

    assert failed.value.code == "work_not_unpacked"
    assert not Path(place.folder).exists()
    assert git(pair.target, "for-each-ref", "refs/tasuki", "refs/heads/move") == ""
    pair.origin.with_name("away").rename(pair.origin)
    git(pair.source, "push", "-q", "-f")
    unpack_work(str(pair.target), place, packed, ID)
    assert read_state(Path(place.folder)) == read_state(pair.source)


@pytest.mark.parametrize("when", ["planned", "begun"])
def test_changes_made_after_the_plan_are_kept(pair: Pair, when: str) -> None:
    """The checkout was clean as it was planned; somebody works in it by now."""
    change_files(pair.source)
    packed = pack_work(str(pair.source), ID)
    place = pair.plan(packed)
    if when == "begun":
        git(pair.target, "update-ref", f"refs/tasuki/arrivals/{ID}/before", "HEAD")
    (pair.target / "new").mkdir()
    (pair.target / "new" / "notes.txt").write_text("theirs\n")
    before = read_state(pair.target)
    with pytest.raises(StepFailed, match=r"new/notes\.txt"):
        unpack_work(str(pair.target), place, packed, ID)

    assert read_state(pair.target) == before


# ---- any work --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 40))]
)
def test_any_work_arrives_as_it_was(pair: Pair, seed: int) -> None:
    """Random changes to random files, staged or not, in place or beside, and back again."""
    chance = random.Random(seed)
    make_random_files(pair.source, chance, 30)
    commit_all(pair.source, "random")
    git(pair.source, "push", "-q")
    if chance.random() < 0.5:
        git(pair.target, "pull", "-q")
    for intents in (0.0, 0.0, 0.2):
        make_random_files(pair.source, chance, 12)
        remove_random_files(pair.source, chance, 6)
        stage_random_files(pair.source, chance, intents)
    original = read_state(pair.target)
    before = read_state(pair.source)
    _, place = move(pair)

    assert read_state(Path(place.folder)) == before
    undo_unpack(str(pair.target), place, ID)
    assert read_state(pair.target) == original


NAMES = ["a", "b", "ü", "c d", "e\nf", "g.py", "deep/er/h", "deep/i", "j/k", "😀", "-l", "m'n"]


def make_random_files(folder: Path, chance: random.Random, number: int) -> None:
    """Write files of any content, mode and kind at random places that are free or hold files."""
    for _ in range(number):
        path = folder / chance.choice(NAMES) / chance.choice(NAMES)
        if chance.random() < 0.3:
            path = folder / chance.choice(NAMES)
        parents = [p for p in path.parents if p.is_relative_to(folder) and p != folder]
        if path.is_dir() or any(p.is_symlink() or p.is_file() for p in parents):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if chance.random() < 0.15:
            os.symlink(chance.choice(["a", "../x", "/nowhere", "ü"]), path)
            continue
        path.write_bytes(
            chance.choice([b"", b"\0\1\2", b"a\r\nb\n", b"no end", chance.randbytes(300)])
        )
        path.chmod(chance.choice([0o644, 0o755, 0o600]))


def remove_random_files(folder: Path, chance: random.Random, number: int) -> None:
    """Delete some files, and the folders that are empty then."""
    files = sorted(p for p in folder.rglob("*") if ".git" not in p.parts and not p.is_dir())
    for path in chance.sample(files, min(number, len(files))):
        path.unlink()
        while path.parent != folder and not any(path.parent.iterdir()):
            path = path.parent
            path.rmdir()


def stage_random_files(folder: Path, chance: random.Random, intents: float) -> None:
    """Stage some of what is changed, and mark a share of it to be added later."""
    listed = git(
        folder, "ls-files", "-z", "--modified", "--others", "--deleted", "--exclude-standard"
    )
    names = sorted({name for name in listed.split("\0") if name})
    for name in chance.sample(names, len(names) // 2):
        if any((folder / parent).is_symlink() for parent in Path(name).parents):
            continue
        option = "-N" if chance.random() < intents and os.path.isfile(folder / name) else "-A"
        git(folder, "--literal-pathspecs", "add", option, "--", name)
