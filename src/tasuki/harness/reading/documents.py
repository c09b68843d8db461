"""Guides, memories and files that programs put into a conversation, whole.

Seen: Codex 0.171, Claude Code 2.1.332, Gemini CLI 0.61, opencode 1.4, pi's `@file`, editors over ACP.
"""

from itertools import pairwise

from tasuki.model import Document
from tasuki.patterns import compile_pattern

_ELEMENTS = tuple(
    compile_pattern(pattern)
    for pattern in (
        r"(?s)# (?P<name>AGENTS\.md) instructions(?: for (?P<folder>[^\n]*))?\s+<INSTRUCTIONS>(?P<text>.*?)</INSTRUCTIONS>",
        r"(?s)<(?P<tag>user_instructions)>(?P<text>.*?)</(?P=tag)>",
        r"(?s)<(?P<tag>file|context) (?:name|ref)=[\"'](?:file://)?(?P<path>[^\"'\n]+)[\"'][^>\n]*>(?P<text>.*?)</(?P=tag)>",
        r"(?s)<path>(?P<path>[^<\n]+)</path>\s*<type>file</type>\s*<content>(?P<text>.*?)</content>",
    )
)
_HEADING = compile_pattern(
    r"(?m)^Cont(?:ents of ([^\n(]+?) \([^)\n]*\)|ent from @?([^\n]+?)):\n|\Z"
)
_END = compile_pattern(
    r"\n--- End of content ---|\n*</system-reminder>|\n+\s*IMPORTANT: this context"
)
_HINTS = ("<INSTRUCTIONS>", "<user_instructions>", "<file name=", "<context ref=", "<type>file<", "Contents of ", "\nContent from ")  # fmt: skip
"""What a text with a document holds: most texts hold none."""


class DocumentLog:
    """The documents of a thread, each once."""

    def __init__(self) -> None:
        self.documents: dict[Document, None] = {}

    def add(self, path: str, text: str) -> None:
        """Add a document; one without words, or that is known, is not."""
        if text := text.strip("\n"):
            self.documents[Document(path, text)] = None

    def find(self, text: str) -> None:
        """Add what a text of a program holds."""
        if not any(hint in text for hint in _HINTS):
            return
        for pattern in _ELEMENTS:
            for match in pattern.finditer(text):
                parts = {"path": "", "folder": "", "name": "AGENTS.md", **match.groupdict("")}
                named = [part for part in (parts["folder"].rstrip(" /"), parts["name"]) if part]
                self.add(parts["path"].strip() or "/".join(named), parts["text"])
        for heading, after in pairwise(_HEADING.finditer(text)):
            end = _END.search(text, heading.end(), after.start())
            whole = text[heading.end() : end.start() if end else after.start()]
            self.add(heading[1] or heading[2], whole)
