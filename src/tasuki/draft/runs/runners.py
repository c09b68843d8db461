"""Runners of tests, linters and builds: the commands that run each, and the lines in which each sums up.

The table is the only place that names them. A wrapper (`npm test`, `make lint`, `tox`) may run any of
them.
"""

from collections.abc import Sequence

from msgspec import Struct

from tasuki.draft.runs.programs import PACKAGE_OPTIONS, find_name, skip_options, unquote
from tasuki.patterns import compile_pattern

CheckKind = str


class Runner(Struct, frozen=True):
    """One runner. The patterns match a whole line of its output that sums up; empty for none.

    `is_silent`: it prints nothing where it finds nothing.
    """

    kind: CheckKind
    command: str
    passed: str = ""
    failed: str = ""
    is_wrapper: bool = False
    is_silent: bool = False


_NAMED = r"[^:：;,，、\d]{2,28}[:：]\s*"
_NEXT = r"[;,，、]\s*"
_TESTED = rf"[^:：;,]{{1,30}}?[!！]\s*[-–:]?\s*{_NAMED}"
_TEST_TOTAL = rf"[^:：;,\d]{{5,40}}[:：]\s*{_NAMED}[1-9]\d*{_NEXT}{_NAMED}"
"""How dotnet counts tests in any language: `Aprovado! – Com falha: 0, …`, `Test summary: total: 9, failed: 0, …`."""
_BUILT = (
    "Build succeeded|Compilação com êxito|Compilación correcta|Compilazione completata|La génération a réussi|Génération réussie|Buildvorgang (?:wurde )?erfolgreich|Der Buildvorgang wurde erfolgreich"
    "|已成功生成|建置成功|ビルドに成功しました|빌드했습니다|Сборка успешно завершена|Kompilacja powiodła się|Sestavení proběhlo úspěšně|Oluşturma başarılı oldu"
)
_NOT_BUILT = (
    "Build FAILED|Build failed with|FALHA d?n?a compilação|ERROR al compilar|Compilazione NON RIUSCITA|ÉCHEC de la (?:build|génération)|Fehler beim Buildvorgang|FEHLER beim Buildvorgang|Fehler beim Erstellen"
    "|生成失败|建置失敗|ビルドに失敗しました|빌드하지 못했습니다|СБОЙ сборки|Ошибка сборки|Kompilacja NIE POWIODŁA SIĘ|SESTAVENÍ SE NEZDAŘILO|Oluşturma BAŞARISIZ oldu"
)
"""What MSBuild says at its end, in the languages of its program."""
TESTED_WELL = (
    "Test Run Successful|Execução de Teste Bem-sucedida|Der Testlauf war erfolgreich|La serie de pruebas se ejecutó correctamente|Série de tests réussie|L'esecuzione dei test è riuscita|テストの実行に成功しました|테스트를 실행했습니다"
    "|Przebieg testu zakończony powodzeniem|Тестовый запуск выполнен|Test Çalıştırması Başarılı|测试运行成功|測試回合成功|Testovací běh byl úspěšný"
)
_TESTED_BADLY = (
    "Test Run Failed|Falha na Execução de Teste|Fehler beim Testlauf|No se pudo ejecutar la serie de pruebas|Échec de la série de tests|L'esecuzione dei test non è riuscita|テストの実行に失敗しました|테스트 실행이 실패했습니다"
    "|Przebieg testu nie powiódł się|Сбой тестового запуска|Test Çalıştırması Başarısız|测试运行失败|測試回合失敗|Testovací běh nebyl úspěšný"
)
"""What vstest says at its end with `--verbosity normal`, in the languages of its program."""
_CARGO_DONE = r"Finished (?!`?(?:test|bench)\b).*\btarget\(s\).*"

RUNNERS = (
    Runner("commit", r"git\s+(?:(?:-C|-c)\s+\S+\s+|-\S+\s+)*commit"),
    Runner("test", r"bun\s+(?:-\S+\s+)*test(?!\S)"),
    Runner("test", r"pytest|py\.test|hatch\s+(?:run\s+)?test"),
    Runner("lint", r"(?:tox|nox)\s(?:.*\s)?-(?:e|s|-sessions?|-env)[ =]?\S*(?:lint|type|mypy|flake|ruff|style|check|pre-commit)\S*"),
    Runner("test", r"tox(?:\s+(?:run|r|p|run-parallel))?(?=\s+-|$)(?!.*\s-e\s*\S*doc)", r"congratulations :\)", r"evaluation failed :\(", is_wrapper=True),
    Runner("test", r"nox(?=\s+-|$)(?!.*\s-(?:s|-sessions?)\s*\S*doc)", r"nox > Session \S+ was successful.*", r"nox > Session \S+ failed.*", is_wrapper=True),
    Runner("test", r"unittest|(?:manage\.py|django-admin)\s+test|nose2|trial", r"OK(?: \(.*\))?", r"FAILED \(.*\)"),
    Runner("test", r"go\s+test|gotestsum", r"ok\s+\S+\s+(?:\(cached\)|[\d.]+m?s)(?!.*\[no tests to run\]).*|DONE \d+ tests?(?:, \d+ skipped)? in .*",
           r"FAIL|FAIL\s+\S+(?:\s+(?:[\d.]+m?s|\[(?:build|setup) failed\]))?|DONE .*\b[1-9]\d* (?:failures?|errors?)\b.*"),
    Runner("test", r"cargo\s+(?:[+-]\S+\s+)*(?:test|t|nextest\s+run)", r"test result: ok\. (?!0 passed).*",
           r"test result: FAILED.*|error: test (?:run )?failed.*|error: could not compile .*"),
    Runner("test", r"dotnet\s+test|vstest", rf"{_TESTED}0{_NEXT}{_NAMED}[1-9].*|(?:{TESTED_WELL})[.。]|Test run summary: Passed!.*|{_TEST_TOTAL}0{_NEXT}{_NAMED}[1-9].*",
           rf"{_TESTED}[1-9].*|(?:{_TESTED_BADLY})[.。]|Test run summary: Failed!.*|{_TEST_TOTAL}[1-9].*|(?:{_NOT_BUILT})\W*"),
    Runner("test", r"mvnw?\s+(?:\S+\s+){0,8}?(?:\S+:)?(?:test|verify|integration-test)", r"BUILD SUCCESS", r"BUILD FAILURE"),
    Runner("test", r"gradlew?(?!.*\s-x\s+\S*test\b)\s+(?:(?:-x|--tests|--console)\s+\S+\s+|(?!-x|--tests|--configuration|dependencies)\S+\s+){0,8}?(?:\S*:)?(?:check|test|test[A-Z]\w*(?<!Classes)|(?!compile|clean|process|assemble|bundle|package)[a-z]\w*Test)", r"BUILD SUCCESSFUL.*", r"BUILD FAILED.*"),
    Runner("test", r"ctest"),
    Runner("test", r"phpunit|pest|artisan\s+test", r"OK(?: \(.*\)|, but .*)", r"FAILURES!|ERRORS!"),
    Runner("test", r"rspec|rails\s+test|minitest|ruby\s+(?:-\S+\s+)*\S*test\S*\.rb"),
    Runner("test", r"prove", r"All tests successful\.|Result: PASS", r"Result: FAIL"),
    Runner("test", r"swift\s+test|xcodebuild\s+(?:.*\s)?test", r"TEST SUCCEEDED", r"TEST FAILED"),
    Runner("test", r"(?:flutter|dart)\s+test", r".*\bAll tests passed!", r".*\bSome tests failed\."),
    Runner("test", r"(?:sbt|mill)\s+(?:\S+\s+)*[\"']?(?:\S*[/.:])?test(?:Only|Quick)?(?!:)(?=[\s\"']|$)", r"All tests passed\.", r".*\bTests unsuccessful"),
    Runner("test", r"cypress\s+run", r".*\bAll specs passed!.*", r".*\b[1-9]\d* of \d+ failed\b.*"),
    Runner("test", r"(?:zig(?:\s+build)?|dune|stack|cabal|lein|bazel(?:isk)?)\s+(?:run)?test|busted|behave|cucumber\S*|karma",
           r"All [1-9]\d* tests passed.*|Test Successful in .*", r".*\bFAILED in .*"),
    Runner("test", r"node\s+(?:-\S+\s+)*--test|(?:deno|mix)\s+test|Invoke-Pester|bats|jasmine|ava|uvu"),
    Runner("test", r"vitest|jest|mocha|playwright\s+test"),
    Runner("lint", r"ruff\s+format\s+(?:.*\s)?--(?:check|diff)|black\s+(?:.*\s)?--check|isort\s+(?:.*\s)?--check\S*", r"\d+ files? already formatted|All done!.*|\d+ files? would be left unchanged\.",
           r"\d+ files? would be reformatted.*|Oh no!.*|would reformat .*|Would reformat: .*|ERROR: .*incorrectly sorted.*"),
    Runner("lint", r"ruff(?!\s+(?:format|rule|clean|config|linter|server|version|analyze))", r"All checks passed!"),
    Runner("lint", r"ty\s+check", r"All checks passed!"),
    Runner("lint", r"mypy|dmypy\s+run|(?:based)?pyright|pyrefly(?:\s+check)?", r"Success: no issues found.*"),
    Runner("lint", r"prettier\s+(?:.*\s)?(?:-c|--check)", r"All matched files use Prettier code style!", r".*Code style issues (?:were )?found in .*"),
    Runner("lint", r"biome\s+(?:check|lint|ci|format)|oxlint", r"Checked \d+ files? in .*\. No fixes (?:applied|needed)\.", r"Found \d+ errors?.*"),
    Runner("lint", r"rubocop|standardrb", r".*\bno offenses detected", r".*\b[1-9]\d* offenses? detected.*"),
    Runner("lint", r"cargo\s+(?:\+\S+\s+)?clippy", _CARGO_DONE, r"error: could not compile .*"),
    Runner("lint", r"cargo\s+fmt\s+.*--check", "", r"Diff in .*", is_silent=True),
    Runner("lint", r"phpstan(?:\s+analy[sz]e)?|psalm", r"No errors(?: found!)?"),
    Runner("lint", r"terraform\s+validate", r"Success! The configuration is valid.*"),
    Runner("lint", r"hk\s+(?:check|fix|run\s+(?:pre-commit|check|fix))", is_wrapper=True),
    Runner("lint", r"pre-commit\s+run", r"\S.*\.{3,}(?:\(.*\))?Passed", r"\S.*\.{3,}Failed"),
    Runner("lint", r"tsc|vue-tsc", "", r".*\berror TS\d+.*", is_silent=True),
    Runner("lint", r"golangci-lint\s+(?:-\S+\s+)*run|eslint|flake8|pyflakes|shellcheck|stylelint|go\s+vet|gofmt\s+-[ld]\S*|yamllint|markdownlint\S*|actionlint|hadolint", is_silent=True),
    Runner("build", r"go\s+build", is_silent=True),
    Runner("build", r"cargo\s+(?:\+\S+\s+)?(?:build|check|b|c)", _CARGO_DONE, r"error: could not compile .*"),
    Runner("build", r"dotnet\s+(?:build|publish)", rf"(?:{_BUILT}).*", rf"(?:{_NOT_BUILT}).*"),
    Runner("build", r"mvnw?\s+(?:\S+\s+){0,8}?(?:package|compile|install)|gradlew?\s+(?:\S+\s+){0,6}?\S*(?:build|assemble)\S*", r"BUILD SUCCESS(?:FUL.*)?", r"BUILD FAIL(?:URE|ED.*)"),
    Runner("build", r"vite\s+build|webpack|next\s+build|rollup|esbuild|parcel\s+build|ng\s+build",
           r".*\b[Cc]ompiled successfully\b.*|(?:\W+)?(?:built|Built|Done) in .*",
           r"error during build:.*|Failed to compile\.?|Build failed\b.*|.*\bcompiled with [1-9]\d* errors?.*"),
    Runner("build", r"docker\s+(?:buildx\s+)?build|podman\s+build", r"(?:\d+ )?naming to .*done|Successfully (?:built|tagged) .*", r"ERROR: failed to .*"),
    Runner("build", r"cmake\s+--build|ninja", r"Build files have been written to: .*|\[100%\] Built target .*", r"CMake Error.*|gmake.*\*\*\* .*"),
    Runner("build", r"swift\s+build|xcodebuild(?!\s+(?:.*\s)?test)", r"Build complete!.*|BUILD SUCCEEDED", r"BUILD FAILED|error: (?:fatalError|terminated|.* command failed).*"),
)  # fmt: skip
"""All runners; the first whose command is in a simple command is the one that it runs."""
JUDGED = ("test", "lint", "build")
"""Kinds that have an outcome, by what is more important."""

_COMMAND = compile_pattern(
    r"(?:"
    + "|".join(f"(?P<r{number}>{one.command})" for number, one in enumerate(RUNNERS))
    + r")(?![\w/:.-])"
)
_HELP = compile_pattern(r"\s(?:--help|--version|version|help|-h)(?:\s|$)|^pytest\s(?:.*\s)?-V\b")
_CHECKS_NOTHING = compile_pattern(
    r"\s--?(?:no-run|collect-only|co|list|listTests|list-tests|dry(?:-run)?|setup-plan|showConfig|print-config|fixtures|markers|cache-show|clearCache|init|clean|env-info|rules|nobuild|show-bin-path|watch|watchAll)(?:[= ]|$)"
    r"|^go test\b.*\s-(?:c|list)\b|^ctest\b.*\s-N\b|^(?:vitest|playwright test) (?:list|init|watch)\b|^mocha init\b|^vitest\b.*\s--ui\b"
    r"|^(?:make|ninja|just)\b.*\s(?:-n|--just-print|--recon|-q|--question|-t|--touch)(?:\s|$)|^gradlew?\b.*\s-m(?:\s|$)|^mvnw?\b.*\s-D(?:skipTests|maven\.test\.skip)(?!=false)"
    r"|^go test\b.*\s-run[= ]['\"]?(?:\^\$|x|XXX|NONE|none|\^#)['\"]?(?:\s|$)"
)
"""Options with which a runner only lists, compiles, packs, prepares or watches; Go's way to run benchmarks alone."""

TASK_RUNNERS = frozenset(
    "make gmake mise just task rake composer nx turbo lerna rush npm pnpm yarn bun deno hatch poe invoke inv gulp grunt".split()
)
_OF_PACKAGES = frozenset(("npm", "bun", "composer", "deno", "hatch"))
"""Those that run a task only after a word such as `run`."""
_RUN_WORDS = frozenset(("run", "run-script", "run-many", "affected", "task", "test", "t", "tst"))
_TASK_WORDS = {
    "test": frozenset(("test", "tests", "e2e", "spec", "specs", "unittest")),
    "lint": frozenset(("lint", "check", "typecheck", "types")),
    "build": frozenset(("build",)),
}
_NO_CHECK = frozenset(
    "install compile deps dep clean setup prepare up down init env fixtures data db seed image images watch report results updates update upgrade server serve "
    "ui open docs gen generate list help staged start stop logs publish deploy push pull format fmt".split()
)
"""Words in the name of a task that say that it checks nothing."""
_NARROW = _NO_CHECK | frozenset(
    "lint linter linting types type typecheck tsc eslint prettier biome clippy vet build bundle pack dev preview add remove exec list ls why audit outdated trust use "
    "version bench benchmark migrate render codegen schema release tag".split()
)
"""With those that say that it runs no test."""
_TASK_PART = compile_pattern(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])")
_SCRIPT = compile_pattern(
    r"(?:.*/)?(?:(?:scripts?|bin|ci|hack|tools|dev)/(?P<name>tests?|check|lint)|(?P<run>run[-_]?tests?)|tests?/(?P<all>run|all)|(?P<test>tests?(?:[-_]\w+)*)(?=\.sh|\.ps1))(?:\.(?:sh|bash|py|ps1))?"
)
_WRAPPERS = {kind: Runner(kind, f"({kind})", is_wrapper=True) for kind in JUDGED}
"""What a project gives a name to: it may run any runner."""
TEST_TASK = _WRAPPERS["test"]
ALL_RUNNERS = (*RUNNERS, *_WRAPPERS.values())


def find_runner(words: Sequence[str]) -> Runner | None:
    """Return the runner that a program with its arguments is, None for another program."""
    path = unquote(words[0]).replace("\\", "/")
    text = " ".join((find_name(path), *words[1:]))
    if len(text) < 200 and _HELP.search(text):
        return None
    if _CHECKS_NOTHING.search(text):
        return None
    if match := _COMMAND.match(text):
        return RUNNERS[int((match.lastgroup or "r0")[1:])]
    if text.partition(" ")[0] in TASK_RUNNERS:
        kinds = {kind for task in list_tasks(text.split()) for kind in _list_task_kinds(task)}
    elif script := _SCRIPT.fullmatch(path):
        kinds = set(_list_task_kinds(script["name"] or "test"))
    else:
        return None
    return next((_WRAPPERS[kind] for kind in JUDGED if kind in kinds), None)


def may_run_tests(words: Sequence[str]) -> bool:
    """Return whether a program with its arguments is a task of a project of which nobody knows what it runs."""
    name = find_name(words[0])
    if script := _SCRIPT.fullmatch(unquote(words[0]).replace("\\", "/")):
        return script["name"] == "check"
    if name not in TASK_RUNNERS or (name == "mise" and words[1:2] not in (["run"], ["r"])):
        return False
    tasks = [task for task in list_tasks([name, *words[1:]]) if task not in _RUN_WORDS]
    return any("/" not in task and not _list_parts(task) & _NARROW for task in tasks)


def list_tasks(words: Sequence[str]) -> Sequence[str]:
    """List the tasks that a runner of tasks is given; `build` for the one that it takes without."""
    name, named = (
        words[0],
        [word for word in words[1:] if not word.startswith("-") and "=" not in word],
    )
    if name in ("make", "gmake"):
        return [word for word in named if word != "all"] or ["build"]
    if name in _OF_PACKAGES:
        at = skip_options(words, 1, frozenset(PACKAGE_OPTIONS.split()))
        if words[at : at + 1] and words[at] in ("test", "t", "tst"):
            return ["test"]
        task = skip_options(words, at + 1, frozenset())
        return words[task : task + 1] if words[at : at + 1] and words[at] in _RUN_WORDS else ()
    if name in ("yarn", "pnpm"):
        rest = [word for word in named if word not in _RUN_WORDS or word == "test"]
        return (
            rest[:3]
            if any(word.startswith("-") for word in words) or "workspace" in rest
            else rest[:1]
        )
    return named


def _list_parts(task: str) -> set[str]:
    return {part.lower() for part in _TASK_PART.split(task)}


def _list_task_kinds(task: str) -> list[CheckKind]:
    parts = _list_parts(task)
    if parts & _NO_CHECK:
        return []
    return [kind for kind, words in _TASK_WORDS.items() if parts & words]
