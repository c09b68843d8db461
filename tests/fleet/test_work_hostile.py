"""Bundles and repositories that are made to do harm: nothing of theirs runs, nothing is written outside."""

import os
import subprocess
from pathlib import Path

import pytest
from checkouts import Pair, change_files, commit_all, git, make_pair, read_state
from msgspec import structs

from tasuki.errors import NotPossible
from tasuki.fleet.handoff.bundles import packs
from tasuki.fleet.handoff.bundles.arrivals import undo_unpack, unpack_work
from tasuki.fleet.handoff.bundles.packs import PackedWork, pack_work
from tasuki.fleet.handoff.bundles.repositories import describe_repository, is_same_origin
from tasuki.fleet.handoff.bundles.work_secrets import find_secrets_in_work
from tasuki.fleet.store.failures import StepFailed

ID = "move-1"
HOOKS = ["pre-commit", "post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "post-rewrite", "post-merge", "pre-push"]  # fmt: skip


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """An origin with two clones."""
    return make_pair(tmp_path)


def set_traps(folder: Path, trap: Path) -> None:
    """Name a program wherever a repository's own configuration could make git run it."""
    config = folder / ".git" / "config"
    hooks = folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in HOOKS:
        (hooks / name).unlink(missing_ok=True)
        (hooks / name).symlink_to(trap)
    included = folder / ".git" / "more"
    included.write_text(
        f"[core]\n\tfsmonitor = {trap}\n\tsshCommand = {trap}\n\talternateRefsCommand = {trap}\n"
        f"\tpager = {trap}\n\teditor = {trap}\n\taskPass = {trap}\n\tgitProxy = {trap}\n\thooksPath = {hooks}\n"
        f'[filter "trap"]\n\tclean = {trap}\n\tsmudge = {trap}\n\tprocess = {trap}\n\trequired = true\n'
        f'[diff]\n\texternal = {trap}\n[diff "trap"]\n\ttextconv = {trap}\n\tcommand = {trap}\n'
        f'[merge "trap"]\n\tdriver = {trap}\n[gpg]\n\tprogram = {trap}\n[log]\n\tshowSignature = true\n'
        f"[commit]\n\tgpgSign = true\n[credential]\n\thelper = !{trap}\n[pager]\n\tdiff = {trap}\n"
        f'[remote "origin"]\n\tuploadpack = {trap}\n\treceivepack = {trap}\n\tvcs = ext\n'
        f'[protocol "ext"]\n\tallow = always\n[uploadpack]\n\tpackObjectsHook = {trap}\n'
    )
    with config.open("a") as file:
        file.write(f"[include]\n\tpath = {included}\n")
    (folder / ".git" / "info" / "attributes").write_text("* filter=trap diff=trap merge=trap\n")


def test_nothing_of_a_repository_runs(pair: Pair, tmp_path: Path) -> None:
    """Hooks, monitors, filters, drivers and helpers on both sides, also in a submodule and by an included file."""
    trap = tmp_path / "trap"
    sprung = tmp_path / "sprung"
    trap.write_text(f'#!/bin/sh\necho "$0 $@" >> {sprung}\ncat\n')
    trap.chmod(0o755)
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    (library / "lib.py").write_text("1\n")
    commit_all(library, "lib")
    git(pair.source, "submodule", "add", "-q", str(library), "lib")
    commit_all(pair.source, "lib")
    git(pair.source, "push", "-q")
    change_files(pair.source)
    original = read_state(pair.target)
    before = read_state(pair.source)
    module = pair.source / ".git" / "modules" / "lib" / "config"
    module.write_text(module.read_text() + f"[core]\n\tfsmonitor = {trap}\n")
    set_traps(pair.source, trap)
    set_traps(pair.target, trap)
    state = describe_repository(str(pair.source))
    secrets = find_secrets_in_work(str(pair.source)).found
    packed = pack_work(str(pair.source), ID)
    place = pair.plan(packed)
    unpack_work(str(pair.target), place, packed, ID)
    later = structs.replace(place, in_place=True)
    assert (state.problem, secrets, place.in_place) == ("", (), False)
    assert any(note.endswith("not run: trap") for note in packed.left_out)
    assert "was removed" in undo_unpack(str(pair.target), place, ID)
    git(pair.target, "config", "remote.origin.url", f"ext::{trap} %S")
    with pytest.raises(StepFailed, match="could not be fetched"):
        unpack_work(str(pair.target), place, PackedWork("1" * 40, "main"), "move-2")
    with pytest.raises(StepFailed):
        unpack_work(str(pair.target), later, packed, "move-3")

    assert not sprung.exists(), sprung.read_text()
    for folder, then in ((pair.source, before), (pair.target, original)):
        (folder / ".git" / "info" / "attributes").unlink()
        git(folder, "config", "--unset", "include.path")
        assert read_state(folder) == then


def test_a_trap_would_have_been_sprung(pair: Pair, tmp_path: Path) -> None:
    """git itself runs what the same repository names."""
    trap, sprung = tmp_path / "trap", tmp_path / "sprung"
    trap.write_text(f'#!/bin/sh\necho "$0 $@" >> {sprung}\ncat\n')
    trap.chmod(0o755)
    set_traps(pair.source, trap)
    (pair.source / "README").write_text("x\n")
    subprocess.run(["git", "-C", str(pair.source), "status"], capture_output=True, check=False)

    assert sprung.exists()


@pytest.mark.parametrize("address", ["--upload-pack=touch sprung", "ext::touch sprung", "ssh://-oProxyCommand=touch sprung/x", "fd::7", "transport::x", ""])  # fmt: skip
def test_no_address_is_an_option_or_a_program(pair: Pair, address: str, tmp_path: Path) -> None:
    """The origin's address comes from the repository's configuration."""
    (pair.source / "README").write_text("second\n")
    commit_all(pair.source, "second")
    git(pair.source, "push", "-q")
    packed = pack_work(str(pair.source), ID)
    place = pair.plan(packed)
    git(pair.target, "config", "remote.origin.url", address)
    with pytest.raises(StepFailed, match="could not be fetched"):
        unpack_work(str(pair.target), place, packed, ID)

    assert not list(tmp_path.rglob("sprung*"))


# ---- bundles -------------------------------------------------------------------------------------


def damage(packed: PackedWork, kind: str) -> PackedWork:
    """The same with a bundle that is damaged in one way."""
    content = packed.bundle
    middle = len(content) * 3 // 4
    bundles = {
        "cut": content[:middle],
        "short": content[:10],
        "noise": os.urandom(5000),
        "flipped": content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :],
        "text": b"# v2 git bundle\n" + b"\xff" * 100 + b"\n\n",
        "large": bytes(packs.MOST_BUNDLE_BYTES + 1),
        "other reference": content.replace(
            b"refs/tasuki/moves/move-1", b"refs/heads/main/move-one", 1
        ),
    }
    return structs.replace(packed, bundle=bundles[kind])


@pytest.mark.parametrize(
    "kind", ["cut", "short", "noise", "flipped", "text", "large", "other reference"]
)
def test_a_damaged_bundle_is_refused(pair: Pair, kind: str) -> None:
    """Nothing is made, and the whole one can be unpacked afterwards."""
    change_files(pair.source)
    packed = pack_work(str(pair.source), ID)
    place = pair.plan(packed)
    before = read_state(pair.target)
    references = git(pair.target, "for-each-ref")
    with pytest.raises(StepFailed) as failed:
        unpack_work(str(pair.target), place, damage(packed, kind), ID)

    assert failed.value.code == "work_not_unpacked"
    assert read_state(pair.target) == before
    assert git(pair.target, "for-each-ref") == references
    unpack_work(str(pair.target), place, packed, ID)
    assert read_state(pair.target) == read_state(pair.source)


def test_fields_that_do_not_fit_the_bundle_are_refused(pair: Pair) -> None:
    """Each hash must be one, and they must rest on one another."""
    change_files(pair.source)
    packed = pack_work(str(pair.source), ID)
    place = pair.plan(packed)
    before = read_state(pair.target)
    for field in ("commit", "index_commit", "work_commit"):
        for value in ("", "HEAD", "--help", "0" * 40, "f" * 39, "refs/heads/main"):
            with pytest.raises(StepFailed):
                unpack_work(str(pair.target), place, structs.replace(packed, **{field: value}), ID)

    assert read_state(pair.target) == before


def test_a_bundle_with_more_references_is_refused(pair: Pair, tmp_path: Path) -> None:
    """Even if the expected one is among them."""
    change_files(pair.source)
    packed = pack_work(str(pair.source), ID)
    git(pair.source, "branch", "evil", packed.work_commit)
    file = tmp_path / "bundle"
    git(
        pair.source,
        "bundle",
        "create",
        "-q",
        str(file),
        f"refs/tasuki/moves/{ID}",
        "evil",
        "^origin/main",
    )
    bad = structs.replace(packed, bundle=file.read_bytes())
    with pytest.raises(StepFailed, match="other references"):
        unpack_work(str(pair.target), pair.plan(packed), bad, ID)

    assert git(pair.target, "branch", "--list", "evil") == ""


@pytest.mark.parametrize("name", [".git", ".GIT", "..", "git~1"])
def test_trees_that_write_into_a_git_folder_are_refused(
    pair: Pair, name: str, tmp_path: Path
) -> None:
    """As crafted without git's own checks."""
    blob = git(pair.source, "hash-object", "-w", "--stdin", input=b"[core]\n")
    inner = git(pair.source, "mktree", input=f"100644 blob {blob}\tconfig\n".encode())
    entry = f"40000 {name}".encode() + b"\0" + bytes.fromhex(inner)
    tree = git(
        pair.source, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", input=entry
    )
    head = git(pair.source, "rev-parse", "HEAD")
    index = git(pair.source, "commit-tree", "-p", head, "-m", "x", f"{head}^{{tree}}")
    work = git(pair.source, "commit-tree", "-p", index, "-m", "x", tree)
    git(pair.source, "update-ref", f"refs/tasuki/moves/{ID}", work)
    file = tmp_path / "bundle"
    git(pair.source, "bundle", "create", "-q", str(file), f"refs/tasuki/moves/{ID}", "^origin/main")
    packed = PackedWork(head, "main", index, work, file.read_bytes())
    config = (pair.target / ".git" / "config").read_bytes()
    with pytest.raises(StepFailed, match="index-pack failed"):
        unpack_work(str(pair.target), pair.plan(packed), packed, ID)

    assert (pair.target / ".git" / "config").read_bytes() == config


def test_links_lead_nowhere(pair: Pair, tmp_path: Path) -> None:
    """A folder of the target that somebody replaced by a link is not written through."""
    (pair.source / "src" / "fresh.py").write_text("fresh\n")
    packed = pack_work(str(pair.source), ID)
    place = pair.plan(packed)
    git(pair.target, "update-ref", f"refs/tasuki/arrivals/{ID}/before", "HEAD")
    outside = tmp_path / "outside"
    (pair.target / "src").rename(outside)
    (pair.target / "src").symlink_to(outside)
    with pytest.raises(StepFailed, match="somebody changed"):
        unpack_work(str(pair.target), place, packed, ID)

    assert not (outside / "fresh.py").exists()


# ---- sizes -----------------------------------------------------------------------------------------


def test_large_files_are_noticed_before_they_are_stored(pair: Pair) -> None:
    """The sentence names the largest; the store has no object more."""
    with (pair.source / "model.bin").open("wb") as file:
        file.truncate(40_000_000)
    with (pair.source / "data.bin").open("wb") as file:
        file.truncate(30_000_000)
    (pair.source / "small").write_text("x")
    before = git(pair.source, "count-objects", "-v")
    with pytest.raises(NotPossible, match=r"model\.bin \(.*data\.bin \(.*small"):
        pack_work(str(pair.source), ID)

    assert git(pair.source, "count-objects", "-v") == before
    (pair.source / ".gitignore").write_text("*.bin\n")
    assert any("model.bin" in note for note in pack_work(str(pair.source), ID).left_out)


@pytest.mark.parametrize("where", ["commit", "staged"])
def test_large_commits_are_refused(pair: Pair, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpublished ones, and what is staged: the limit is lowered, and the largest file is named."""
    monkeypatch.setattr(packs, "MOST_BUNDLE_BYTES", 100_000)
    (pair.source / "large.bin").write_bytes(os.urandom(200_000))
    git(pair.source, "add", "large.bin")
    if where == "commit":
        commit_all(pair.source, "large")
    with pytest.raises(NotPossible, match=r"large\.bin \("):
        pack_work(str(pair.source), ID)

    assert git(pair.source, "for-each-ref", "refs/tasuki") == ""


def test_what_cannot_be_read_is_said(pair: Pair) -> None:
    """A file that vanishes or is closed to us makes no half pack."""
    (pair.source / "closed").write_text("x")
    (pair.source / "closed").chmod(0)
    if os.access(pair.source / "closed", os.R_OK):
        pytest.skip("root reads every file")
    with pytest.raises(StepFailed, match="closed") as failed:
        pack_work(str(pair.source), ID)

    assert failed.value.code == "work_not_packed"
    assert git(pair.source, "for-each-ref", "refs/tasuki") == ""


def test_without_git_it_is_said(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a host that has none."""
    monkeypatch.setenv("PATH", "/nowhere")

    assert "git could not be run" in describe_repository(str(pair.source)).problem
    with pytest.raises(NotPossible, match="git could not be run"):
        pack_work(str(pair.source), ID)


# ---- origins ---------------------------------------------------------------------------------------

SAME = [
    "git@example.com:x/y.git",
    "ssh://git@example.com/x/y",
    "ssh://git@example.com:22/x/y.git",
    "https://user:token@Example.com/x/y.git",
    "https://example.com/x/y/",
    "git://example.com/x/y.git",
    "example.com:x/y",
    "example.com:/x/y.git",
    "example.com/x/y",
]
OTHER = ["git@example.com:x/z.git", "https://example.org/x/y", "/example.com/x/y", "ssh://example.com:2222/x/y", "", "https://[::1", "https://example.com/X/y"]  # fmt: skip


def test_addresses_of_one_repository_are_the_same() -> None:
    """By whichever protocol and user."""
    for a in SAME:
        assert all(is_same_origin(a, b) for b in SAME)
        assert not any(is_same_origin(a, b) or is_same_origin(b, a) for b in OTHER)
    assert not is_same_origin("", "")
    assert is_same_origin("/srv/x.git", "file:///srv/x")
    assert is_same_origin("ssh://a@[fe80::1]:2222/x", "ssh://b@[fe80::1]:2222/x.git")


def test_what_a_host_says_of_its_origin_is_the_same(pair: Pair) -> None:
    """And holds no token."""
    more = [
        "ssh://e.com:2222/x/y",
        "ssh://[fe80::1]/x",
        "[fe80::1]:x",
        "/srv/x.git",
        "file:///srv/x",
    ]
    for address in (*SAME[:-1], *more):
        git(pair.source, "config", "remote.origin.url", address)
        origin = describe_repository(str(pair.source)).origin
        assert is_same_origin(origin, address)
        assert "token" not in origin
