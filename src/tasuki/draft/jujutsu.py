"""Commits of Jujutsu as a thread shows them. Format: jj 0.20–0.35."""

import re

from tasuki.draft.commit_log import CommitLog, find_subject

_DESCRIBES = re.compile(r"\bjj (?:-\S+ )*(?:commit|ci|describe|desc)\b")
_WORKING = re.compile(
    r"^(?:Working copy|Parent commit)\s{0,9}(?:\(@-?\))?\s{0,9}(?:now at)?\s{0,9}:\s+\S+ ([0-9a-f]{7,40}) (.*)$",
    re.MULTILINE,
)
_PUSHED = re.compile(
    r"^[^\S\n]+(?:Add|Move(?: forward)?|Update) bookmark (\S+) (?:from \S+ )?to ([0-9a-f]{7,40})",
    re.MULTILINE,
)


def read_jujutsu(log: CommitLog, ref: int, line: str, output: str, branch: str) -> None:
    """Take in what one command line did: the commit that holds the work, pushed bookmarks."""
    subject = find_subject(line) if _DESCRIBES.search(line) else ""
    shown = _WORKING.findall(output) if subject else ()
    hash = next((hash for hash, text in shown if subject in text), "")
    if hash:
        log.drop_subject(subject)
        log.add(ref, hash, subject, branch)
    for bookmark, hash in _PUSHED.findall(output):
        log.push_bookmark(bookmark, hash)
