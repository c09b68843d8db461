"""What a shell command line does: which checks it runs, whether it only looks around, and what it changes."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tasuki.draft.runs.programs import list_started, unquote
from tasuki.draft.runs.runners import (
    JUDGED,
    TASK_RUNNERS,
    CheckKind,
    Runner,
    find_runner,
    may_run_tests,
)
from tasuki.patterns import compile_pattern
from tasuki.shell import SimpleCommand, split_commands, strip_assignments

NAVIGATION = compile_pattern(
    r"^(?:ls|ll|cd|pwd|cat|head|tail|sed\s+-n|nl|grep|rg|ag|find|fd|tree|wc|which|file|stat|echo|printf|awk|jq|sort|uniq|"
    r"less|more|du|df|env|whoami|date|sleep|true|type|command\s+-v|test\s|\[|mkdir|git\s+(?:-C\s+\S+\s+|--no-pager\s+)*(?:status|log|diff|show|branch|"
    r"remote|stash\s+list|rev-parse|ls-files|blame|add|fetch|grep|reflog|describe|config\s+--get|check-ignore|merge-base|"
    r"cat-file|ls-tree|ls-remote|rev-list|checkout|switch))\b"
)
MAX_SCRIPT = 20_000
"""Characters from which a command is a script."""


_ENV = compile_pattern(r"env\s+(?:-\S+\s+)*(?:\w+=(?:'[^']*'|\"[^\"]*\"|[^\s'\"])*\s+)+(?=\S)")


@lru_cache(maxsize=50_000)
def list_simple_commands(command: str) -> tuple[SimpleCommand, ...]:
    """Return the simple commands of a command line, or none for a long script."""
    return tuple(split_commands(command)) if len(command) <= MAX_SCRIPT else ()


_HERE_DOCUMENT = compile_pattern(r"(?<!<)<<(?!<)-?[ \t]*['\"]?([A-Za-z_]\w*)['\"]?")


def drop_here_documents(line: str) -> str:
    """Return a command line without its here-documents, such as commit messages."""
    kept, end = [], ""
    for text in line.split("\n"):
        if end:
            end = "" if text.strip() == end else end
            continue
        if match := _HERE_DOCUMENT.search(text):
            end = match[1]
            text = text[: match.start()] + text[match.end() :]
        kept.append(text)
    return "\n".join(kept)


@lru_cache(maxsize=50_000)
def list_check_kinds(command: str) -> tuple[CheckKind, ...]:
    """Return which of `test`, `lint`, `build` and `commit` a command line runs, in this order."""
    started = (identify_started(c) for c in list_simple_commands(command) if not c.is_piped)
    found = {one.runner.kind for one in started if one}
    return tuple(kind for kind in (*JUDGED, "commit") if kind in found)


def runs_project_script(command: str) -> bool:
    """Return whether a line runs a check by a name that the project gave: it may run any other, too."""
    started = map(identify_started, list_simple_commands(command))
    return any(one and one.runner.is_wrapper for one in started)


def may_hold_tests(command: str) -> bool:
    """Return whether a line runs a task of the project of which nobody knows whether it runs tests."""
    return any(
        may_run_tests(started.words)
        for part in list_simple_commands(command)
        if not TASK_RUNNERS.isdisjoint(part.text.split()) or "check" in part.text
        for started in list_started(part.source or part.text)
    )


def strip_variables(text: str) -> str:
    """Return a simple command without the variables that it sets, also with `env`."""
    text = strip_assignments(text)
    match = _ENV.match(text)
    return text[match.end() :] if match else text


def find_check_kind(command: str) -> CheckKind:
    """Return the first of `list_check_kinds`, or an empty string if a command runs no check."""
    return next(iter(list_check_kinds(command)), "")


class StartedRunner(NamedTuple):
    """A runner that a simple command starts, with its arguments, its path first."""

    runner: Runner
    words: Sequence[str]
    hides_code: bool


_STARTS_NONE = frozenset(
    "ls ll cd pwd cat head tail nl grep egrep rg ag find fd tree wc which stat echo printf awk jq sort uniq less more mkdir touch cp mv rm chmod tr cut tee diff "
    "curl sleep true false export test [ kill ps gh sed".split()
)
"""Programs that start no check, of which most commands are."""


@lru_cache(maxsize=50_000)
def identify_started(command: SimpleCommand) -> StartedRunner | None:
    """Return the runner of checks, or the commit, that a simple command starts; None for others."""
    first = command.text.split(" ", 1)[0]
    if first in _STARTS_NONE or (first == "git" and "commit" not in command.text):
        return None
    for started in list_started(command.source or command.text):
        if runner := find_runner(started.words):
            return StartedRunner(runner, *started)
    return None


@lru_cache(maxsize=50_000)
def is_navigation(command: str) -> bool:
    """Return whether a command only looks around, so that a successor need not know it."""
    found = list_simple_commands(command)
    return bool(found) and all(NAVIGATION.match(strip_variables(c.text)) for c in found)


_FORMATTER = compile_pattern(
    r"(?:mise|make|just|task|npm|pnpm|yarn|bun)\s+(?:-\S+\s+)*(?:run\s+)?(?:fmt|format)(?![\w:-])"
    r"|gofmt\s+(?=.*-w\b)(?:-\w+\s+)+\.(?:\s|$)|go\s+fmt\s+\./\.\.\.|cargo\s+fmt\b(?!.*--check)"
    r"|ruff\s+format(?:\s+\.|$)|black\s+\.|(?:npx\s+)?prettier\s+(?:--write|-w)\s+[.\"'*]"
)


_FORMATTER_WORDS = ("fmt", "format", "black", "prettier")


def find_formatter(command: str) -> str:
    """The part of a command line that may rewrite any file of the tree, or an empty string."""
    if not any(word in command for word in _FORMATTER_WORDS):
        return ""
    texts = (strip_variables(c.text) for c in list_simple_commands(command))
    return next((text for text in texts if _FORMATTER.match(text)), "")


_HELP_OR_VERSION = compile_pattern(r"(?:^|\s)(?:--help|--version|version|help|-h)(?:\s|$)")


def is_help_or_version(command: str) -> bool:
    """Return whether a command only asks a program for its help or version."""
    return len(command) < 200 and bool(_HELP_OR_VERSION.search(command))


_ALWAYS_SUCCEEDS = compile_pattern(
    r"(?:command\s+)?(?:true|:|exit|wait)(?:\s|$)|command\s+(?:echo|printf)\b"
)
_SETS_ERREXIT = compile_pattern(r"set\s+-\w*e")


def is_exit_code_hidden(command: str) -> bool:
    """Return whether the exit code of a command line is not that of its main command.

    It may be that of a filter, or of an `echo` or `ls` at its end.
    """
    parts = list_simple_commands(command)
    if any(part.is_piped for part in parts):
        return True
    if len(parts) < 2 or _SETS_ERREXIT.match(parts[0].text) or parts[-1].operator == "&&":
        return False
    last = strip_variables(parts[-1].text)
    return bool(NAVIGATION.match(last) or _ALWAYS_SUCCEEDS.match(last))


_BOOKKEEPING = compile_pattern(
    r"git\s+(?:-\S+\s+(?:/\S+\s+)?)*(?:status|log|diff|show|branch|remote|rev-parse|ls-files|blame|add|fetch|grep|reflog|describe|config|stash|"
    r"checkout|switch|commit|push|pull|merge|rebase|reset|restore|tag|worktree|cherry-pick|merge-base|cat-file|ls-tree)\b"
)


def is_bookkeeping(step: str) -> bool:
    """Return whether a step is git's everyday work, which need not be handed on."""
    return bool(_BOOKKEEPING.match(step))


_CHANGES = compile_pattern(
    r"sed\s+(?:-\S+\s+)*(?:-\w*i|--in-place)|perl\s+-\w*i|(?:sudo\s+)?(?:cp|mv|rm|tee|patch|rsync|ln|unzip|dos2unix|truncate|install)\s"
    r"|git\s+(?:(?:-C|-c)\s+\S+\s+)*(?:checkout(?!\s+-[bB]\s+\S+$)|switch(?!\s+-[cC]\s+\S+$)|restore(?!\s+--staged)|stash(?!\s+(?:list|show|drop))|reset\s+(?:.*\s)?--(?:hard|merge|keep)"
    r"|apply|am|merge(?!-base)|rebase|pull|revert|cherry-pick|rm|mv|clean|submodule\s+update|lfs\s+pull)\b|gh\s+pr\s+checkout\b"
    r"|(?:npx\s+|bunx\s+|(?:uv|poetry|pnpm|yarn|bun|npm)\s+(?:run|exec|x|dlx)\s+|bundle\s+exec\s+|python\S*\s+-m\s+|vendor/bin/)*(?:black|isort|autopep8|yapf|ruff\s+format|gofmt\s+.*-w|goimports\s+.*-w|gofumpt\s+.*-w|go\s+fmt|cargo\s+(?:fmt|fix)"
    r"|dotnet\s+format|mix\s+format|rustfmt|swiftformat|clang-format\s+.*-i|shfmt\s+.*-w|terraform\s+fmt|php-cs-fixer\s+fix|phpcbf|prettier\s+.*(?:--write|-w\b)|\S.*\s--(?:fix|write|apply|autocorrect\S*|update-snapshots?|in-place)\b|(?:rubocop|standardrb)\b.*\s-[aA]\b|(?:jest|vitest)\b.*\s-u\b)"
    r"|pre-commit\s+run|(?:npm|pnpm|yarn|bun)\s+(?:i|install|ci|add|remove|uninstall|update|upgrade|up|dedupe)\b|yarn$|(?:uv|poetry|pdm|cargo|composer|bundle|mix|flutter|dart|swift|dotnet|nuget|conda|pipenv)\s+(?:pub\s+)?(?:add|remove|update|upgrade|sync|lock|install|require|deps\.\S+|get|restore|package\s+\S+)\b"
    r"|(?:uv\s+)?pip\S*\s+(?:install|uninstall)\b|go\s+(?:get|mod|generate|work)\b|(?:make|just|task|mise|npm|pnpm|yarn|bun)\s+(?:run\s+)?\S*(?:fmt|format|fix|generate|gen|codegen)\S*"
)
_NOT_CHANGING = compile_pattern(
    r"(?:black|isort|ruff\s+format|cargo\s+fmt|dotnet\s+format|mix\s+format|terraform\s+fmt).*\s--(?:check\S*|diff|verify-no-changes)\b|.*\s--dry-run\b|(?:make|just|task|mise|npm|pnpm|yarn|bun)\s+(?:run\s+)?(?!\S*fix)\S*(?:lint|check)\S*|git\s+apply\s+--(?:check|stat)"
)
_READS = compile_pattern(
    r"(?:gh|glab)\s|curl(?!.*\s-(?:[oO]|-output|-remote-name)\b)\s|(?:ps|kill|pkill|lsof|ss|netstat|jobs|wait|export|unset|set|exit|source|\.|cmp|diff|comm|md5sum|sha256sum|tr|cut|xxd|hexdump|tmux|history|id|uname|hostname|nproc|free|set-location|get-\w+|select-\w+|write-\w+|test-path|pushd|popd|read|shift|return|break|continue|local|declare)\b|(?:docker|podman|kubectl|helm)\s+(?:compose\s+)?(?:ps|logs|images|inspect|get|describe|version|info|up|start|stop|down|build)\b"
)
_WRITES = compile_pattern(
    r"(?:npm|yarn|pnpm|cargo|poetry)\s+version\s+\w|find\s.*\s-(?:delete|exec\w*)\b|awk\s.*>|git\s+(?:checkout|switch)\b(?!\s+-[bBcC]\b)"
)
_SCRATCH = compile_pattern(
    r"/dev/|/tmp/|/var/|\$\{?TMP|&|.*\.(?:log|out|txt|tmp|pid)$|NUL$|\$null$"
)
"""Files that are no part of a project."""


@lru_cache(maxsize=20_000)
def find_change(command: str) -> str | None:
    """Return the last part of a line that changes files, or installs packages; None where it may change any.

    An empty string: it changes none. A part that writes to a file is `> ` and its path.
    """
    parts = list_simple_commands(command)
    changing: str | None = "" if parts or not command.strip() else None
    for part in parts:
        text = strip_variables(part.text)
        targets = [one for one in (part.output_to, part.errors_to) if one]
        written = next((one for one in targets if not _SCRATCH.match(one)), "")
        if written or (_CHANGES.match(text) and not _NOT_CHANGING.match(text)):
            files = [unquote(word) for word in text.split()[1:] if not word.startswith("-")]
            is_elsewhere = not text.startswith("git") and all(map(_SCRATCH.match, files))
            if files and is_elsewhere and not written:
                continue
            named = f"> {written}" if written else text
            changing = changing or None if "$" in (written or text) else named
        elif changing == "" and text and not _READS.match(text):
            looks = is_navigation(part.text) or is_bookkeeping(text) or is_help_or_version(text)
            is_kept = (looks and not _WRITES.match(text)) or identify_started(part)
            changing = changing if is_kept else None
    return changing
