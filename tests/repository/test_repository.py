"""The state of the repository, read from what git, jj and gh printed."""

import time
from collections.abc import Iterable

import pytest

from tasuki.draft.repository.reader import read_repository
from tasuki.draft.repository.uncommitted import find_ignored
from tasuki.model import Entry, FileChange, RepositoryState, ToolCall, ToolStatus

CWD = "/home/dev/proj"


def shell(command: str, output: str = "", status: ToolStatus = "ok", workdir: str = "") -> ToolCall:
    """A shell call that ended."""
    size = len(output)
    return ToolCall("", "Bash", "shell", command=command, output=output, output_size=size,
                    status=status, workdir=workdir)  # fmt: skip


def edit(path: str) -> ToolCall:
    """An edit of a file."""
    change = FileChange(f"{CWD}/{path}", "edit", "a", "b")
    return ToolCall("", "Edit", "edit", paths=(change.path,), changes=(change,), status="ok")


def entries_of(calls: Iterable[ToolCall]) -> list[Entry]:
    """Entries that hold some calls, counted from 1."""
    return [Entry(ref=n, kind="tool", tool=call) for n, call in enumerate(calls, 1)]


def read(*calls: ToolCall, branch: str = "main") -> RepositoryState:
    """The state after some calls in the thread's folder."""
    return read_repository(entries_of(calls), branch, CWD)


def settled(state: RepositoryState) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """What was committed in the thread's folder, or may have been: entry and paths."""
    return state.checkouts[0].settled


def commit(hash: str, subject: str, branch: str = "main", command: str = "") -> ToolCall:
    """A commit of which git prints its line."""
    printed = f"[{branch} {hash}] {subject}\n 1 file changed, 1 insertion(+)"
    return shell(command or f'git commit -m "{subject}"', printed)


def live(state: RepositoryState) -> list[tuple[str, str, bool | None]]:
    """Hash, branch and push of the commits that still exist."""
    return [(c.hash, c.branch, c.pushed) for c in state.commits if not c.gone]


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("git checkout -b topic/one", "Switched to a new branch 'topic/one'"),
        ("git switch topic/one", "Switched to branch 'topic/one'"),
        ("git checkout -q -b topic/one", ""),
        ("git status", "On branch topic/one\nnothing to commit, working tree clean"),
        ("git status -sb", "## topic/one...origin/topic/one [ahead 1]\n M a.py"),
        ("git branch", "  main\n* topic/one"),
        ("git branch --show-current", "topic/one"),
        ("git rev-parse --abbrev-ref HEAD", "topic/one"),
        ("git branch -m topic/one", ""),
        ("git commit -m x", "[topic/one 1234abc] x"),
        ("git rebase main", "Successfully rebased and updated refs/heads/topic/one."),
    ],
)
def test_the_branch_is_the_one_that_git_printed_last(command: str, output: str) -> None:
    """Not the one that the harness noted when the thread began."""
    state = read(shell(command, output))

    assert (state.branch, state.branch_ref) == ("topic/one", 1)


@pytest.mark.parametrize(
    "call",
    [
        shell("git -C /home/dev/other status", "On branch other"),
        shell("cd /home/dev/other && git status", "On branch other"),
        shell("cd ../other && git switch other", "Switched to branch 'other'"),
        shell("git status", "On branch other", workdir="/home/dev/other"),
        shell(f"cd {CWD}/.worktrees/1 && git status", "On branch other"),
        shell("git checkout other", "error: pathspec 'other' did not match", "error"),
        shell("echo On branch other", "On branch other"),
    ],
)
def test_other_repositories_and_failures_leave_the_branch(call: ToolCall) -> None:
    """A worktree or another folder has a branch of its own, and a failed switch is none."""
    assert read(call).branch == "main"


def test_commits_stand_under_the_branch_that_git_printed() -> None:
    """Also those of another worktree, which do not change the branch in use."""
    state = read(
        commit("1111111", "one"),
        commit("2222222", "two", "feature", "cd /home/dev/wt && git commit -m two"),
        commit("3333333", "three", "detached HEAD"),
    )

    assert live(state) == [
        ("1111111", "main", False), ("2222222", "feature", False), ("3333333", "main", False),
    ]  # fmt: skip
    assert state.branch == "main"


def test_a_quiet_commit_is_known_by_its_message_and_a_later_log() -> None:
    """`git commit -q` prints nothing; the log gives the hash."""
    quiet = shell("git commit -q -m 'add retries'")
    logged = shell("git log --oneline -2", "abcdef1 add retries\n0000001 start")

    assert live(read(quiet)) == [("", "main", False)]
    assert live(read(quiet, logged)) == [("abcdef1", "main", False)]


def test_a_commit_that_had_nothing_to_commit_is_none() -> None:
    """Neither is one that a hook stopped."""
    nothing = "On branch main\nnothing to commit, working tree clean"

    assert live(read(shell("git commit -m x", nothing))) == []
    assert live(read(shell("git commit -m x", "hook: lint failed", "error"))) == []


def test_an_amended_commit_takes_the_place_of_the_one_before() -> None:
    """The old hash is gone, the new one is not pushed."""
    state = read(
        commit("1111111", "one"),
        shell("git push", "To github.com:o/r.git\n   0000000..1111111  main -> main"),
        commit("2222222", "one", command="git commit --amend --no-edit"),
    )

    assert live(state) == [("2222222", "main", False)]


def test_a_rebase_gives_new_hashes_which_a_log_shows() -> None:
    """Until then the commits of that branch are gone; others stay."""
    made = (commit("1111111", "one"), commit("2222222", "two", "other"))
    rebased = shell("git rebase main", "Successfully rebased and updated refs/heads/other.")
    logged = shell("git log --oneline", "3333333 two\n1111111 one")

    assert live(read(*made, rebased)) == [("1111111", "main", False)]
    assert live(read(*made, rebased, logged))[1][:2] == ("3333333", "other")


def test_pull_with_rebase_keeps_what_was_pushed() -> None:
    """Only commits that the remote did not have get new hashes."""
    state = read(
        commit("1111111", "one"),
        shell("git push", "To github.com:o/r.git\n   0000000..1111111  main -> main"),
        commit("2222222", "two"),
        shell("git push", "To x\n ! [rejected]        main -> main (fetch first)", "error"),
        shell("git pull --rebase && git log --oneline -2",
              "Successfully rebased and updated refs/heads/main.\n3333333 two\n4444444 theirs"),
        shell("git push", "To github.com:o/r.git\n   4444444..3333333  main -> main"),
    )  # fmt: skip

    assert live(state) == [("1111111", "main", True), ("3333333", "main", True)]


def test_a_commit_that_somebody_rewrote_has_the_hash_of_the_branchs_log() -> None:
    """A log of another branch, or one that shows the old hash as well, proves nothing."""
    made = commit("1111111", "one")
    clean = "On branch main\nYour branch is up to date with 'origin/main'.\n\nnothing to commit"
    seen = shell("git status && git log --oneline -1", f"{clean}, working tree clean\n2222222 one")
    elsewhere = shell("git log --oneline other", "2222222 one")
    both = shell("git log --oneline", "2222222 one\n1111111 one")

    assert live(read(made, seen)) == [("2222222", "main", True)]
    assert live(read(made, elsewhere)) == [("1111111", "main", False)]
    assert live(read(made, both)) == [("1111111", "main", False)]


@pytest.mark.parametrize(
    ("command", "output", "left"),
    [
        ("git reset --soft HEAD~1", "", ["1111111", "2222222"]),
        ("git reset HEAD~2", "", ["1111111"]),
        ("git reset --hard HEAD^", "HEAD is now at 2222222 two", ["1111111", "2222222"]),
        ("git reset --hard 1111111", "HEAD is now at 1111111 one", ["1111111"]),
        ("git reset a.py", "", ["1111111", "2222222", "3333333"]),
    ],
)
def test_a_reset_drops_the_newest_commits(command: str, output: str, left: list[str]) -> None:
    """As many as it was told, or those after the commit that is now the newest."""
    made = [commit("1111111", "one"), commit("2222222", "two"), commit("3333333", "three")]

    assert [c[0] for c in live(read(*made, shell(command, output)))] == left


@pytest.mark.parametrize(
    ("command", "output", "status", "pushed"),
    [
        ("git push", "   0000000..1111111  main -> main", "ok", True),
        ("git push -u origin HEAD", " * [new branch]      HEAD -> main", "ok", True),
        ("git push --force-with-lease", " + 0000000...1111111 main -> main (forced)", "ok", True),
        ("git push", "Everything up-to-date", "ok", True),
        ("git push -q", "", "ok", True),
        ("git push -q", "error: failed to push some refs", "ok", False),
        ("git push", " ! [rejected]        main -> main (fetch first)", "error", False),
        ("git push origin other", "   0000000..2222222  other -> other", "ok", False),
        ("git stash push", "Saved working directory", "ok", False),
        ("git status", "Your branch is up to date with 'origin/main'.", "ok", True),
    ],
)
def test_pushed_is_what_a_push_reported(
    command: str, output: str, status: ToolStatus, pushed: bool
) -> None:
    """Of the branch that was pushed; a rejected push is none."""
    state = read(commit("1111111", "one"), shell(command, output, status))

    assert live(state) == [("1111111", "main", pushed)]


def test_texts_of_commands_are_no_commands() -> None:
    """What a here-document holds is not run; what follows it is."""
    message = (
        "git commit -F - <<'EOF' && git status\nfix\n\ngit switch other\nEOF\ngit switch topic"
    )

    state = read(shell(message, "[main 1111111] fix"))

    assert (state.branch, live(state)) == ("topic", [("1111111", "main", False)])


def test_a_clean_tree_is_what_git_says() -> None:
    """In words, or by a short status without a line."""
    words = shell("git status", "On branch main\nnothing to commit, working tree clean")

    assert read(edit("a.py"), words).checkouts[0].clean_ref == 2
    assert read(edit("a.py"), shell("git status --short")).checkouts[0].clean_ref == 2
    assert read(shell("git status --short", " M a.py")).checkouts[0].clean_ref == 0


def test_a_commit_takes_in_what_was_added() -> None:
    """Everything with `-a`, `git add .` or nothing added; else the added paths."""
    part = read(shell("git add a.py src/"), commit("1111111", "one"))
    flag = read(shell("git add a.py"), commit("1111111", "one", command="git commit -am one"))
    folder = read(shell("git add -A src"), commit("1111111", "one"))
    ignored = "The following paths are ignored by one of your .gitignore files:\ndocs\nhint: Use -f"
    failed = read(shell("git add docs/x.md", ignored, "error"), shell("git add a.py"),
                  commit("1111111", "one"))  # fmt: skip

    assert settled(part) == ((2, ("a.py", "src/")),)
    assert settled(flag) == ((2, ()),)
    assert settled(folder) == ((2, ("src",)),)
    assert settled(failed) == ((3, ("a.py",)),)


def test_a_commit_in_another_repository_takes_in_nothing_here() -> None:
    """What was edited in the thread's folder is still not committed."""
    state = read(
        edit("a.py"), commit("1111111", "one", "x", "cd /home/dev/wt && git commit -m one")
    )

    assert settled(state) == ()


def test_a_status_lists_all_that_is_not_committed() -> None:
    """A pipe or a path shows a part."""
    edits = (edit("a.py"), edit("new/b.py"), edit("c.py"))
    listed = " M a.py\n?? new/"
    long = "On branch main\nChanges not staged for commit:\n\tmodified:   a.py\n\nUntracked files:\n\tnew/"

    for command, output in (("git status --short", listed), ("git status", long)):
        assert read(*edits, shell(command, output)).checkouts[0].complete == (4,)
    for command in ("git status --short | head -2", "git status --short src"):
        assert read(*edits, shell(command, listed)).checkouts[0].complete == ()


def test_a_newest_commit_that_the_thread_did_not_make_may_hold_its_edits() -> None:
    """The user or a sub-agent committed; after a switch or pull another commit proves nothing."""
    before = shell("git log --oneline -3", "1111111 start")
    after = shell("git log -1", "commit 2222222222222222222222222222222222222222\n\n    theirs")
    switched = shell("git checkout other", "Switched to branch 'other'")

    assert settled(read(before, edit("a.py"), after)) == ((3, ()),)
    assert settled(read(before, edit("a.py"), switched, after)) == ()
    assert settled(read(before, commit("2222222", "ours"), after)) == ((2, ()),)


def test_files_put_back_from_the_index_are_not_waiting() -> None:
    """`git checkout FILE` says that it updated a path."""
    back = shell("git checkout .gitignore", "Updated 1 path from the index")

    assert settled(read(edit(".gitignore"), back)) == ((2, (".gitignore",)),)


def test_what_git_ignores_is_known_where_git_said_so() -> None:
    """By a failed `git add`, or by `git check-ignore -v`, with the pattern that matched."""
    added = "The following paths are ignored by one of your .gitignore files:\ndocs\nhint: Use -f"
    entries = entries_of(
        [
            shell("git add docs/x.md", added, "error"),
            shell("git check-ignore -v plans/y.md", ".gitignore:52:/plans/\tplans/y.md"),
            shell("cat x", "The following paths are ignored by one of your .gitignore files:\nz"),
        ]
    )

    assert find_ignored(entries) == ("docs", "plans", "plans/y.md")


PULLS = [
    ("gh pr create --fill", "https://github.com/o/r/pull/7", (7, "open", True)),
    ("gh pr create --draft", "https://github.com/o/r/pull/7", (7, "draft", True)),
    ("gh pr list", "7\tTitle\ttopic\tOPEN\t2025-01-01", (7, "open", False)),
    ("gh pr view 7", "title:\tX\nstate:\tMERGED\nnumber:\t7", (7, "merged", False)),
    ("gh pr view --json number,state", '{"number":7,"state":"CLOSED"}', (7, "closed", False)),
    ("gh pr merge 7", "✓ Squashed and merged pull request o/r#7", (7, "merged", False)),
    ("gh pr close 7", "✓ Closed pull request o/r#7", (7, "closed", False)),
    ("gh pr ready 7", "✓ Pull request o/r#7 is marked as ready", (7, "open", False)),
]  # fmt: skip


@pytest.mark.parametrize(("command", "output", "expected"), PULLS)
def test_pull_requests_have_the_state_that_gh_printed(
    command: str, output: str, expected: tuple[int, str, bool]
) -> None:
    """Number, state, and whether the thread made it."""
    (pull,) = read(shell(command, output)).pull_requests

    assert (pull.number, pull.state, pull.created) == expected


def test_a_merge_commit_in_a_log_merges_a_known_pull_request() -> None:
    """One that nobody named before is not taken in; a push only offers to make one."""
    made = shell("gh pr create --fill", "https://github.com/o/r/pull/7")
    logged = shell("git log --oneline", "1111111 Merge pull request #7 from o/topic\n"
                                        "2222222 Merge pull request #6 from o/other")  # fmt: skip
    offered = shell("git push", "remote: https://github.com/o/r/pull/new/topic")

    state = read(made, logged, offered)

    assert [(p.number, p.state) for p in state.pull_requests] == [(7, "merged")]


def test_jujutsu_names_the_commit_that_holds_the_work() -> None:
    """A commit described again has another hash; a bookmark that moves is pushed."""
    state = read(
        shell('jj describe -m "add retries"', "Working copy  (@) now at: kx 1111111 add retries"),
        shell('jj commit -m "add retries"', "Parent commit (@-)      : kx 2222222 add retries"),
        shell("jj git push -c @-", "Changes to push to origin:\n  Add bookmark push-kx to 2222222"),
        branch="",
    )

    assert live(state) == [("2222222", "push-kx", True)]


def test_reading_is_fast() -> None:
    """5,000 commands with long outputs take well below 0.1 s: most of them are no git."""
    calls = [
        shell(f"go test ./pkg{n} 2>&1 | tail -20", "ok  pkg 0.1s\n" * 100) for n in range(4_000)
    ]
    calls += [shell(f"git diff HEAD~1 -- src/{n}.py", "+x = 1\n" * 100) for n in range(700)]
    calls += [commit(f"{n:07x}", f"step {n}") for n in range(0x1000000, 0x1000000 + 300)]

    best = 1.0
    for _ in range(3):
        begin = time.process_time()
        read(*calls)
        best = min(best, time.process_time() - begin)

    assert best < 0.1
