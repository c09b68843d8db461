"""Threads of four kinds of work, and sentences of summaries about them, false and true."""

from tasuki_testing.builder import ThreadBuilder


def bistro_thread() -> ThreadBuilder:
    """A web app: jest, a linter that fails, a push, a sub-agent, a server in the background."""
    cwd = "/home/dev/bistro"
    builder = ThreadBuilder("claude", cwd)
    builder.user(
        "We build the reservation page of bistro.app. Use vitest-free setup: only jest. Never commit directly to main. Opening hours come from src/hours.ts, don't hardcode them."
    )
    builder.assistant("I'll look at the layout first.")
    builder.shell(
        "git status", "On branch feature/reservations\nnothing to commit, working tree clean\n"
    )
    builder.read(f"{cwd}/src/hours.ts", "export const OPENING = { mon: [11, 22] };\n")
    builder.read(
        f"{cwd}/src/components/ReservationForm.tsx",
        "export function ReservationForm() { return null; }\n",
    )
    builder.create(
        f"{cwd}/src/components/SlotPicker.tsx",
        "export function SlotPicker() { return <div/>; }\nexport const MAX_PARTY_SIZE = 12;\n",
    )
    builder.edit(
        f"{cwd}/src/components/ReservationForm.tsx", "return null;", "return <SlotPicker/>;"
    )
    builder.shell(
        "npx jest",
        "PASS src/hours.test.ts\nFAIL src/components/SlotPicker.test.tsx\n  ● SlotPicker › disables full slots\n    expect(received).toBe(expected)\n\nTests:       1 failed, 17 passed, 18 total\nTest Suites: 1 failed, 3 passed, 4 total\n",
        1,
    )
    builder.edit(
        f"{cwd}/src/components/SlotPicker.tsx", "return <div/>;", "return <div aria-disabled/>;"
    )
    builder.shell(
        "npx jest",
        "Tests:       18 passed, 18 total\nTest Suites: 4 passed, 4 total\nTime: 3.4 s\n",
    )
    builder.shell(
        "git add -A && git commit -m 'Add slot picker'",
        "[feature/reservations a81d3f2] Add slot picker\n 2 files changed, 40 insertions(+)\n",
    )
    builder.shell(
        "git push -u origin feature/reservations",
        "To github.com:bistro/app.git\n * [new branch]      feature/reservations -> feature/reservations\n",
    )
    builder.user(
        "Reservation requests must time out after 8 seconds. And please rename partySize to guests everywhere."
    )
    builder.edit(f"{cwd}/src/api/reservations.ts", "partySize", "guests")
    builder.edit(f"{cwd}/src/components/ReservationForm.tsx", "partySize", "guests")
    builder.background("npm run dev", "running")
    builder.shell(
        "npm run lint",
        "✖ 2 problems (2 errors, 0 warnings)\n  src/api/reservations.ts 14:3 error no-unused-vars\n",
        1,
    )
    builder.shell("npm install date-fns@3.6.0", "added 1 package in 2s\n")
    builder.agent("Research how OpenTable limits party size", "done")
    builder.todos(
        ("Slot picker", "completed"),
        ("Rename partySize to guests", "completed"),
        ("Fix lint errors", "in_progress"),
        ("Email confirmation", "pending"),
    )
    builder.shell("npx tsc --noEmit", "")
    builder.assistant("Types are fine, the linter still complains in two places.")
    return builder


def logsift_thread() -> ThreadBuilder:
    """A tool in Rust: an amended commit, a build that was repaired, a test that fails."""
    builder = ThreadBuilder("codex", "/home/dev/logsift")
    builder.user(
        "logsift needs a `--since` flag. Rust only, no new crates. Ask me before you publish anything."
    )
    builder.shell("git branch --show-current", "since-flag\n")
    builder.shell(
        "cargo test",
        "running 9 tests\ntest result: ok. 9 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s\n",
    )
    builder.read("src/main.rs", "fn main() { run(); }\n")
    builder.edit("src/main.rs", "fn main() { run(); }", "fn main() { run(parse_since()); }")
    builder.create("src/since.rs", "pub fn parse_since() -> Option<Duration> { None }\n")
    builder.shell(
        "cargo build",
        'error[E0425]: cannot find type `Duration` in this scope\n --> src/since.rs:1:32\nerror: could not compile `logsift` (bin "logsift") due to 1 previous error\n',
        101,
    )
    builder.edit(
        "src/since.rs",
        "pub fn parse_since() -> Option<Duration> { None }",
        "use std::time::Duration;\npub fn parse_since() -> Option<Duration> { None }",
    )
    builder.shell(
        "cargo build", "   Compiling logsift v0.4.1\n    Finished `dev` profile in 2.11s\n"
    )
    builder.shell(
        "git commit -am 'Parse --since'",
        "[since-flag 5c0e9b7] Parse --since\n 2 files changed, 8 insertions(+)\n",
    )
    builder.user(
        "Accept at most 30 days for --since. Error messages should go to stderr, not stdout."
    )
    builder.edit("src/since.rs", "None }", "Some(Duration::from_secs(3600)) }")
    builder.shell(
        "git commit -a --amend -m 'Parse --since with a default'",
        "[since-flag e71f44a] Parse --since with a default\n 2 files changed, 9 insertions(+)\n",
    )
    builder.shell(
        "cargo clippy -- -D warnings",
        "    Checking logsift v0.4.1\n    Finished `dev` profile in 1.01s\n",
    )
    builder.shell(
        "cargo test",
        "running 11 tests\ntest since::tests::rejects_31_days ... FAILED\n\nfailures:\n    since::tests::rejects_31_days\n\ntest result: FAILED. 10 passed; 1 failed; 0 ignored; finished in 0.03s\n",
        101,
    )
    builder.create("tests/since_cli.rs", "#[test] fn cli() {}\n")
    builder.assistant("One test fails: 31 days are accepted still.")
    return builder


def meters_thread() -> ThreadBuilder:
    """A data pipeline: a branch, a commit of one file of several, a push that failed."""
    builder = ThreadBuilder("pi", "/home/dev/meters")
    builder.user(
        "The nightly import of meter readings drops rows. Find out why. Rows with a negative value must be kept, flagged as suspect. Don't touch the production database. Use polars, not pandas."
    )
    builder.shell(
        "git status",
        "On branch main\nYour branch is up to date with 'origin/main'.\n\nnothing to commit, working tree clean\n",
    )
    builder.read("meters/importer.py", "def load(path):\n    return read(path).drop_nulls()\n")
    builder.read("config/pipeline.yaml", "batch_size: 500\nretries: 3\n")
    builder.shell(
        "git checkout -b fix/dropped-rows", "Switched to a new branch 'fix/dropped-rows'\n"
    )
    builder.edit("meters/importer.py", "drop_nulls()", "fill_null('suspect')")
    builder.edit("config/pipeline.yaml", "batch_size: 500", "batch_size: 2000")
    builder.shell(
        "python -m pytest tests/test_importer.py -q",
        "..F\nFAILED tests/test_importer.py::test_flags_negative - KeyError: 'suspect'\n1 failed, 2 passed in 0.41s\n",
        1,
    )
    builder.edit("meters/importer.py", "fill_null('suspect')", "with_columns(suspect=True)")
    builder.shell("python -m pytest -q", "24 passed in 1.90s\n")
    builder.shell(
        "git add meters/importer.py && git commit -m 'Keep rows with nulls'",
        "[fix/dropped-rows 9d2b6c1] Keep rows with nulls\n 1 file changed, 1 insertion(+), 1 deletion(-)\n",
    )
    builder.user(
        "Good. Now the duplicates. Keep the newest reading of a meter per hour, at least 13 months of history. Write the migration as SQL in migrations/, no ORM."
    )
    builder.create(
        "migrations/0007_unique_reading.sql",
        "CREATE UNIQUE INDEX reading_hour ON reading (meter, hour);\n",
    )
    builder.create("meters/dedupe.py", "def newest_per_hour(frame): ...\n")
    builder.shell("python -m pytest -q", "26 passed in 2.05s\n")
    builder.shell(
        "git push", "fatal: The current branch fix/dropped-rows has no upstream branch.\n", 128
    )
    builder.shell(
        "mypy meters",
        "meters/dedupe.py:1: error: Function is missing a type annotation\nFound 1 error in 1 file (checked 6 source files)\n",
        1,
    )
    builder.shell(
        "docker build -t meters .", "Successfully built 77ab01\nSuccessfully tagged meters:latest\n"
    )
    builder.shell("rm scripts/old_import.sh", "")
    builder.assistant("Duplicates are removed by an index and by dedupe.py.")
    return builder


def relay_thread() -> ThreadBuilder:
    """A service in Go, spoken of in German: the last test run was a part of the failed one."""
    cwd = "/home/dev/relay"
    builder = ThreadBuilder("gemini", cwd)
    builder.user(
        "Der Relay-Dienst verliert Nachrichten beim Neustart. Bitte niemals direkt auf den Staging-Server deployen. Die Warteschlange darf höchstens 5000 Einträge halten."
    )
    builder.shell(
        "git status", "On branch fix/queue-restart\nnothing to commit, working tree clean\n"
    )
    builder.read(f"{cwd}/internal/queue/queue.go", "package queue\nconst MaxEntries = 10000\n")
    builder.edit(f"{cwd}/internal/queue/queue.go", "10000", "5000")
    builder.create(
        f"{cwd}/internal/queue/journal.go",
        "package queue\n\ntype Journal struct{}\n\nfunc (j *Journal) Replay() error { return nil }\n",
    )
    builder.shell("go build ./...", "")
    builder.shell(
        "go test ./...",
        "ok  \trelay/internal/queue\t0.41s\n--- FAIL: TestReplayAfterCrash (0.02s)\n    relay_test.go:41: got 3 want 4\nFAIL\nFAIL\trelay/internal/relay\t0.20s\nFAIL\n",
        1,
    )
    builder.edit(f"{cwd}/internal/queue/journal.go", "return nil", "return j.sync()")
    builder.shell("go test ./internal/queue/", "ok  \trelay/internal/queue\t0.39s\n")
    builder.shell(
        "git add -A && git commit -m 'Journal the queue'",
        "[fix/queue-restart 0b7e9d4] Journal the queue\n 2 files changed, 31 insertions(+), 1 deletion(-)\n",
    )
    builder.user("Schreib noch einen Benchmark, aber ohne externe Bibliotheken.")
    builder.create(
        f"{cwd}/internal/queue/bench_test.go",
        "package queue\nfunc BenchmarkAppend(b *testing.B) {}\n",
    )
    builder.shell("go vet ./...", "")
    builder.assistant("TestReplayAfterCrash schlägt noch fehl.")
    return builder


THREADS = {
    "claude": bistro_thread,
    "codex": logsift_thread,
    "pi": meters_thread,
    "gemini": relay_thread,
}
"""By the harness in whose format they are written."""
FALSE = {
    "claude": (
        "- All 18 jest tests pass and `npm run lint` is clean.",
        "   - **Lint**: `npm run lint` passes without errors.",
        "- Current branch: `main`",
        '- Committed the slot picker as `b92e4a3` ("Add slot picker").',
        "- All changes have been committed and pushed to origin.",
        "   - `src/components/CalendarView.tsx` (created): month view of the slots",
        "- `src/components/TableMap.tsx`: new component that draws the tables",
        "- The user asked for a request timeout of 18 seconds.",
        "- Reservation requests must time out after 80 seconds (user requirement).",
        "- The user wants us to commit directly to main.",
        '- The user said: "please use vitest for the new tests"',
        "- Pending Tasks: the slot picker is still to be built.",
        '- Todo "Email confirmation" is done.',
        "- Created `MAX_TABLE_COUNT` constant in `SlotPicker.tsx`.",
        "- `npx tsc --noEmit` reports 3 type errors.",
        "- Nothing has been pushed yet.",
        '- The commit `a81d3f2` was "Add reservation form".',
        "- The working tree is clean.",
        "3. Files and Code Sections:\n   - `src/components/BookingWizard.tsx`\n      - Multi step wizard for the reservation",
        "- 21 tests pass.",
        "**Current Work:** all linting problems are resolved; `npm run lint` succeeds.",
        '- commit a81d3f2: "Introduce booking wizard"',
        "The user explicitly allowed hardcoding of opening hours.",
        '6. All user messages:\n   - "Let\'s switch to vitest, it is faster"',
        "Nobody has pushed the branch: nothing was pushed.",
    ),
    "codex": (
        "All tests pass, including the new `rejects_31_days`.",
        "The work is on branch `main`, commit `5c0e9b8`.",
        "The user allows at most 90 days for `--since`.",
        "The user wants errors printed to stdout, not stderr.",
        "The user said new crates are fine; I added `chrono` via `cargo add chrono`.",
        "`cargo clippy` fails with warnings.",
        "The build is currently broken: `cargo build` fails with E0425.",
        "I created `src/until.rs` with `parse_until()`.",
        "The change was pushed to origin.",
        'HEAD is `5c0e9b7` "Parse --since".',
        "`tests/since_cli.rs` was committed.",
        "The last `cargo test` run: 11 passed; 0 failed.",
        'The user wrote "publish it whenever you like".',
        "I ran `cargo fmt` and `cargo bench`.",
        "A new function `validate_since_range` in `src/since.rs` rejects 31 days.",
        "No uncommitted changes remain.",
        "The branch `since-flag` was merged into main and deleted.",
        "There are three failing tests.",
        "The user asked to accept at least 30 days for `--since`.",
        "Tests: all 11 green.",
        "`cargo test` passes.",
        "I ran `cargo deny check` too.",
        "The commit was pushed and merged into main.",
        "The user prefers stdout rather than stderr for error messages.",
        "Version 0.5.0 was released with `cargo release`.",
        "Current HEAD: 5c0e9b7.",
        "`cargo clippy -- -D warnings` failed.",
    ),
    "pi": (
        "### Done\n- [x] Pushed `fix/dropped-rows` to origin",
        "### Done\n- [x] mypy is clean",
        "### Done\n- [x] Committed `meters/dedupe.py` and the migration",
        "- Use pandas, not polars",
        "- at least 3 months of history have to be kept",
        "- Created `migrations/0008_drop_duplicates.sql`",
        "- Tests: 28 passed",
        "- The test suite fails with KeyError: 'suspect'",
        "- Branch: main",
        "- Commit 9d2b6c2 keeps rows with nulls",
        "- `docker build` failed",
        "- The user allowed changes to the production database",
        '- User\'s words: "go ahead and use SQLAlchemy for the migration"',
        "- The migration uses an ORM as the user asked",
        "- ✅ All checks pass (pytest, mypy)",
        "- Added class `ReadingDeduplicator` to `meters/dedupe.py`",
        "- Committed `config/pipeline.yaml` with the new batch size",
        "- mypy passes now",
        "- fully committed: all changes, including the migration",
        "- Merged fix/dropped-rows into main",
        "- Opened a pull request for the importer fix",
        "- **Branch**: `fix/duplicates`",
        "- The importer lives in `src/meters/importer.py`",
        "- Use pandas instead of polars (user)",
        "- at most 13 months of history",
    ),
    "gemini": (
        "<current_state>\n- `go test ./...` läuft fehlerfrei durch.\n</current_state>",
        "<key_knowledge>\n- Die Warteschlange darf höchstens 50000 Einträge halten.\n</key_knowledge>",
        "<key_knowledge>\n- Der Nutzer möchte direkt auf den Staging-Server deployen.\n</key_knowledge>",
        "<file_system_state>\n- CREATED: `internal/queue/snapshot.go`\n</file_system_state>",
        "<recent_actions>\n- Committed as `0b7e9d5`.\n</recent_actions>",
        "<recent_actions>\n- Der Branch wurde gepusht.\n</recent_actions>",
        "- Alle Tests sind grün.",
        "- Aktueller Branch: `main`",
        "- すべてのテストが成功しました。",
        "- ブランチ: `main`",
        "- `internal/queue/snapshot.go` を作成した。",
        "- 変更はすべてプッシュ済み。",
        "<overview>The relay lost messages on restart; everything is fixed and TestReplayAfterCrash passes.</overview>",
        "- `go vet ./...` meldet 2 Fehler.",
        "- MODIFIED: `cmd/relay/main.go` – startet das Journal",
        "- `Journal.Compact()` was added to `internal/queue/journal.go`",
        "- Alle Tests laufen durch.",
        "- Die Änderungen wurden gepusht.",
        "- `go test ./...` ist grün.",
        "- Mindestens 5000 Einträge muss die Warteschlange halten.",
        "- Wir arbeiten auf dem Branch `main`.",
        "- テストはすべて通過しました。",
        '- Der letzte Commit ist `0b7e9d4` "Add snapshot support"',
        "- `TestReplayAfterCrash` passes now.",
    ),
}
TRUE = {
    "claude": (
        "- All 18 jest tests pass (last run of `npx jest`), but `npm run lint` still reports 2 errors.",
        "- Current branch: `feature/reservations`",
        '- Committed the slot picker as `a81d3f2` ("Add slot picker") and pushed it to `origin/feature/reservations`.',
        "   - `src/components/SlotPicker.tsx` (created): picks a slot, exports `MAX_PARTY_SIZE`",
        "   - `src/hours.ts` (read only): opening hours",
        "- The user asked that reservation requests time out after 8 seconds.",
        "- The user forbids committing directly to main.",
        '- User: "Reservation requests must time out after 8 seconds. And please rename partySize to guests everywhere."',
        "- Opening hours must come from `src/hours.ts` and must not be hardcoded.",
        "- The rename from `partySize` to `guests` is done in `src/api/reservations.ts` and `ReservationForm.tsx`, not yet committed.",
        "- Email confirmation is still open.",
        "- Next: fix the 2 lint errors, then commit.",
        "- `npx tsc --noEmit` is clean.",
        "- Initially one test failed (`SlotPicker › disables full slots`); it was fixed and all tests pass now.",
        "- Installed `date-fns@3.6.0`.",
        "- The dev server (`npm run dev`) is running in the background.",
        "- A sub-agent researched how OpenTable limits the party size.",
        "- Optional next step: create `src/components/ConfirmationEmail.tsx` for the email confirmation.",
        "- We should open a pull request once lint is green.",
        "- The user wants jest only, no vitest.",
        "- Run `npm run lint` again after the fix to verify it passes.",
        "- Do not push to main; the branch `feature/reservations` was pushed with upstream tracking.",
        "- Unused variables in `src/api/reservations.ts` line 14 make lint fail.",
        "- Tests: 18 passed, 18 total; 4 suites.",
        "- Need to verify that the tests pass after the lint fix.",
        "- The slot picker is done and committed.",
        "- Changes after `a81d3f2` are uncommitted.",
        '- If all tests pass, commit with a message such as "Rename partySize to guests".',
        "- `guests` replaces `partySize` in the API payload.",
        "- Could be deployed with `vercel deploy` later; not discussed yet.",
        "- The form component calls `<SlotPicker/>` and sets `aria-disabled`.",
        "**Current Work:** linting; `npm run lint` still exits with 2 errors.",
        "- The first `npx jest` run failed, the second passed.",
        "The user rejected nothing so far.",
        '- commit a81d3f2: "Add slot picker"',
        "Everything up to `a81d3f2` is pushed; the rename is not.",
        "- A possible `src/components/GuestCount.tsx` was discussed but not created.",
        "The form has 12 as the maximum party size (`MAX_PARTY_SIZE`).",
        "- Tests passed before the rename; they have not been run since.",
        "1. Primary Request and Intent:\n   - Reservation page for bistro.app with jest only",
        "- Not committed: `src/api/reservations.ts`, `ReservationForm.tsx`",
        "- The dev server runs in the background on its default port.",
        "- After the lint fix: commit, push, then open a pull request if the user agrees.",
        "- Once merged into main, the branch can be deleted.",
        "- The slot picker test was red at first because full slots were not disabled.",
        "- `date-fns` was installed with `npm install date-fns@3.6.0`.",
        "- All 18 tests passed in the last jest run, but the rename came after the commit.",
        "- No type errors: `npx tsc --noEmit`.",
        "- The user forbade hardcoded opening hours and commits directly on main.",
    ),
    "codex": (
        "One of eleven tests fails: `since::tests::rejects_31_days`.",
        'The work is on branch `since-flag`; HEAD is `e71f44a` "Parse --since with a default" (amended from `5c0e9b7`).',
        "The user allows at most 30 days for `--since`.",
        "Errors go to stderr, not stdout.",
        "No new crates may be added, and nothing may be published without asking the user.",
        "`cargo clippy -- -D warnings` is clean.",
        "An early `cargo build` failed with E0425 because `Duration` was not imported; this was fixed and the build passes now.",
        "I created `src/since.rs` with `parse_since()` and `tests/since_cli.rs`, which is not yet committed.",
        "Nothing has been pushed.",
        "Next steps: make `parse_since` reject more than 30 days, then rerun `cargo test` until all tests pass.",
        "At the beginning all 9 tests passed.",
        "The last `cargo test` run: 10 passed; 1 failed.",
        "`src/main.rs` calls `run(parse_since())`.",
        "The commit was amended to include the default of 3600 seconds.",
        "Before publishing with `cargo publish`, ask the user.",
        "31 days are still accepted, which is why the test fails.",
        "Version is v0.4.1.",
        "A later `--until` flag in `src/until.rs` was not asked for.",
        "The user wants a `--since` flag in Rust only.",
        "The first build failed; tests passed before that.",
        "`cargo test` passed at the start and fails now.",
        "`cargo build` failed once with E0425 and passed after adding the import.",
        "The failing test is `rejects_31_days`; all others pass.",
        "10 of 11 tests pass.",
        "The original commit 5c0e9b7 was replaced by e71f44a when amending.",
        "`cargo publish` must not be run without the user's consent.",
        "Error messages were first printed to stdout instead of stderr; the user corrected this.",
        "All earlier tests still pass.",
        "31 days must be rejected; more than 30 days is an error.",
        "Everything except `tests/since_cli.rs` and the default is committed.",
        "Up to 30 days are allowed.",
        "The work has not been merged into main.",
        "I have not run `cargo bench`.",
        "Next: run `cargo fmt`, commit, then ask before merging into main.",
        "The user wants at most 30 days, so at least the upper bound has to be tested.",
    ),
    "pi": (
        "### Done\n- [x] Committed the importer fix as 9d2b6c1 on `fix/dropped-rows`",
        "### In Progress\n- [ ] mypy: 1 error in `meters/dedupe.py`",
        "### Blocked\n- `git push` failed: no upstream branch",
        "- Rows with a negative value must be kept and flagged as suspect",
        "- Use polars, not pandas",
        "- Keep the newest reading of a meter per hour",
        "- at least 13 months of history",
        "- `batch_size` raised from 500 to 2000 in `config/pipeline.yaml` (uncommitted)",
        "- Created `migrations/0007_unique_reading.sql` and `meters/dedupe.py`",
        "- Tests: 26 passed",
        "- Branch: fix/dropped-rows (created from main)",
        "- `docker build -t meters .` succeeded",
        "- `scripts/old_import.sh` was deleted",
        "- Do not touch the production database",
        "- The migration is plain SQL, no ORM",
        "- Root cause: `drop_nulls()` dropped rows; replaced by `with_columns(suspect=True)`",
        "- test_flags_negative failed once with KeyError: 'suspect', fixed since",
        "### Next Steps\n1. Annotate `newest_per_hour` so that mypy passes\n2. `git push -u origin fix/dropped-rows`",
        "- The migration and dedupe.py are not committed",
        "- retries: 3 in the config stays as it is",
        "- pytest is green: 26 tests",
        "- Unique index `reading_hour` on `reading (meter, hour)`",
        "- `git push` failed since no upstream is set; nothing pushed yet",
        "- `python -m pytest -q` passes (26), mypy fails",
        "- 1 mypy error left",
        "- Only `meters/importer.py` was committed (9d2b6c1)",
        "- The user wants duplicates removed: newest reading per meter and hour",
        "- pandas was not used; polars instead of pandas as requested",
        "- The first test run had 1 failure",
        "- Before the fix rows with nulls were dropped",
        "- docker image builds",
        "- Open: push, annotate, maybe open a pull request",
        "- old_import.sh removed",
        "- `config/pipeline.yaml`: batch_size 2000",
        "- Branch created from main: `fix/dropped-rows`",
        "- All tests pass, but mypy reports an error",
        "- History of at least 13 months must be kept",
    ),
    "gemini": (
        "<current_state>\n- `go test ./...` schlägt fehl: TestReplayAfterCrash (got 3 want 4).\n</current_state>",
        "<key_knowledge>\n- Die Warteschlange darf höchstens 5000 Einträge halten.\n</key_knowledge>",
        "<key_knowledge>\n- Niemals direkt auf den Staging-Server deployen.\n</key_knowledge>",
        "<file_system_state>\n- CREATED: `internal/queue/journal.go`\n- CREATED: `internal/queue/bench_test.go`\n- MODIFIED: `internal/queue/queue.go`\n</file_system_state>",
        "<recent_actions>\n- Committed as `0b7e9d4` (Journal the queue).\n</recent_actions>",
        "<recent_actions>\n- Der Benchmark ist noch nicht committet.\n</recent_actions>",
        "- Aktueller Branch: `fix/queue-restart`",
        "- Der Benchmark kommt ohne externe Bibliotheken aus.",
        "- `go test ./internal/queue/` ist grün.",
        "- TestReplayAfterCrash はまだ失敗している。",
        "- ブランチ: `fix/queue-restart`",
        "- `internal/queue/journal.go` を作成した。",
        "- まだプッシュしていない。",
        "- `go vet ./...` und `go build ./...` laufen ohne Fehler.",
        "<overview>The relay lost messages on restart; a journal was added, but TestReplayAfterCrash still fails.</overview>",
        "- Als Nächstes: TestReplayAfterCrash reparieren, bis alle Tests grün sind.",
        "- `MaxEntries` wurde von 10000 auf 5000 gesenkt.",
        "- `Journal.Replay()` calls `j.sync()`.",
        "- Der Nutzer will nicht, dass auf Staging deployt wird.",
        "- 外部ライブラリは使わない。",
        "- Der erste Lauf von `go test ./...` schlug fehl; `go test ./internal/queue/` besteht.",
        "- Gepusht wurde noch nichts.",
        "- Alle Tests in internal/queue sind grün.",
        "- Noch nicht committet: `bench_test.go`",
        "- Sobald alle Tests grün sind, wird committet.",
        "- Der Nutzer verbietet Deployments auf Staging.",
        "- テストが1つ失敗しています。",
        "- すべてのテストが成功したらコミットする。",
        "- プッシュはまだしていません。",
        "- `go build ./...` und `go vet ./...` sind sauber.",
        "- Die Warteschlange hält nun höchstens 5000 statt 10000 Einträge.",
        "- Keine externen Bibliotheken verwenden.",
        "- Der Benchmark nutzt keine externen Bibliotheken.",
    ),
}
