"""What a brief says of commits, branches, pull requests and files that are not committed."""

import subprocess
from pathlib import Path

import pytest
from making import thread_of

from tasuki.draft.facts.derive import derive_facts
from tasuki.draft.facts.git import GitProbe
from tasuki.draft.facts.state import list_state_items
from tasuki_testing import ThreadBuilder

HOME = "/home/dev/proj"
ONE = "[main 1111111] one\n 1 file changed, 1 insertion(+)"


def start(harness: str = "claude") -> ThreadBuilder:
    """A thread in a repository, in which one file was edited."""
    return (
        ThreadBuilder(harness)
        .user("go")
        .shell("git status", "On branch main")
        .edit("a.py", "1", "2")
    )


def lines_of(builder: ThreadBuilder, folder: Path, cwd: str = HOME) -> dict[str, str]:
    """The state lines of a thread: text by label, without how a file is known to be uncommitted."""
    thread = thread_of(builder, folder)
    revision = GitProbe(cwd).read_revision()
    facts = derive_facts(thread, revision).facts
    items = list_state_items(thread, facts)
    return {i.label.removesuffix(", as far as the thread shows"): i.text for i in items}


LEFT, UNKNOWN, COMMITTED = "`a.py`", None, ""


@pytest.mark.parametrize(
    ("command", "output", "code", "expected"),
    [
        ("git commit -am one", ONE, 0, COMMITTED),
        ("git -c user.name='A B' -c core.editor=true commit -am one", ONE, 0, COMMITTED),
        ("cd /home/dev/proj/src && git commit -am one", ONE, 0, COMMITTED),
        ("git add . && git commit -m one && git push", f"{ONE}\nfatal: no upstream", 128, COMMITTED),
        ("git ci -am one", ONE, 0, COMMITTED),
        ("just commit one", ONE, 0, COMMITTED),
        ("git commit -qam one", "", 0, COMMITTED),
        ('git commit -qm "$(cat <<\'EOF\'\none\n\nmore\nEOF\n)"', "", 0, COMMITTED),
        ("git commit -am one", "husky - pre-commit hook exited with code 1", 1, LEFT),
        ("git commit -m one; echo done", "On branch main\nno changes added to commit\ndone", 0, LEFT),
        ("npm test && git commit -am one", "1 failed", 1, LEFT),
        ("git commit -am one | tail -1", " 1 file changed", 0, COMMITTED),
        ("git commit -qam one; echo done", "done", 0, UNKNOWN),
        ("git -C /home/dev/other commit -am one", "[main 2222222] one", 0, LEFT),
        ("cd ~/other && git commit -am one", "[main 2222222] one", 0, LEFT),
        ("git commit -q -F - <<'EOF'\none\n\nmore\nEOF\ngit log --oneline -2", "1111111 one\n0000000 start", 0, COMMITTED),
        ("git status --short --branch", "## main...origin/main", 0, UNKNOWN),
        ("git status src/", "nothing to commit, working tree clean", 0, LEFT),
        ("gt create -am one", "created", 0, UNKNOWN),
        ("git stash", "Saved working directory and index state WIP on main: 1 x", 0, LEFT),
        ("cat notes.txt", "[main 1111111] one", 0, LEFT),
    ],
)  # fmt: skip
def test_a_commit_is_told_only_where_it_is_proven(
    command: str, output: str, code: int, expected: str | None, tmp_path: Path
) -> None:
    """Where nobody can know it, the file is neither committed nor "not committed"."""
    lines = lines_of(start().shell(command, output, code), tmp_path)

    assert lines.get("Not committed yet") == (expected or None)
    known = [text for label, text in lines.items() if label == "Committed on `main`"]
    assert bool(known) == (expected == COMMITTED)


def test_files_outside_of_every_repository_are_not_uncommitted(tmp_path: Path) -> None:
    """A scratch file, a note of the agent, and a folder without git have nothing to commit."""
    plain = ThreadBuilder("pi").user("go").edit("a.py", "1", "2")
    noted = start().edit("/home/dev/.claude/projects/x/memory/MEMORY.md", "1", "2")

    assert "Not committed yet" not in lines_of(plain, tmp_path)
    assert lines_of(noted, tmp_path)["Not committed yet"] == "`a.py`"


@pytest.mark.parametrize("name", [".env", "dist/app.js", "notes.log", "settings.local.json"])
def test_what_usually_is_ignored_needs_a_word_of_git(name: str, tmp_path: Path) -> None:
    """A file that git names is one of the repository."""
    silent = start().create(name, "x")
    named = silent.shell(f"git add -f {name}", "")

    assert lines_of(start().create(name, "x"), tmp_path)["Not committed yet"] == "`a.py`"
    assert name.rpartition("/")[2] in lines_of(named, tmp_path)["Not committed yet"]


def test_worktrees_have_files_of_their_own(tmp_path: Path) -> None:
    """A commit in one says nothing of a file in the other."""
    tree = "/home/dev/proj/.worktrees/fix"
    builder = start().shell("git worktree add -b fix .worktrees/fix", "Preparing worktree")
    builder = builder.edit(f"{tree}/b.py", "1", "2")
    committed = builder.shell(f"git -C {tree} commit -am two", "[fix 2222222] two")
    lines = lines_of(committed, tmp_path)

    assert lines["Not committed yet"] == "`a.py`"
    assert lines["Committed on `fix` in `.worktrees/fix`"] == "`2222222` two — no push seen"


def test_history_that_nobody_can_follow_is_not_told(tmp_path: Path) -> None:
    """After a reset, a rebase or a forced push of something else, a commit needs a log that shows it."""
    made = start().shell("git commit -am one", ONE)
    forced = " + 1111111...9999999 main -> main (forced update)"

    for command, output in (
        ("git reset -q --hard origin/main; echo done", "done"),
        ("git filter-branch --all", "Ref 'refs/heads/main' was rewritten"),
        ("git push --force", forced),
    ):
        gone = made.shell(command, output)
        assert "1111111" not in str(lines_of(gone, tmp_path))
        made = start().shell("git commit -am one", ONE)
    copied = start().shell(
        "git rebase --continue", "[detached HEAD 5555555] theirs\n 1 file changed"
    )
    assert "5555555" not in str(lines_of(copied, tmp_path))


def test_a_push_by_another_program_is_seen(tmp_path: Path) -> None:
    """The words of a tool that pushes by itself count as those of git."""
    made = start().shell("git commit -am one", ONE)
    pushed = made.shell("trail create", "Pushed branch main to origin")

    assert lines_of(pushed, tmp_path)["Committed on `main`"] == "`1111111` one — pushed"


def test_a_submodule_has_a_branch_of_its_own(tmp_path: Path) -> None:
    """What git says of a folder inside says nothing of the branch around it."""
    inside = start().shell(
        "git -C test/bats status --short --branch", "## No commits yet on master"
    )

    assert lines_of(inside, tmp_path)["Branch"].startswith("`main`")


def test_a_file_that_may_be_committed_is_counted_apart(tmp_path: Path) -> None:
    """Behind a report of a sub-agent, only what was edited since is surely left."""
    builder = start().shell("git commit -qam x; echo done", "done").edit("b.py", "1", "2")

    assert lines_of(builder, tmp_path)["Not committed yet"] == (
        "`b.py`; of 1 more the thread does not tell"
    )


def test_two_repositories_do_not_mix(tmp_path: Path) -> None:
    """A line that commits in both is read in its order."""
    builder = start().shell(
        "cd /home/dev/api && git commit -qam x || true; cd /home/dev/web && git commit -am web && cd ../api && git commit -am api",
        "[main 3333333] web\n[main 4444444] api",
    )
    lines = lines_of(builder, tmp_path)

    assert lines["Not committed yet"] == "`a.py`"
    assert "`4444444` api" in str(lines)
    assert "Committed on `main` in `/home/dev/web`" in str(lines)


def test_jujutsu_keeps_edits_in_commits(tmp_path: Path) -> None:
    """With jj a description is enough."""
    builder = start().shell(
        'jj describe -m "Parse rows"',
        "Working copy  (@) now at: qpv 1a2b3c4d Parse rows\nParent commit (@-)      : zzz 00000000",
    )

    assert "Not committed yet" not in lines_of(builder, tmp_path)


def test_words_of_others_settle_files(tmp_path: Path) -> None:
    """The user's word or a sub-agent's report may mean a commit: then nothing is claimed."""
    told = start().user("I committed that myself, go on")
    reported = start().agent("Commit the work")

    assert "Not committed yet" not in lines_of(told, tmp_path)
    assert "nothing was committed" not in str(lines_of(reported, tmp_path))


CREATE = ("gh pr create --fill", "https://github.com/o/r/pull/7")


@pytest.mark.parametrize(
    ("command", "output", "expected"),
    [
        ("gh pr merge 7 --squash", "", "#7 merged, made in this thread"),
        ("gh pr merge --squash", "", "#7 merged, made in this thread"),
        ("gh pr merge 7 --auto --squash", "", "#7 open, made in this thread"),
        ("gh pr merge 7 --squash | tail -1", "", "#7 open, made in this thread"),
        ("gh pr merge 7 --squash; echo done", "X Pull request o/r#7 is not mergeable\ndone", "#7 open, made in this thread"),
        ("gh pr view 7 --json state -q .state", "MERGED", "#7 merged, made in this thread"),
        ("gh pr view 7 --json state,mergedAt", '{"mergedAt":"2026-01-01T00:00:00Z","state":"MERGED"}', "#7 merged, made in this thread"),
        ("gh pr close 7", "✓ Closed pull request o/r#7 (one)", "#7 closed, made in this thread"),
        ("gh pr ready 7 --undo", "", "#7 draft, made in this thread"),
        ("git log --oneline origin/main", "abc1234 Parse rows (#7)", "#7 merged, made in this thread"),
        ("git log --oneline", "abc1234 Revert the parser (#7)", "#7 open, made in this thread"),
        ("gh pr view 9 --json state -q .state", "MERGED", "#7 open, made in this thread"),
    ],
)  # fmt: skip
def test_a_pull_request_has_the_state_that_was_seen_last(
    command: str, output: str, expected: str, tmp_path: Path
) -> None:
    """Merged is only what a program, the log of the main branch or the user called merged."""
    builder = start().shell("git switch -c topic", "Switched to a new branch 'topic'")
    builder = builder.shell(*CREATE).shell(command, output)

    assert lines_of(builder, tmp_path)["Pull requests, as last seen"] == expected


@pytest.mark.parametrize(
    ("words", "state"),
    [
        ("The PR is merged, go on with the next one", "merged"),
        ("I merged it", "merged"),
        ("Go on when the PR is merged", "open"),
        ("Is the PR merged?", "open"),
        ("Why was the PR not merged", "open"),
    ],
)
def test_the_user_may_say_that_it_is_merged(words: str, state: str, tmp_path: Path) -> None:
    """A condition, a question and a denial say nothing."""
    lines = lines_of(start().shell(*CREATE).user(words), tmp_path)

    assert lines["Pull requests, as last seen"] == f"#7 {state}, made in this thread"


def test_checks_and_releases_are_told_as_last_seen(tmp_path: Path) -> None:
    """The table of the checks is summed up; a package counts once its program named it."""
    rows = "build\tpass\t1m\thttps://x\nlint\tfail\t3s\thttps://y\ntest\tpending\t0\thttps://z"
    builder = start().shell(*CREATE).shell("gh pr checks 7", rows, 8)
    builder = builder.shell("npm publish", "npm notice\n+ @dev/shop@1.2.0")
    lines = lines_of(builder, tmp_path)

    assert lines["Checks of #7, as last seen"] == "1 FAILED (`lint`), 1 passed, 1 still running"
    runs = "completed\tfailure\tParse rows\tCI\tmain\tpush\t12\ncompleted\tsuccess\tOld\tCI\tmain\tpush\t11"
    listed = lines_of(start().shell("gh run list", runs), tmp_path)

    assert listed["Checks of `main`, as last seen"] == "1 FAILED (`CI`)"
    assert lines["Published by this thread"] == "`@dev/shop@1.2.0`"


def test_pull_requests_of_two_repositories_do_not_mix(tmp_path: Path) -> None:
    """Each has its repository where there are several; an open one is told before a merged one."""
    made = start().shell(*CREATE)
    other = made.shell("cd ../b && gh pr create --fill", "https://github.com/dev/b/pull/7")
    lines = lines_of(other.shell("gh pr merge 7 --squash -R dev/b", ""), tmp_path)

    first, second = lines["Pull requests, as last seen"].split(", made in this thread")[:2]
    assert first == "o/r#7 open"
    assert second == ", dev/b#7 merged"


def test_the_last_table_of_checks_counts(tmp_path: Path) -> None:
    """A watch prints many; a list that shows only failures counts nothing else."""
    head = "Refreshing checks status every 10 seconds. Press Ctrl+C to quit.\n\n"
    table = "build\tpending\t0\thttps://x\nlint\tpending\t0\thttps://y\n"
    passed = table.replace("pending", "pass")
    watched = f"{head}{table}{head}{passed}{passed}"
    builder = start().shell(*CREATE).shell("gh pr checks 7 --watch", watched)

    assert lines_of(builder, tmp_path)["Checks of #7, as last seen"] == "2 passed"
    listed = builder.shell("gh pr checks 7 --json name,bucket", '[{"name":"lint","bucket":"fail"}]')
    assert lines_of(listed, tmp_path)["Checks of #7, as last seen"] == "1 FAILED (`lint`)"
    counted = builder.shell("gh pr checks 7 --json bucket -q length", "3")
    assert "Checks of #7, as last seen" not in lines_of(counted, tmp_path)


def test_the_release_of_gh_itself_was_not_published(tmp_path: Path) -> None:
    """A version's address is no release of the thread."""
    address = "https://github.com/cli/cli/releases/tag/v2.95.0"
    shown = start().shell("gh --version && cat publish.sh # npm publish", address)
    made = start().shell("gh release create v1", address.replace("cli/cli", "dev/shop"))

    assert "Published by this thread" not in lines_of(shown, tmp_path)
    assert "dev/shop" in lines_of(made, tmp_path)["Published by this thread"]


def test_what_a_complete_list_lacks_is_not_left(tmp_path: Path) -> None:
    """A file that a command moved away is no change any more; others' changes are told."""
    builder = start().read("old.md", "x").shell("mv old.md docs/old.md", "")
    status = "On branch main\nChanges not staged for commit:\n\tmodified:   a.py\n\nUntracked files:\n\tdocs/old.md"
    lines = lines_of(builder.shell("git status", status), tmp_path)

    assert "`old.md`" not in lines["Not committed yet"]
    assert "`a.py`" in lines["Not committed yet"]


def test_a_worktree_of_another_repository_has_its_folder(tmp_path: Path) -> None:
    """The branch of a worktree that another checkout added is none of the thread's folder."""
    builder = start().shell(
        "git -C /src/lib worktree add -b fix /src/lib-fix", "Preparing worktree"
    )
    builder = builder.shell("git -C /src/lib-fix commit -am two", "[fix 2222222] two")
    builder = builder.shell("git commit -am one", ONE)

    assert "Committed on `fix` in `/src/lib-fix`, earlier" in lines_of(builder, tmp_path)


def call_of(builder: ThreadBuilder, name: str, output: str) -> ThreadBuilder:
    """The thread with one more call of a tool of Claude Code."""
    use = {"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": {}}
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": output}
    for role, block in (("assistant", use), ("user", result)):
        message = {"role": role, "content": [block]}
        builder = builder.raw(type=role, uuid=f"{name}-{role}", cwd=HOME, message=message)
    return builder


def test_the_program_may_go_into_a_worktree_and_back(tmp_path: Path) -> None:
    """The branch in use is that of the checkout in which Claude Code works; commands run there."""
    tree = f"{HOME}/.claude/worktrees/fix"
    entered = f"Created worktree at {tree} on branch worktree-fix. The session is now working in the worktree."
    inside = call_of(start(), "EnterWorktree", entered).edit(f"{tree}/b.py", "1", "2")
    lines = lines_of(inside, tmp_path)

    assert lines["Branch"].startswith("`worktree-fix` in `.claude/worktrees/fix`")
    inside = inside.shell("git commit -am two", "[worktree-fix 2222222] two")
    left = f"Exited worktree. Your work is preserved at {tree} on branch worktree-fix. Session is now back in {HOME}."
    status = "On branch main\nChanges to be committed:\n\tmodified:   b.py"
    back = call_of(inside, "ExitWorktree", left).shell(
        "git checkout worktree-fix -- b.py; git status", status
    )
    lines = lines_of(back, tmp_path)

    assert lines["Branch"] == "`main`"
    assert "Committed on `worktree-fix`, earlier" in lines
    assert lines["Changed or new in the folder, as git listed it"] == "`b.py`"


def test_a_push_takes_along_what_the_log_of_its_branch_holds(tmp_path: Path) -> None:
    """What was committed before somebody made a branch of it is pushed with that branch."""
    builder = start().shell("git commit -am one", ONE)
    builder = builder.shell(
        "git commit -m two && git log --oneline", "[fix 2222222] two\n2222222 two\n1111111 one"
    )
    builder = builder.shell("git push", "   0000000..2222222  fix -> fix")

    lines = lines_of(builder, tmp_path)
    assert lines["Committed on `fix`"] == "`2222222` two — pushed"
    assert lines["Committed on `main`, earlier"] == "`1111111` one — pushed"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with one commit."""
    folder = tmp_path / "proj"
    folder.mkdir()
    run(folder, "init", "-q", "-b", "main")
    (folder / "a.py").write_text("1\n")
    (folder / ".gitignore").write_text("out/\n")
    run(folder, "add", ".")
    run(folder, "commit", "-qm", "first")
    return folder


def run(folder: Path, *words: str) -> str:
    """What git prints in a folder."""
    command = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words)
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_git_decides_where_the_folder_is_here(project: Path, tmp_path: Path) -> None:
    """A file that somebody committed is not left, an ignored one neither; others' changes are told."""
    for name in ("a.py", "b.py", "c.py"):
        (project / name).write_text("2\n")
    (project / "out").mkdir()
    (project / "out" / "x.js").write_text("2\n")
    run(project, "add", "a.py")
    run(project, "commit", "-qm", "by hand")
    run(project, "add", "b.py")
    builder = ThreadBuilder("claude", cwd=str(project)).user("go")
    builder = builder.edit("a.py", "1", "2").create("b.py", "2").create("out/x.js", "2")
    lines = lines_of(builder, tmp_path, str(project))

    assert lines["Not committed yet"] == "`b.py` (1 of them staged)"
    assert lines["Also changed or new in the folder, now"] == "`c.py`"


def test_git_knows_which_commits_are_left_and_pushed(project: Path, tmp_path: Path) -> None:
    """A commit that was reset away is not told; one that the upstream has is pushed."""
    upstream = tmp_path / "upstream.git"
    run(tmp_path, "init", "-q", "--bare", str(upstream))
    run(project, "remote", "add", "origin", str(upstream))
    run(project, "push", "-qu", "origin", "main")
    builder = ThreadBuilder("claude", cwd=str(project)).user("go")
    for word in ("lost", "kept"):
        (project / "a.py").write_text(word)
        builder = builder.shell(f"git commit -am {word}", run(project, "commit", "-am", word))
        if word == "lost":
            run(project, "reset", "-q", "--hard", "HEAD^")
    told = lines_of(builder, tmp_path, str(project))["Committed on `main`"]
    run(project, "push", "-q")
    pushed = lines_of(builder, tmp_path, str(project))["Committed on `main`"]

    assert told.endswith("kept — no push seen")
    assert "lost" not in told
    assert pushed.endswith("kept — pushed")


@pytest.mark.parametrize(
    ("command", "output", "left"),
    [
        ('echo "=== tree ==="; git status --porcelain; echo "=== log ==="; git log -1', "=== tree ===\n=== log ===\ncommit 2222222", False),
        ('echo "=== tree ==="; git status --porcelain; echo "=== log ==="; git log -1', "=== tree ===\n M a.py\n=== log ===\ncommit 2222222", True),
        ("git status --porcelain && echo clean; git rev-list --count origin/main..HEAD", "clean\n0", False),
        ("git status --porcelain; ./report.sh", "done", True),
        ("git status --porcelain 2>/dev/null; echo end", "end", True),
        ("git status --porcelain; echo end", "fatal: not a git repository\nend", True),
        ("git status --short | head; echo end", "end", True),
        ("git status -sb", "status:\n## main...origin/main", False),
    ],
)  # fmt: skip
def test_an_empty_list_counts_where_echoes_show_that_it_is_whole(
    command: str, output: str, left: bool, tmp_path: Path
) -> None:
    """Between two headings nobody else printed; where that is not sure, nothing is taken back."""
    lines = lines_of(start().shell(command, output), tmp_path)

    assert ("Not committed yet" in lines) == left


def test_who_lists_a_file_as_changed_is_told_apart(tmp_path: Path) -> None:
    """Git listed it behind its last edit, or somebody may have committed it unseen."""
    listed = start().shell("git status --short", " M a.py")
    threads = [thread_of(builder, tmp_path) for builder in (start(), listed)]
    labels = [
        [i.label for i in list_state_items(thread, derive_facts(thread).facts)][-1]
        for thread in threads
    ]

    assert labels == ["Not committed yet, as far as the thread shows", "Not committed yet"]


def test_a_status_before_a_commit_says_nothing_of_the_time_after(tmp_path: Path) -> None:
    """The branch was in step with the other one, and is ahead now."""
    before = "On branch main\nYour branch is up to date with 'origin/main'.\nChanges to be committed:\n\tmodified:   a.py"
    after = "On branch main\nYour branch is ahead of 'origin/main' by 1 commit.\nnothing to commit, working tree clean"
    both = start().shell(
        "git status && git commit -am one && git status", f"{before}\n{ONE}\n{after}"
    )
    once = start().shell("git status && git commit -am one", f"{before}\n{ONE}")

    assert (
        "no push seen; git called the tree clean" in lines_of(both, tmp_path)["Committed on `main`"]
    )
    assert "Not committed yet" not in lines_of(once, tmp_path)


def test_the_commit_of_a_merge_takes_all_of_it(tmp_path: Path) -> None:
    """Also what git staged by itself, beside the files that were added by name."""
    builder = start().shell("git merge next", "CONFLICT (content): Merge conflict in b.py")
    builder = builder.edit("b.py", "1", "2").shell("git status -s", "M  a.py\nUU b.py")
    builder = builder.shell("git add b.py", "").shell("git commit -m two", "[main 2222222] two")

    assert "Not committed yet" not in lines_of(builder, tmp_path)


@pytest.mark.parametrize(
    ("command", "printed", "kept"),
    [
        ("git rebase origin/main", "Rebasing (1/1)", True),
        ("git rebase origin/main", "Rebasing (1/2)Rebasing (2/2)", False),
        ("git rebase --onto origin/main 1111111", "Rebasing (1/1)", False),
    ],
)
def test_a_rebase_loses_as_many_commits_as_it_counts(
    command: str, printed: str, kept: bool, tmp_path: Path
) -> None:
    """Older ones keep their hashes, unless they were left out."""
    builder = start().shell("git commit -am one", ONE).edit("b.py", "1", "2")
    builder = builder.shell("git commit -am two", "[main 2222222] two")
    done = f"{printed}\rSuccessfully rebased and updated refs/heads/main."
    builder = builder.shell(command, done).shell("git log --oneline -1", "3333333 two")

    assert ("`1111111` one" in lines_of(builder, tmp_path)["Committed on `main`"]) == kept


def test_a_push_names_the_commit_whose_line_was_cut_off(tmp_path: Path) -> None:
    """Of `git commit | tail -1` the count of files is left, and the push prints the hash."""
    printed = " 1 file changed, 5 insertions(+)\n   1111111..2222222  main -> main"
    builder = start().shell("git commit -am one | tail -1 && git push | tail -1", printed)

    assert lines_of(builder, tmp_path)["Committed on `main`"] == "`2222222` one — pushed"


def test_a_checkout_that_names_what_it_follows_has_switched(tmp_path: Path) -> None:
    """Where `tail` left the last line, that names the branch."""
    builder = start().shell(
        "git checkout -B topic origin/topic | tail -1",
        "Your branch is up to date with 'origin/topic'.",
    )

    assert lines_of(builder, tmp_path)["Branch"].startswith("`topic`")


@pytest.mark.parametrize(
    ("command", "output", "branch"),
    [
        ("git switch topic -q && grep -rn x src | head; echo done", "src/x.py:1:x\ndone", "topic"),
        ("git switch topic -q; echo done", "error: Your local changes would be overwritten\ndone", "main"),
        ("make check && git switch topic -q; echo done", "done", "main"),
        ("git push", "   1111111..2222222  topic -> topic", "topic"),
        ("git push origin topic", "   1111111..2222222  topic -> topic", "main"),
    ],
)  # fmt: skip
def test_a_quiet_switch_is_seen_by_what_it_does_not_print(
    command: str, output: str, branch: str, tmp_path: Path
) -> None:
    """git prints an error if a switch fails; a push without a name is of the branch in use."""
    builder = start().shell("git log --oneline main topic", "").shell("git commit -am one", ONE)
    builder = builder.shell("git checkout -b topic", "Switched to a new branch 'topic'")
    builder = builder.shell("git checkout main", "Switched to branch 'main'")

    lines = lines_of(builder.shell(command, output).shell("git commit -q -am two", ""), tmp_path)
    assert any(label == f"Committed on `{branch}`" for label in lines)


def test_an_open_pull_request_that_was_looked_at_is_told(tmp_path: Path) -> None:
    """It matters although the thread only asked for its state, in whatever form."""
    asked = "gh pr view 8 --json state,title --jq '\"8: \\(.state) \\(.title)\"'"
    builder = start().shell(*CREATE).shell("gh pr merge 7", "✓ Merged pull request #7")
    lines = lines_of(builder.shell(asked, "8: OPEN Parse rows"), tmp_path)

    assert "#8 open" in lines["Pull requests, as last seen"]


def test_what_a_commit_may_hold_was_not_put_back(tmp_path: Path) -> None:
    """`git checkout -- .` restores what is not committed, and nothing outside of the folder."""
    builder = start().edit("/home/dev/notes.md", "1", "2")
    builder = builder.shell("git commit -qam one | tail -1", "").shell("git checkout -- .", "")
    plain = start().shell("git checkout -- .", "")

    assert "Put back as git has it" not in lines_of(builder, tmp_path)
    assert lines_of(plain, tmp_path)["Put back as git has it"] == "`a.py`"


def test_a_formatter_before_a_complete_list_changed_nothing_else(tmp_path: Path) -> None:
    """What it changed would be listed."""
    builder = (
        start()
        .shell("make fmt", "")
        .shell("git status", "On branch main\nUntracked files:\n\ta.py")
    )

    assert lines_of(builder, tmp_path)["Not committed yet"] == "`a.py`"


def test_each_commit_of_a_line_has_its_own_message(tmp_path: Path) -> None:
    """Also where here-documents hold them, and git prints nothing."""
    line = " && ".join(
        f"git add {name} && git commit -q -m \"$(cat <<'EOF'\n{name} is mended\n\nWhy.\nEOF\n)\""
        for name in ("one", "two")
    )

    made = lines_of(start().shell(line, ""), tmp_path)["Committed on `main`"]
    assert made == "two is mended; one is mended — no push seen"


def test_a_heading_is_no_branch_and_an_ignored_file_no_change(tmp_path: Path) -> None:
    """`## ` names the branch where git was asked for it, and `!!` is what git leaves alone."""
    read = start().shell("git status --short && cat README.md", " M a.py\n# Shop\n## License")
    both = start().shell("git status --short --ignored", " M a.py\n?? b.py\n!! target/")

    assert lines_of(read, tmp_path)["Branch"].startswith("`main`")
    assert (
        lines_of(both, tmp_path)["Also changed or new in the folder, as git listed it"] == "`b.py`"
    )


def test_a_rebase_that_stopped_is_under_way(tmp_path: Path) -> None:
    """Also where only the end of what git printed is left."""
    stopped = 'hint: run "git rebase --continue".\nCould not apply 8d07169... # one'

    builder = start().shell("git rebase main | tail -2", stopped)
    assert "Merge or rebase with conflicts, under way" in lines_of(builder, tmp_path)


@pytest.mark.parametrize(
    ("after", "goes_on"),
    [
        ([], True), ([("git status", "On branch main\nYou have unmerged paths.")], True), ([("git diff --merge --hard", "")], True),
        ([("git reset --hard", "HEAD is now at 1111111 one")], False),
        ([("git merge --abort", "")], False), ([("git commit --no-edit", "[main 2222222] Merge")], False),
        ([("git rebase --continue", "Successfully rebased and updated refs/heads/main.")], False),
    ],
)  # fmt: skip
def test_a_merge_with_conflicts_is_told_until_it_ends(
    after: list[tuple[str, str]], goes_on: bool, tmp_path: Path
) -> None:
    """By a commit, an abort, or the end of a rebase."""
    builder = start().shell("git merge next", "CONFLICT (content): Merge conflict in b.py", 1)
    for command, output in after:
        builder = builder.shell(command, output)

    told = "Merge or rebase with conflicts, under way" in lines_of(builder, tmp_path)
    assert told == goes_on


def test_a_part_of_a_list_is_not_the_list(tmp_path: Path) -> None:
    """`head` leaves rows out, and the number of those that are left says nothing."""
    builder = start().shell("git status --short | head -2", " M a.py\n M b.py")

    assert not any("as git listed it" in label for label in lines_of(builder, tmp_path))


def test_files_of_a_folder_that_was_removed_are_gone(tmp_path: Path) -> None:
    """Also where the line goes on with a commit; a file that only left the index is there."""
    builder = start().create("cmd/try/main.go", "x").shell("git status --short", "?? cmd/try/")
    kept = lines_of(builder.shell("git rm --cached cmd/try/main.go", ""), tmp_path)
    gone = lines_of(builder.shell("rm -rf cmd/try && git commit -qam two", ""), tmp_path)

    assert "main.go" in kept["Not committed yet"]
    assert "main.go" not in gone.get("Not committed yet", "")


def test_sub_agents_may_have_changed_more(tmp_path: Path) -> None:
    """Where git did not list the files, nobody knows what they wrote."""
    assert lines_of(start().agent("Fix it"), tmp_path)["Not committed yet"] == (
        "`a.py`; sub-agents may have changed more"
    )


def test_a_repository_that_a_script_makes_is_another_one(tmp_path: Path) -> None:
    """Its commits and its branch say nothing of the thread's."""
    made = f"Initialized empty Git repository in /tmp/x/.git/\n{ONE.replace('main', 'trial')}"
    lines = lines_of(start().shell("./scripts/e2e.sh", made), tmp_path)

    assert "trial" not in str(lines)
    assert lines["Not committed yet"] == "`a.py`"


def test_what_was_only_a_stopover_is_no_change(tmp_path: Path) -> None:
    """A file that was moved twice is listed where it is; a name that git does not list was in no commit."""
    moved = (
        ThreadBuilder("claude")
        .user("Move the package to the root")
        .shell("git mv pkg/sync sync", "")
        .shell("git mv sync/client.go client.go", "")
        .shell("git status --short", "R  pkg/sync/client.go -> client.go\nRM pkg/sync/unstable/client.go -> unstable/client.go\n")
    )  # fmt: skip
    thread = thread_of(moved, tmp_path)
    told = [f"{i.label}: {i.text}" for i in list_state_items(thread, derive_facts(thread).facts)]

    assert not any("`sync/client.go`" in line for line in told)
    assert any("`unstable/client.go`" in line for line in told)


@pytest.mark.parametrize(
    ("command", "listed", "told"),
    [
        ("git status --short", " M a.py\n?? lib/\n", "`lib/`"),
        ("git status --short -- a.py b.py", " M a.py\n M b.py\n", ""),
    ],
)
def test_what_else_changed_is_of_a_whole_list(
    command: str, listed: str, told: str, tmp_path: Path
) -> None:
    """A folder that git does not know holds more than the file that was edited in it; a part of a list is none."""
    builder = start().create("lib/new.py", "x = 1").shell(command, listed)
    thread = thread_of(builder, tmp_path)
    items = list_state_items(thread, derive_facts(thread).facts)

    assert next((i.text for i in items if "as git listed it" in i.label), "") == told
