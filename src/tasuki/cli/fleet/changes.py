"""`tasuki agent changes`: what an agent changed in its repository."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import click

from tasuki.cli.fleet.persona import create_client
from tasuki.cli.output import JSON_OPTION, format_age, print_result
from tasuki.errors import NotPossible
from tasuki.text_safety import clean_for_display, shorten_to_line

_MARKS = {
    "added": "A", "changed": "M", "deleted": "D", "renamed": "R", "conflicted": "U",
    "untracked": "?",
}  # fmt: skip


@click.command("changes")
@click.argument("id", type=int)
@click.option("--diff", is_flag=True, help="Also every line that differs.")
@click.option("--since-handoff", is_flag=True, help="Only since its last handoff document.")
@JSON_OPTION
def show_changes(id: int, diff: bool, since_handoff: bool, as_json: bool) -> None:
    """Show what an agent changed since it began: commits, files, uncommitted work.

    git reads this in the agent's folder, on its host. Secrets are hidden.
    """
    record = create_client().get(
        "agents", id, "changes", since="handoff" if since_handoff else "start",
        diff="all" if diff else "",
    )  # fmt: skip
    if record["problem"] and not as_json:
        raise NotPossible(shorten_to_line(record["problem"]))
    print_result(as_json, {"changes": record}, _format_changes(record))


def _format_changes(record: Mapping[str, Any]) -> Iterator[str]:
    where = f"on {shorten_to_line(record['branch'])}" if record["branch"] else "on no branch"
    if record["upstream"]:
        counts = [f"{record[name]} {name} of" for name in ("ahead", "behind") if record[name]]
        where += f", {' and '.join(counts) or 'level with'} {shorten_to_line(record['upstream'])}"
    file_count, commit_count = (
        f"{count} {word}{'s' if count != 1 else ''}"
        for word, count in (("file", record["file_count"]), ("commit", record["commit_count"]))
    )
    yield f"{where}: +{record['added']} -{record['removed']} in {file_count}, {commit_count}"
    for sentence in filter(None, (record["note"], record["left_out"])):
        yield shorten_to_line(sentence)
    for commit in record["commits"]:
        age = format_age(time.time() - commit["at"])
        yield f"  {commit['hash'][:10]}  {shorten_to_line(commit['subject'])} ({shorten_to_line(commit['author'])}, {age})"
    if record["commit_count"] > len(record["commits"]):
        yield f"  … {record['commit_count'] - len(record['commits'])} more"
    for file in record["files"]:
        sizes = "" if file["added"] is None else f"+{file['added']} -{file['removed']}"
        old = f"{shorten_to_line(file['old_path'])} → " if file["old_path"] else ""
        yield f"{_MARKS[file['state']]} {sizes:>12}  {old}{shorten_to_line(file['path'])}"
    for name, changed in zip(record["files"], record["diffs"], strict=False):
        yield from _format_diff(name, changed, record["base"])


def _format_diff(file: Mapping[str, Any], diff: Mapping[str, Any], base: str) -> Iterator[str]:
    yield ""
    yield f"--- {shorten_to_line(file['path'])}"
    if diff["note"]:
        yield diff["note"]
    for line in diff["lines"]:
        yield clean_for_display(line)
    if diff["more"] != 0:
        number = "more" if diff["more"] is None else f"{diff['more']:,} more"
        yield f"… {number} lines. All of them: git diff {base[:10] or '--cached'} -- PATH"
