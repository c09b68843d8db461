"""Guides, memories and files that programs put into a conversation, whole.

Seen: Codex 0.171, Claude Code 2.1.332, Gemini CLI 0.61, opencode 1.4, pi's `@file`, editors over ACP.
"""

from tasuki.model import Document
from tasuki.patterns import compile_pattern

_PATTERNS = tuple(
    compile_pattern(pattern)
    for pattern in (
        r"(?s)# (?P<name>AGENTS\.md) instructions(?: for (?P<folder>[^\n]*))?\s+<INSTRUCTIONS>\s*(?P<text>.*?)\s*</INSTRUCTIONS>",
        r"(?s)<user_instructions>\s*(?P<text>.*?)\s*</user_instructions>",
        r"(?s)<(?P<tag>file|context) (?:name|ref)=[\"'](?:file://)?(?P<path>[^\"'\n]+)[\"'][^>\n]*>\n?(?P<text>.*?)\n?</(?P=tag)>",
        r"(?s)<path>(?P<path>[^<\n]+)</path>\s*<type>file</type>\s*<content>\n?(?P<text>.*?)\n?</content>",
        r"(?s)(?:\A|\n)Contents of (?P<path>[^\n(]+?) \([^)\n]*\):\n+(?P<text>.*?)(?=\n+Contents of [^\n(]+ \([^)\n]*\):\n|\n+\s*IMPORTANT: this context may|\n*</system-reminder>|\Z)",
        r"(?s)\nContent from @?(?P<path>[^\n]+?):\n(?P<text>.*?)(?=\nContent from @?[^\n]+:\n|\n--- End of content ---|\Z)",
    )
)
_HINTS = ("<INSTRUCTIONS>", "<user_instructions>", "<file name=", "<context ref=", "<type>file<", "Contents of ", "\nContent from ")  # fmt: skip
"""What a text with a document holds: most texts hold none."""


class DocumentLog:
    """The documents of a thread, each once."""

    def __init__(self) -> None:
        self.documents: dict[Document, None] = {}

    def add(self, path: str, text: str) -> None:
        """Add a document; one without words, or that is known, is not."""
        if text.strip():
            self.documents[Document(path, text)] = None

    def find(self, text: str) -> None:
        """Add what a text of a program holds."""
        if not any(hint in text for hint in _HINTS):
            return
        for pattern in _PATTERNS:
            for match in pattern.finditer(text):
                parts = {"path": "", "folder": "", "name": "AGENTS.md", **match.groupdict("")}
                folder = parts["folder"].strip().rstrip("/")
                named = "/".join(part for part in (folder, parts["name"]) if part)
                self.add(parts["path"].strip() or named, parts["text"])
