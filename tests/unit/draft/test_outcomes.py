"""How a check of a command line ended: by its runner's summary, by its own exit code, or not at all."""

import pytest

from tasuki.draft.facts import commands
from tasuki.model import CommandFact, Entry, ToolCall

PASSED, FAILED, HIDDEN, IDLE = "passed", "failed", "not shown", "did not run"


def run_of(command: str, output: str, code: int | None, status: str = "") -> commands.CommandRun:
    """A shell call that ended with an exit code; None where the thread records none."""
    call = ToolCall(
        id="1", name="Bash", kind="shell", command=command, output=output, output_size=len(output),
        status=status or {None: "unknown", 0: "ok"}.get(code, "error"),  # type: ignore[arg-type]
        exit_code=code,
    )  # fmt: skip
    (run,) = commands.list_runs([Entry(ref=1, kind="tool", tool=call)])
    return run


def last_of(*runs: commands.CommandRun) -> CommandFact:
    """The last check of these runs, which are all of one kind."""
    (check,) = commands.find_last_checks(runs)
    return check


@pytest.mark.parametrize(
    ("command", "output", "code", "result"),
    [
        ('pytest -q', '..\n2 passed in 0.1s', 0, PASSED),
        ('pytest -q', '', None, HIDDEN),
        ('npm run check 2>&1 | head -6', '> check\n> biome check . && npm run check -ws\n\nChecked 10 files in 17ms. No fixes applied.\n\n> a@1 check', 0, HIDDEN),
        ('npm run check 2>&1 | head -60', '> check\n> biome check .\n\nChecked 10 files in 17ms. No fixes applied.', 0, PASSED),
        ('mise run test:bats -- a.bats', '[test:bats] $ bats a.bats\nError: fnox::execution_failed\n  Command execution failed: bats\n  bats: No such file or directory (os error 2)', 1, "did not run"),
        ('dotnet test A.csproj -v normal | tail -9', 'Execução de Teste Bem-sucedida.\nTotal de testes: 2\n     Aprovados: 2\n\nCompilação com êxito.\n    0 Erro(s)', 0, PASSED),
        ('dotnet test A.csproj -v normal | tail -9', 'Falha na Execução de Teste.\nTotal de testes: 2\n     Com falha: 2', 0, FAILED),
        ('dotnet test A.csproj -v normal | tail -9', 'Der Testlauf war erfolgreich.\nGesamtzahl Tests: 2\n     Bestanden: 2', 0, PASSED),
        ('dotnet test A.csproj -v normal | tail -9', '测试运行失败。\n测试总数: 2\n     失败数: 2', 0, FAILED),
        ('dotnet test A.sln -v normal | tail -2', 'Série de tests réussie.\nNombre total de tests : 2', 0, HIDDEN),
        ('dotnet test A.csproj -v normal | tail -9', 'Compilação com êxito.\n    0 Erro(s)', 0, HIDDEN),
        ('dotnet build A.sln 2>&1 | grep -iE "error |Erro\\(s\\)|Aviso\\(s\\)" | tail -6', '    2 Aviso(s)\n    0 Erro(s)', 0, PASSED),
        ('dotnet build A | tail -2; dotnet build B | tail -2', '    0 Erro(s)\n\n    0 Erro(s)\n', 0, PASSED),
        ('dotnet build A | tail -3; dotnet build B -v q | tail -1', 'Compilação com êxito.\n    0 Erro(s)\n\nTempo 1', 0, HIDDEN),
        ('dotnet build A | tail -2; dotnet build B | tail -2', '    0 Erro(s)\n\n    3 Erro(s)\n', 0, FAILED),
        ('pytest', 'collected 0 items\n\n============ no tests ran in 0.01s ============', 5, IDLE),
        ('pytest tests/x.py', 'ERROR: file or directory not found: tests/x.py', 4, IDLE),
        ('pytest --foo', 'ERROR: usage: pytest [options]\npytest: error: unrecognized arguments: --foo', 4, IDLE),
        ('python -m pytest', '/usr/bin/python: No module named pytest', 1, IDLE),
        ('pytest -q', 'bash: line 1: pytest: command not found', 127, IDLE),
        ('pytest -q', 'zsh: command not found: pytest', 127, IDLE),
        ('pytest -q | tail -3', 'zsh: command not found: pytest', 0, IDLE),
        ('pytest -x -q 2>&1 | tail -20', 'E   AssertionError\nFAILED tests/a.py::test_b - AssertionError\n!!!! stopping after 1 failures !!!!\n1 failed, 3 passed in 1.2s', 0, FAILED),
        ('pytest 2>&1 | head -50', 'collected 10 items\ntests/a.py ....', 0, HIDDEN),
        ('pytest 2>&1 | grep -c passed', '1', 0, HIDDEN),
        ('set -o pipefail; pytest 2>&1 | tail -3', '3 passed in 1s', 0, PASSED),
        ('set -o pipefail; pytest -qq 2>&1 | tee log', '', 0, PASSED),
        ('set -o pipefail; pytest -qq 2>&1 | tee log', 'boom', 1, FAILED),
        ('pytest -qq; echo exit=$?', 'F\nexit=1', 0, FAILED),
        ('pytest -qq; echo exit=$?', '.\nexit=0', 0, PASSED),
        ('pytest -qq > l 2>&1; rc=$?; tail -2 l; echo "rc: $rc"', '.\nrc: 0', 0, PASSED),
        ('pytest -qq > l 2>&1; rc=$?; tail -2 l; exit $rc', '.\n', 0, PASSED),
        ('pytest -qq 2>&1 | tail -3; echo ${PIPESTATUS[0]}', '..\n1', 0, FAILED),
        ('pytest -qq 2>&1 | tail -3; echo $?', '..\n0', 0, HIDDEN),
        ('pytest -qq && echo PASS || echo FAIL', 'F\nFAIL', 0, FAILED),
        ('pytest -qq && echo PASS || echo FAIL', '.\nPASS', 0, PASSED),
        ('pytest -qq || echo BROKEN', '..', 0, PASSED),
        ('pytest -qq || echo BROKEN', '..\nBROKEN', 0, FAILED),
        ('pytest -qq || true', '..', 0, HIDDEN),
        ("pytest -q | tail -1 | sed 's/failed/passed/'", '3 passed in 0.1s', 0, HIDDEN),
        ('ruff check --fix .; git status', 'Found 3 errors (3 fixed, 0 remaining).\nOn branch main', 0, PASSED),
        ('ruff check --fix .; git status', 'Found 3 errors (2 fixed, 1 remaining).\nOn branch main', 0, FAILED),
        ('! pytest -q', '1 failed, 2 passed in 0.1s', 0, FAILED),
        ('go test ./... && ! grep -r foo .', 'ok  \ta 0.1s\nx.go: foo', 1, PASSED),
        ('go test ./...', 'ok  \ta\t0.1s\n?   \tb\t[no test files]', 0, PASSED),
        ('go test ./...', '?   \tb\t[no test files]', 0, IDLE),
        ('go test ./... | head -2', 'ok  \ta\t0.1s\nok  \tb\t0.1s', 0, HIDDEN),
        ("go test ./... 2>&1 | grep -v 'no test files'", 'ok  \ta\t0.1s', 0, PASSED),
        ('go test ./... 2>&1 | grep ok', 'ok  \ta\t0.1s', 0, HIDDEN),
        ("go test ./... 2>&1 | grep -E '^(ok|FAIL|---)'", 'ok  \ta\t0.1s', 0, PASSED),
        ('go test ./...', 'pattern ./...: directory prefix . does not contain main module', 1, FAILED),
        ('go test -race ./... 2>&1 | tail -30', '# a [a.test]\n./a.go:3:1: undefined: x\nFAIL\ta [build failed]\nFAIL', 0, FAILED),
        ('cargo test', 'running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 12 filtered out; finished in 0.00s', 0, IDLE),
        ('cargo test', 'running 3 tests\ntest result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n   Doc-tests x\nrunning 0 tests\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s', 0, PASSED),
        ('cargo test 2>&1 | tail -5', 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s', 0, PASSED),
        ("cargo test | grep 'test result'", 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\ntest result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s', 0, FAILED),
        ('cargo nextest run', '     Summary [   0.5s] 12 tests run: 12 passed, 0 skipped', 0, PASSED),
        ('cargo nextest run | tail -3', '     Summary [   0.5s] 12 tests run: 11 passed, 1 failed, 0 skipped\n        FAIL [   0.1s] a b\nerror: test run failed', 0, FAILED),
        ('cargo build 2>&1 | tail -3', '    Finished `dev` profile [unoptimized + debuginfo] target(s) in 0.10s', 0, PASSED),
        ('cargo build 2>&1 | tail -3', 'error: could not compile `x` (lib) due to 1 previous error', 0, FAILED),
        ('cargo clippy 2>&1 | tail -3', 'warning: `x` (lib) generated 3 warnings\n    Finished `dev` profile target(s) in 0.1s', 0, PASSED),
        ('npx tsc --noEmit 2>&1 | head -20', '', 0, PASSED),
        ('npx tsc --noEmit 2>&1 | head -20', "src/a.ts(1,2): error TS2304: Cannot find name 'x'.", 0, FAILED),
        ('npx tsc --noEmit; echo done', 'done', 0, PASSED),
        ('npx tsc --noEmit > log; echo done', 'done', 0, HIDDEN),
        ('npx tsc --noEmit | grep error', '', 1, HIDDEN),
        ('npm test', '> x@1 test\n> jest\n\nsh: 1: jest: not found', 127, IDLE),
        ('npm test', 'npm error Missing script: "test"', 1, IDLE),
        ('npm test', 'npm ERR! missing script: test', 1, IDLE),
        ('npm run lint', 'npm error Lifecycle script `lint` failed with error:', 1, FAILED),
        ('npm run lint 2>&1 | tail -3', '✖ 3 problems (2 errors, 1 warning)', 0, FAILED),
        ('npm run lint 2>&1 | tail -3', '✖ 1 problem (0 errors, 1 warning)', 0, PASSED),
        ('make test', "make: *** No rule to make target 'test'.  Stop.", 2, IDLE),
        ('make test', "make: Nothing to be done for 'test'.", 0, IDLE),
        ('make test', "make: 'test' is up to date.", 0, IDLE),
        ('make test 2>&1 | tail -4', '3 failed, 2 passed in 3s\nmake: *** [Makefile:3: test] Error 1', 0, FAILED),
        ('make check', 'make: *** [Makefile:3: check] Error 1', 2, FAILED),
        ('cd nope && pytest -q', 'bash: line 0: cd: nope: No such file or directory', 1, IDLE),
        ('cd app && npx jest 2>&1 | tail -6', 'Test Suites: 1 failed, 3 passed, 4 total\nTests:       30 passed, 30 total\nSnapshots:   0 total\nTime:        1.2 s', 0, FAILED),
        ('npx jest', 'No tests found, exiting with code 1', 1, IDLE),
        ('npx vitest run', 'No test files found, exiting with code 1', 1, IDLE),
        ('npx vitest run', ' ✓ a.test.ts (3 tests) 4ms\n\n Test Files  1 passed (1)\n      Tests  3 passed (3)\n   Start at  10:00:00\n   Duration  300ms', 0, PASSED),
        ('npx vitest run | tail', ' Test Files  1 passed (1)\n      Tests  3 passed (3)\n     Errors  1 error\n   Start at  10:00:00', 0, FAILED),
        ('npx vitest run | grep Tests', '      Tests  3 passed (3)', 0, HIDDEN),
        ('npx mocha | tail -3', '  12 passing (20ms)\n  2 failing', 0, FAILED),
        ('node --test | tail -8', 'ℹ tests 12\nℹ pass 11\nℹ fail 1\nℹ cancelled 0', 0, FAILED),
        ('node --test', 'ℹ tests 12\nℹ pass 12\nℹ fail 0', 0, PASSED),
        ('deno test | tail -1', 'FAILED | 11 passed | 1 failed (20ms)', 0, FAILED),
        ('bun test | tail -4', ' 12 pass\n 0 fail\n 30 expect() calls\nRan 12 tests across 3 files. [813.00ms]', 0, PASSED),
        ('npx playwright test | tail -3', '  1 failed\n    [chromium] › a.spec.ts:3:1 › x\n  6 passed (12s)', 0, FAILED),
        ('dotnet test | tail -1', 'Passed!  - Failed:     0, Passed:    45, Skipped:     0, Total:    45, Duration: 1 s - Shop.Tests.dll (net8.0)', 0, HIDDEN),
        ('dotnet test | tail -1', 'Failed!  - Failed:     1, Passed:    44, Skipped:     0, Total:    45, Duration: 1 s - Shop.Tests.dll (net8.0)', 0, FAILED),
        ('dotnet test', 'MSBUILD : error MSB1003: Specify a project or solution file.', 1, IDLE),
        ('dotnet test 2>&1 | tail -3', 'Test summary: total: 45, failed: 0, succeeded: 45, skipped: 0, duration: 1.2s\nBuild succeeded with 2 warning(s) in 3.1s', 0, PASSED),
        ('dotnet build | tail -3', 'Build succeeded.\n    0 Warning(s)\n    0 Error(s)', 0, PASSED),
        ('dotnet build | tail -3', 'Build FAILED.\n    0 Warning(s)\n    3 Error(s)', 0, FAILED),
        ('mvn -q test', '', 0, PASSED),
        ("mvn test | grep 'Tests run'", 'Tests run: 12, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s -- in com.x.FooTest\nTests run: 12, Failures: 1, Errors: 0, Skipped: 0', 0, FAILED),
        ('mvn test', '[ERROR] The goal you specified requires a project to execute but there is no POM in this directory (/x).', 1, IDLE),
        ('./gradlew test', 'BUILD SUCCESSFUL in 3s\n3 actionable tasks: 3 executed', 0, PASSED),
        ('./gradlew test | tail -5', "FAILURE: Build failed with an exception.\n* What went wrong:\nTask 'tset' not found in root project 'x'.\nBUILD FAILED in 1s", 0, FAILED),
        ('vendor/bin/phpunit', 'OK (12 tests, 30 assertions)', 0, PASSED),
        ('vendor/bin/phpunit | tail -3', 'No tests executed!', 0, IDLE),
        ('php artisan test | tail -3', '  Tests:    1 failed, 12 passed (30 assertions)\n  Duration: 0.3s', 0, FAILED),
        ('bundle exec rspec | tail -2', '31 examples, 2 failures, 1 pending', 0, FAILED),
        ('bundle exec rspec', '0 examples, 0 failures', 0, IDLE),
        ('bin/rails test | tail -1', '12 runs, 30 assertions, 0 failures, 0 errors, 0 skips', 0, PASSED),
        ('mix test | tail -3', '1 doctest, 12 tests, 1 failure', 0, FAILED),
        ('swift test | tail -2', 'Executed 12 tests, with 1 failure (0 unexpected) in 0.1 (0.2) seconds', 0, FAILED),
        ('swift test', '✔ Test run with 12 tests in 3 suites passed after 0.1 seconds.', 0, PASSED),
        ('swift test | tail -1', '✘ Test run with 12 tests in 3 suites failed after 0.1 seconds with 1 issue.', 0, FAILED),
        ('flutter test | tail -1', '00:03 +11 -1: Some tests failed.', 0, FAILED),
        ('ctest | tail -3', '89% tests passed, 1 tests failed out of 9', 0, FAILED),
        ('ctest', 'No tests were found!!!', 0, IDLE),
        ('prove -r t | tail -1', 'Result: FAIL', 0, FAILED),
        ('bats test | tail -1', '12 tests, 0 failures', 0, PASSED),
        ('python manage.py test 2>&1 | tail -3', 'Ran 12 tests in 0.1s\n\nOK (skipped=1)', 0, PASSED),
        ('python manage.py test 2>&1 | tail -3', 'Ran 0 tests in 0.0s\n\nOK', 0, IDLE),
        ('tox', '  py311: FAIL code 1 (0.3 seconds)\n  evaluation failed :( (1.2 seconds)', 1, FAILED),
        ('ruff check . | tail -1', 'All checks passed!', 0, PASSED),
        ('ruff check . | tail -2', 'Found 3 errors.\n[*] 1 fixable with the `--fix` option.', 0, FAILED),
        ('mypy . | tail -1', 'Found 3 errors in 2 files (checked 12 source files)', 0, FAILED),
        ('mypy . | tail -1', 'Success: no issues found in 12 source files', 0, PASSED),
        ('ruff check . && mypy . && pytest -q', 'All checks passed!\nSuccess: no issues found in 12 source files\n1 failed, 2 passed in 1s', 1, FAILED),
        ('golangci-lint run 2>&1 | tail -1', '0 issues.', 0, PASSED),
        ('pre-commit run --all-files | tail -3', 'ruff.....................................................................Passed\nmypy.....................................................................Failed', 0, FAILED),
        ('timeout 60 pytest -q', '', 124, HIDDEN),
        ('timeout 60 pytest -q; echo rc=$?', 'rc=124', 0, HIDDEN),
        ('pytest -q &', '[1] 1234', 0, HIDDEN),
        ('nohup pytest -q > log 2>&1 &', '', 0, HIDDEN),
        ('for i in 1 2 3; do pytest -q; done', '1 failed in 0.1s\n1 passed in 0.1s\n1 passed in 0.1s', 0, FAILED),
        ('for i in 1 2 3; do pytest -q; done', '1 passed in 0.1s\n1 passed in 0.1s\n1 passed in 0.1s', 0, PASSED),
        ('for i in 1 2 3; do pytest -q; done', '1 passed in 0.1s\n1 passed in 0.1s', 0, HIDDEN), ('for i in $X; do pytest -q; done', '1 passed in 0.1s', 0, HIDDEN),
        ('for i in a b; do bats --filter x t.bats || exit; done', '1..1\nok 1 x\n1..1\nok 1 x', None, PASSED), ('bats t | tail -3', '1..3\nok 2 b\nok 3 c', 0, HIDDEN),
        ('bats t', '1..2\nok 1 a\nok 2 b', None, PASSED), ('bats t', '1..2\nok 1 a\nnot ok 2 b', None, FAILED), ('bats t', '1..2\nok 1 a\nnot ok 2 b # TODO later', None, PASSED),
        ('dotnet test A.Tests/A.Tests.csproj 2>&1 | tail -4', 'Aprovado!  – Com falha:     0, Aprovado:    32, Ignorado:     0, Total:    32, Duração: 1 m - A.Tests.dll (net8.0)', 0, PASSED),
        ('dotnet test B.sln | tail -1', 'Aprovado!  – Com falha:     0, Aprovado:    32, Ignorado:     0, Total:    32, Duração: 1 m - A.Tests.dll (net8.0)', 0, HIDDEN),
        ('dotnet test A.Tests --logger "trx;LogFileName=r.trx" | tail -4; grep -o Failed A.Tests/TestResults/r.trx', 'Bestanden!   : Fehler:     0, erfolgreich:    32, übersprungen:     0, gesamt:    32, Dauer: 1 m - A.Tests.dll (net8.0)', 0, PASSED),
        ('dotnet test; echo', 'Réussi!  - échec :     0, réussite :     1, ignorée(s) :     0, total :     1', 0, PASSED), ('dotnet test; echo', 'Correctas! - Con error:     1, Superado:     1, Omitido:     0', 0, FAILED),
        ('dotnet test; echo', '已通过! - 失败:     0，通过:     1，已跳过:     0，总计:     1', 0, PASSED), ('dotnet test; echo', '失敗!   -失敗:     2、合格:     1、スキップ:     0、合計:     3', 0, FAILED),
        ('dotnet test; echo', 'Testzusammenfassung: gesamt: 5; fehlgeschlagen: 2; erfolgreich: 3; übersprungen: 0; Dauer: 1,1s', 0, FAILED), ('dotnet test; echo', 'Resumo do teste: total: 5; falhou: 0; bem-sucedido: 5; ignorado: 0', 0, PASSED),
        ('dotnet build A.csproj | grep -iE "error|xito" | head', '  Build 1095 succeeded, 0 failed.\nCompilação com êxito.', 0, PASSED), ('dotnet build | tail -2', 'FALHA da compilação.\n    0 Aviso(s)', 0, FAILED), ('dotnet build | tail -1', '    0 个错误', 0, PASSED), ('dotnet build | tail -1', '    2 エラー', 0, FAILED),
        ('mise run lint', '❯ fmt\n❯ check  [===>   ] 1/2\n✔ fmt\n  check –     Finished `dev` profile [unoptimized] target(s) in 1s\n✔ check', None, PASSED),
        ('mise run lint', '[build] $ x\n    Finished `dev` profile [unoptimized] target(s) in 1s\n❯ fmt\n❯ docs\n✔ fmt\n  docs – building', None, HIDDEN),
        ('mise run lint && cargo test x && mise run build', '    Finished `dev` profile [unoptimized] target(s) in 1s\n❯ docs\n  docs – building', None, HIDDEN),
        ('mise run lint && cargo test x', '  clippy – error: could not compile `x`\nerror: could not compile `x` (bin "x") due to 1 previous error\n[lint] ERROR task failed', None, FAILED),
        ('cargo build && cargo test', '    Finished `dev` profile [x] target(s) in 9s\nerror: could not compile `x` (test "x") due to 1 previous error', 101, FAILED),
        ('cargo test x && cargo run && make build', 'error: this `if` statement can be collapsed', None, HIDDEN),
        ('mise run test', '[test:unit] $ cargo test\ntest result: ok. 3 passed; 0 failed; 0 ignored\n[test:e2e] $ x/e2e\nFinished in 7.84s', None, HIDDEN),
        ('go test ./... 2>&1 | tail -20 && go build ./... | tail -9 && echo OK', 'ok  \ta\t0.1s\nOK', 0, PASSED), ('go test ./... 2>&1 | tail -20; go build ./... | tail -9; echo OK', 'ok  \ta\t0.1s\na.go:3:1: bad\nOK', 0, HIDDEN),
        ('gofmt -l . && go test ./...', 'ok  \ta\t0.1s', 0, PASSED), ('gofmt -l . && go test ./...', 'main.go\nok  \ta\t0.1s', 0, HIDDEN),
        ('if pytest -qq; then echo good; else echo bad; fi', 'bad', 0, HIDDEN),
        ('docker compose run app pytest -q', 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock.', 1, IDLE),
        ("ssh host 'cd x && pytest -q'", 'ssh: connect to host host port 22: Connection refused', 255, IDLE),
        ('uv run pytest -q', 'error: Failed to spawn: `pytest`\n  Caused by: No such file or directory (os error 2)', 2, IDLE),
        ('poetry run pytest', 'Command not found: pytest', 1, IDLE),
        ('dotnet test', "'dotnet' is not recognized as an internal or external command,\r\noperable program or batch file.", 1, IDLE),
        ('pytest -q', 'Error: failed to open\n  3 errors in the log\n12 passed in 1s', 0, PASSED),
        ('pytest -q | tail -5', '2 errors logged by the mock\n12 passed in 1s', 0, PASSED),
        ('sbt test', '[info] Tests: succeeded 12, failed 0, canceled 0, ignored 0, pending 0\n[info] All tests passed.', 0, PASSED),
        ('bazel test //... | tail -2', 'Executed 3 out of 3 tests: 2 tests pass and 1 fails locally.', 0, FAILED),
        ('zig build test', '', 0, PASSED),
        ('npx cypress run | tail -3', '    ✔  All specs passed!                        00:05       12       12        -        -        -', 0, PASSED),
        ('Invoke-Pester', 'Tests Passed: 12, Failed: 1, Skipped: 0 NotRun: 0', 0, FAILED),
        ('npm run build 2>&1 | tail -3', '✓ built in 1.23s', 0, PASSED),
        ('npm run build 2>&1 | tail -3', 'error during build:\nRollupError: x', 0, FAILED),
        ('npm run build && npm test', '✓ built in 1s\n 3 failed | 2 passed (5)', 1, FAILED),
        ('docker build -t x . 2>&1 | tail -2', 'ERROR: failed to solve: process "/bin/sh" did not complete', 0, FAILED),
        ('python3 -m pytest -q; echo done', '/usr/bin/python3: No module named pytest\ndone', 0, IDLE),
        ('pytest -q; echo done', 'Segmentation fault (core dumped)\ndone', 0, HIDDEN),
        ('pytest tests/a.py -q && pytest tests/b.py -q', '3 passed in 0.1s\n1 failed in 0.1s', 1, FAILED),
        ('npx eslint src | tail -5', '', 0, PASSED),
        ('npx eslint src; echo ok', "/x/a.js\n  3:1  error  'x' is not defined  no-undef\n\n✖ 1 problem (1 error, 0 warnings)\nok", 0, FAILED),
        ('gofmt -l . ; echo done', 'a.go\ndone', 0, HIDDEN),
        ('go vet ./... && echo clean', 'clean', 0, PASSED),
        ('./scripts/test.sh', 'All good', 0, PASSED),
        ('./scripts/test.sh | tail -1', 'All good', 0, HIDDEN),
        ("pytest -q > /dev/null 2>&1; cat old-results.txt", "12 passed in 1s", 0, HIDDEN),
        ("pytest -q > new.log 2>&1; tail -3 old.log", "12 passed in 1s", 0, HIDDEN), ("pytest -q > new.log 2>&1; tail -3 new.log", "12 passed in 1s", 0, PASSED),
        ("pytest -q 2>&1 | tee new.log | wc -l; tail -1 new.log", "9\n12 passed in 1s", 0, HIDDEN), ("pytest -q; cat last_run.txt", "12 passed in 1s", 0, HIDDEN),
        ('pytest -q > /dev/null 2>&1; n=12; echo "$n passed"', "12 passed", 0, HIDDEN), ("which pytest > /dev/null; pytest -q | tail -1", "12 passed in 1s", 0, PASSED),
        ("bash -c 'pytest -q | tail -5'", "", 0, HIDDEN), ("bash -c 'cd app && pytest -q'", "", 0, PASSED), ("ssh box 'pytest -q; true'", "", 0, HIDDEN),
        ("npm run test --if-present", "", 0, HIDDEN), ("npm test", "Error: no test specified", 1, IDLE), ("pytest -q", "5 skipped in 0.1s", 0, IDLE),
        ("mvn test", "[INFO] Tests are skipped.\n[INFO] BUILD SUCCESS", 0, IDLE), ("npx playwright test", "Error: No tests found", 1, IDLE),
        ("if command -v shellcheck; then shellcheck x; else echo none; fi", "none", 0, HIDDEN), ("which eslint && npx eslint src || echo none", "none", 0, HIDDEN),
        ("npx --no-install eslint . || echo 'no eslint'", "no eslint", 0, HIDDEN), ("npx eslint . || echo bad", "x.js\n  3:1  error  no\nbad", 0, FAILED),
        ("npx ava", "✖ Couldn't find any files to test", 1, IDLE), ("pytest -q", "/bin/sh: pytest: Operation not permitted", 1, IDLE), ("timeout 9 npm test", "PASS a", 124, HIDDEN),
        ('npx playwright test | tail -1', '  6 passed (12s)', 0, HIDDEN), ('npx playwright test', '  6 passed (12s)', None, PASSED),
        ('npx jest --coverage | tail -3', 'Tests: 5 passed, 5 total\nTest Suites: 1 passed, 1 total\nJest: "global" coverage threshold for lines (80%) not met: 70%', 0, FAILED),
        ('npm test; pytest -q', '5 passed in 1s', 0, HIDDEN), ('npx jest; npx vitest run', 'Tests: 5 passed, 5 total\nTest Suites: 1 passed, 1 total', None, HIDDEN),
        ('(pytest -q; echo x) &', 'x', 0, HIDDEN), ('run() { pytest -q; }', '', 0, HIDDEN), ("bash -c 'pytest -q\ntrue'", '', 0, HIDDEN),
        ('set -e; pytest -q; git diff', '', 0, PASSED), ('set +e; pytest -q; set -e; ls', '', 0, HIDDEN), ("trap 'exit 0' EXIT; pytest -q", '', 0, HIDDEN),
        ('npm test', '> app@1 test\n> exit 0', 0, IDLE), ('npm run test -ws 2>&1 | tail -2', 'Tests: 5 passed, 5 total\nTest Suites: 1 passed, 1 total', 0, HIDDEN),
        ('pytest -q', '12 passed in 1s\nCommand timed out after 120s', None, HIDDEN), ('npx eslint . --max-warnings 0 | tail -1', '3 problems (0 errors, 3 warnings)', 0, HIDDEN),
        ('npm run lint | tail', '✖ 5 problems (0 errors, 5 warnings)\n\nESLint found too many warnings (maximum: 0).', 0, FAILED), ('npm run lint | tail', '> eslint . --max-warnings=0\n\n✖ 5 problems (0 errors, 5 warnings)', 0, HIDDEN),
        ('cargo test --no-fail-fast | tail -4', 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\nerror: 1 target failed:\n    `--lib`', 0, FAILED),
        ('bundle exec rspec | tail', '12 examples, 0 failures\n\nSimpleCov failed with exit 2 due to a coverage related error', 0, FAILED), ('mix test --cover | tail', '12 tests, 0 failures\nCoverage test failed, threshold not met:', 0, FAILED),
        ('make check | tail', '# TOTAL: 12\n# PASS:  11\n# FAIL:  1', 0, FAILED), ("make check | grep '# PASS'", '# PASS:  11', 0, HIDDEN), ('gofmt -l .', 'main.go', 0, FAILED), ('gofmt -l .', '', 0, PASSED),
        ('npx playwright test | tail -3', '  2 did not run\n  5 passed (3s)', 0, FAILED), ('mix test --only nope', '12 tests, 0 failures, 12 excluded', 0, IDLE), ('npm test || npm test', '1 failed in 1s\n3 passed in 1s', 0, PASSED),
        ('pytest -q && git commit -qam x', '1 failed, 2 passed in 1s', 1, FAILED), ('pytest -q && git commit -qam x', '3 passed in 1s', 0, PASSED), ('git commit -qm x; pytest -q', '1 failed in 1s', 1, FAILED),
        ('pytest -q --cov', '241 passed in 3s\nFAIL Required test coverage of 80% not reached. Total coverage: 70.00%', 1, FAILED),
    ],
)  # fmt: skip
def test_a_run_is_told_as_its_runner_or_its_own_exit_code_shows(
    command: str, output: str, code: int | None, result: str
) -> None:
    """A summary counts, and an exit code that can only be its own; a log line proves nothing."""
    run = run_of(command, output, code)

    assert run.check
    assert run.result == result


@pytest.mark.parametrize(
    "output",
    [
        "PreToolUse:Bash hook error: [python3 guard.py]: Use `make test` instead.",
        "Permission to use Bash with command pytest has been denied.",
        "Permission for this action was denied by the Claude Code auto mode classifier. Reason: no",
        "claude-sonnet-5 is temporarily unavailable, so auto mode cannot determine the safety of Bash right now.",
        "This command requires approval",
        "<tool_use_error>Blocked: sleep 30 followed by: pytest</tool_use_error>",
        "<tool_use_error>InputValidationError: Bash failed: command is missing</tool_use_error>",
        "Error: No such tool available: Bash",
        'exec_command failed for `/bin/zsh -lc pytest`: CreateProcess { message: "Rejected(\\"no\\")" }',
        "The user has specified a rule which prevents you from using this specific tool call.",
        "Tool execution denied by policy.",
        "<tool_use_error>Cancelled: parallel tool call Bash(make) errored</tool_use_error>",
    ],
)
def test_a_call_that_something_stopped_did_not_run(output: str) -> None:
    """Hooks, rules, classifiers and wrong input keep a command from beginning: it has not failed."""
    run = run_of("pytest -q", output, None, "error")

    assert run.result == IDLE
    assert last_of(run_of("pytest -q", "5 passed in 1s", 0), run).result == PASSED


def test_an_error_without_an_exit_code_proves_no_failure() -> None:
    """A program may call an error what never began, in words that nobody has seen yet."""
    assert (
        run_of("pytest -q", "The safety service is out to lunch.", None, "error").result == HIDDEN
    )
    assert run_of("pytest -q", "1 failed in 1s", None, "error").result == FAILED


def test_a_newer_run_without_a_result_is_said_with_the_last_result() -> None:
    """What passed before may have failed since."""
    seen, hidden = run_of("pytest -q", "5 passed in 1s", 0), run_of("pytest -q | wc -l", "9", 0)

    assert last_of(seen, hidden).unseen == 1
    assert last_of(hidden, seen).unseen == 0
    assert last_of(hidden).result == HIDDEN


def test_the_beginning_of_an_output_whose_end_is_in_a_file_shows_no_result() -> None:
    """A preview holds what came first; a package that passed there proves nothing of the others."""
    preview = "<persisted-output>\nOutput too large (39KB). Full output saved to: /x.txt\n\nok  \ta\t0.1s\n"

    assert run_of("go test ./... | cat", preview, 0).result == HIDDEN
    assert run_of("go test ./...", preview, 0).result == PASSED


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("pytest --collect-only -q", ""), ("cargo test --no-run", ""), ("ctest -N", ""), ("make -n test", ""), ("gradle build -x test", "build"), ("gradle -x lint test", "test"), ("gradle test -m", ""), ("mvn -q verify -DskipTests", ""), ("cat vitest.config.ts", ""),
        ("node scripts/prove.py", ""), ("npx prettier --write jest.config.js", ""), ("python -m pip show pytest", ""),
        ("node_modules/.bin/jest -w 1", "test"), (".venv/bin/pytest", "test"), ("npm.cmd test", "test"), ("npm --prefix web run lint", "lint"),
        ("scripts/check-glibc.sh x", ""), ("mvn -q -pl core test", "test"), ("cargo +nightly test", "test"), ("sudo pytest", "test"),
    ],
)  # fmt: skip
def test_a_check_is_a_runner_that_runs(command: str, kind: str) -> None:
    """A runner's name in a file, an option that only lists, and a program of another name check nothing."""
    assert commands.find_check_kind(command) == kind


@pytest.mark.parametrize(
    ("command", "output", "code", "told"),
    [
        ("cargo fmt && cargo test x && cargo check", "    Finished `test` profile [x] target(s) in 9s\ntest result: ok. 2 passed; 0 failed; 0 ignored\n    Finished `dev` profile [x] target(s) in 6s", 0, {"test": "test result: ok. 2 passed; 0 failed; 0 ignored", "build": "Finished `dev` profile [x] target(s) in 6s"}),
        ("cargo clippy && cargo build", "    Finished `dev` profile [x] target(s) in 9s\n    Finished `dev` profile [x] target(s) in 6s", 0, {"lint": "Finished `dev` profile [x] target(s) in 9s", "build": "Finished `dev` profile [x] target(s) in 6s"}),
        ("cargo clippy && cargo build", "    Finished `dev` profile [x] target(s) in 9s", 0, {"lint": "Finished `dev` profile [x] target(s) in 9s", "build": ""}),
        ("mise run lint && cargo build", "    Finished `dev` profile [x] target(s) in 9s\n    Finished `dev` profile [x] target(s) in 6s", 0, {"lint": "", "build": ""}),
        ("dotnet test", "Aprovado! – Com falha: 0, Aprovado: 47, Ignorado: 0 - A.dll (net8.0)\nAprovado! – Com falha: 0, Aprovado: 1098, Ignorado: 0 - B.dll (net8.0)", 0, {"test": "1145 tests in 2 suites"}),
        ("cargo test --workspace", "test result: ok. 2 passed; 0 failed; 0 ignored\ntest result: ok. 5 passed; 0 failed; 0 ignored\ntest result: ok. 0 passed; 0 failed; 0 ignored", 0, {"test": "7 tests in 2 suites"}),
        ("mvn test", "[INFO] Tests run: 12, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 1 s -- in a.B\n[INFO] Tests run: 12, Failures: 0, Errors: 0, Skipped: 0\n[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS", 0, {"test": "15 tests in 2 suites"}),
        ("pnpm -r test", "a test:      Tests  3 passed (3)\nb test:      Tests  4 passed (4)", 0, {"test": "7 tests in 2 suites"}),
    ],
)  # fmt: skip
def test_a_line_of_evidence_is_that_of_its_own_step(
    command: str, output: str, code: int | None, told: dict[str, str]
) -> None:
    """A line that another step may have printed is not quoted; the suites of one run are added up."""
    run = run_of(command, output, code)

    assert {kind: commands.find_outcome(run, kind) for kind in run.judged} == told
    assert {one.result for one in run.judged.values()} == {PASSED}


@pytest.mark.parametrize(
    ("command", "output", "error"),
    [
        ("rg -n Options src | head -9 && cargo check", "src/list.rs:104: &Options {\nerror[E0063]: missing field `x`\n  --> src/a.rs:2:1\nerror: could not compile `m`", "error[E0063]: missing field `x`"),
        ("git diff && go test ./...", "+  error: old\n--- FAIL: TestX (0.0s)\nFAIL\ta 0.1s", "--- FAIL: TestX (0.0s)"),
        ("cargo fmt --check && cargo test", "Diff in /x/a.rs:119:\n-  fn error(x: E) {\n+  }\n }", "Diff in /x/a.rs:119:"),
        ("cargo test", "fatal: 'origin' does not appear to be a repository\ntest a::b ... FAILED\n\nfailures:\n\n---- a::b stdout ----\nassertion `left == right` failed\n\ntest result: FAILED. 1 passed; 1 failed", "assertion `left == right` failed"),
        ("mise run e2e", "mise WARN  failed to refresh: HTTP status client error (404)\nERROR: E2E assertion failed: no file\n[e2e] ERROR task failed", "ERROR: E2E assertion failed: no file"),
        ("go test ./...", "panic: runtime error: index out of range\nFAIL\ta 0.1s", "panic: runtime error: index out of range"),
        ("dotnet test", "Com falha! – Com falha: 1, Aprovado: 22, Ignorado: 0, Total: 23\n\nAs atualizações estão disponíveis.", "Com falha! – Com falha: 1, Aprovado: 22, Ignorado: 0, Total: 23"),
    ],
)  # fmt: skip
def test_the_reason_of_a_failure_is_not_what_others_print(
    command: str, output: str, error: str
) -> None:
    """Texts that the line shows, logs of passing tests, warnings and diffs are no reasons."""
    assert commands.find_error(run_of(command, output, 1)) == error


def test_what_stopped_a_line_is_told_of_the_step_that_failed_alone() -> None:
    """The step behind it never began; the one before it passed."""
    finished = "    Finished `dev` profile [x] target(s) in 9s\n"
    error = 'error: could not compile `x` (bin "x") due to 1 previous error\n'
    lint = run_of("mise run lint && cargo test x", f"{error}[lint] ERROR task failed", None)
    build = run_of("cargo build && cargo test", finished + error, 101)

    assert {kind: one.result for kind, one in lint.judged.items()} == {
        "lint": FAILED,
        "test": HIDDEN,
    }
    assert {kind: one.result for kind, one in build.judged.items()} == {
        "build": PASSED,
        "test": FAILED,
    }
