"""What a shell command does to the files of a project: nothing, something, or nobody knows."""

from functools import lru_cache

from tasuki.draft.runs.command_kinds import (
    identify_started,
    is_bookkeeping,
    is_help_or_version,
    is_navigation,
    list_simple_commands,
    strip_variables,
)
from tasuki.draft.runs.programs import unquote
from tasuki.patterns import compile_pattern

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
            if _is_elsewhere(text) and not written:
                continue
            named = f"> {written}" if written else text
            changing = changing or None if "$" in (written or text) else named
        elif changing == "" and not (_keeps_files(part.text, text) or identify_started(part)):
            changing = None
    return changing


def _is_elsewhere(text: str) -> bool:
    """Return whether a command names files, and all of them are no part of a project."""
    words = [unquote(word) for word in text.split()[1:] if not word.startswith("-")]
    return bool(words) and not text.startswith("git") and all(map(_SCRATCH.match, words))


def _keeps_files(whole: str, text: str) -> bool:
    """Return whether a simple command, as it is and without its variables, is known to change no file."""
    if not text or _READS.match(text):
        return True
    looks = is_navigation(whole) or is_bookkeeping(text) or is_help_or_version(text)
    return looks and not _WRITES.match(text)
