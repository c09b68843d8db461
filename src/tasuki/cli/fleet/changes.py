"""`tasuki agent changes`: what an agent changed in its repository."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import click

from tasuki.cli.fleet.persona import create_client
from tasuki.cli.output import JSON_OPTION, format_age, print_json
from tasuki.errors import NotPossible
from tasuki.text_safety import clean_for_display, shorten_to_line

WIDTH_COLUMNS = 200
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
    if as_json:
        print_json({"changes": record})
        return
    if record["problem"]:
        raise NotPossible(_clean_line(record["problem"]))
    click.echo("\n".join(_format_changes(record)))


def _format_changes(record: Mapping[str, Any]) -> Iterator[str]:
    yield _format_head(record)
    for sentence in filter(None, (record["note"], record["left_out"])):
        yield _clean_line(sentence)
    for commit in record["commits"]:
        age = format_age(time.time() - commit["at"])
        yield f"  {commit['hash'][:10]}  {_clean_line(commit['subject'])} ({_clean_line(commit['author'])}, {age})"
    if record["commit_count"] > len(record["commits"]):
        yield f"  … {record['commit_count'] - len(record['commits'])} more"
    for file in record["files"]:
        yield _format_file(file)
    for name, changed in zip(record["files"], record["diffs"], strict=False):
        yield from _format_diff(name, changed, record["base"])


def _format_head(record: Mapping[str, Any]) -> str:
    where = f"on {_clean_line(record['branch'])}" if record["branch"] else "on no branch"
    if record["upstream"]:
        counts = [f"{record[name]} {name} of" for name in ("ahead", "behind") if record[name]]
        where += f", {' and '.join(counts) or 'level with'} {_clean_line(record['upstream'])}"
    count = record["file_count"]
    return (
        f"{where}: +{record['added']} -{record['removed']} in {count} file{'s' if count != 1 else ''}, "
        f"{record['commit_count']} commit{'s' if record['commit_count'] != 1 else ''}"
    )


def _format_file(file: Mapping[str, Any]) -> str:
    counts = "" if file["added"] is None else f"+{file['added']} -{file['removed']}"
    old = f"{_clean_line(file['old_path'])} → " if file["old_path"] else ""
    return f"{_MARKS[file['state']]} {counts:>12}  {old}{_clean_line(file['path'])}"


def _format_diff(file: Mapping[str, Any], diff: Mapping[str, Any], base: str) -> Iterator[str]:
    yield ""
    yield f"--- {_clean_line(file['path'])}"
    if diff["note"]:
        yield diff["note"]
    for line in diff["lines"]:
        yield clean_for_display(line)
    if diff["more"] != 0:
        number = "more" if diff["more"] is None else f"{diff['more']:,} more"
        yield f"… {number} lines. All of them: git diff {base[:10] or '--cached'} -- PATH"


def _clean_line(text: str) -> str:
    return shorten_to_line(text, WIDTH_COLUMNS)
