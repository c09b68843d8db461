"""What a patch does to files: `*** Begin Patch`, unified diffs, the anchored edits of omp."""

import re

from tasuki.model import FileChange
from tasuki.patterns import compile_pattern

_FILE = compile_pattern(r"\n\*\*\* (Add|Update|Delete) File: (.+)")
_OLD = compile_pattern(r"\n-(.*)")
_NEW = compile_pattern(r"\n(?:\+|@@ )(.*)")
_MOVE = compile_pattern(r"\A\n\*\*\* Move to: (.+)")
_ANCHOR = compile_pattern(r"^[^\S\n]*(?:\[([^\]#\n]+)#\w*\]|@([^\s@]+))\s*$", re.MULTILINE)
_ANCHORED = compile_pattern(r"^[^\S\n]*\+(.*)$", re.MULTILINE)
_HEREDOC = compile_pattern(r"apply_patch\s+<<-?\s*['\"]?(\w+)['\"]?\n(.*?)\n\s*\1\b", re.DOTALL)


def find_patch(command: str) -> str:
    """Find the patch that a shell command passes to `apply_patch`, empty if there is none."""
    if match := _HEREDOC.search(command):
        return match[2]
    return command if command.startswith("apply_patch ") and "*** Begin" in command else ""


def parse_patch(patch: str) -> tuple[FileChange, ...]:
    """Parse the file changes of a patch in the `*** Begin Patch` form (Codex `apply_patch`)."""
    parts = _FILE.split("\n" + patch.replace("\r\n", "\n"))
    return tuple(
        change
        for action, path, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
        for change in _parse_file_changes(action, path.strip(), body)
    )


def _parse_file_changes(action: str, path: str, body: str) -> list[FileChange]:
    if action == "Delete":
        return [FileChange(path=path, kind="delete")]
    old, new = "\n".join(_OLD.findall(body)), "\n".join(_NEW.findall(body))
    if moved := _MOVE.search(body):
        renamed = FileChange(path=moved[1].strip(), kind="rename", old=old, new=new)
        return [FileChange(path=path, kind="delete"), renamed]
    return [FileChange(path=path, kind="create" if action == "Add" else "edit", old=old, new=new)]


def parse_anchored_edits(patch: str) -> tuple[FileChange, ...]:
    """Parse the changes of an omp hashline edit.

    It has one section a file, headed `[PATH#HASH]` or `@PATH`. The removed text is named there
    by anchors alone, so only the new text is known.
    """
    parts = _ANCHOR.split(patch)
    return tuple(
        FileChange((bracketed or marked).strip(), "edit", new="\n".join(_ANCHORED.findall(body)))
        for bracketed, marked, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    )
