"""What the scripted harness does in a turn: a rule for each prompt, from a file that tests
write.

    {"window": 200000, "start_delay": 0.0, "rules": [
        {"match": "REGULAR EXPRESSION", "do": [["say", "hello {name}"], "no_stop"],
         "times": 1, "ignore_enter": 1}]}

The first rule whose `match` is found in the prompt counts. Named groups, and prompt,
session, pid and cwd, can be used in braces in the words of its actions. `times`: how often
it is used at most. `ignore_enter`: how often Enter is ignored while such a text is in the
input. If no rule matches, the default ones do: they write a handoff document, or give an
acknowledgement, when asked.
"""

import json
import os
import re
from typing import Any

HEADINGS = ("Goal", "Progress", "Decisions", "Blockers", "Files modified", "Next steps")
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)

DEFAULTS: tuple[dict[str, Any], ...] = (
    {
        "match": r"(?is)\bbegin your answer with\b.{0,80}?\bhandoff (?P<short>[0-9a-f]{8})\b",
        "do": [["say", "handoff {short}\nI have read the document and carry on with its next step."]],
    },
    {
        "match": r"(?is)\bwrite\b.*?(?P<path>/[^\s`'\"]*/handoffs/[^\s`'\"]+\.md)",
        "do": [["document", "{path}"], ["say", "Done: the handoff document is written."]],
    },
    {"match": r'(?i)answer with the one word "(?P<word>\w+)"', "do": [["say", "{word}"]]},
    {"match": "", "do": [["say", "ok"]]},
)  # fmt: skip


class PromptRule:
    """A rule, and how its expression matched a prompt."""

    def __init__(self, rule: dict[str, Any], found: "re.Match[str]") -> None:
        self.rule = rule
        self.actions: list[Any] = rule.get("do") or []
        self.fields = {name: value or "" for name, value in found.groupdict().items()}


class ScriptFile:
    """The script file, which may change at any time; without one only the default rules."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.done: dict[str, int] = {}

    def get_setting(self, name: str, default: float) -> float:
        """Return a number at the top of the script."""
        value = self._read_content().get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def choose_rule(self, prompt: str) -> PromptRule:
        """Return the rule for a prompt, and count its use."""
        rule = self._find_rule(prompt)
        self._count_use("do", rule.rule)
        return rule

    def should_ignore_enter(self, text: str) -> bool:
        """Return whether Enter is ignored this time."""
        rule = self._find_rule(text).rule
        wanted = int(rule.get("ignore_enter") or 0)
        return wanted > 0 and self._count_use("enter", rule) <= wanted

    def _find_rule(self, prompt: str) -> PromptRule:
        for rule in (*self._read_content().get("rules", ()), *DEFAULTS):
            most = rule.get("times")
            used = self.done.get(f"do {rule.get('match', '')}", 0)
            if most is not None and used >= most:
                continue
            if found := re.search(rule.get("match", ""), prompt):
                return PromptRule(rule, found)
        raise AssertionError("the last rule matches everything")

    def _count_use(self, kind: str, rule: dict[str, Any]) -> int:
        key = f"{kind} {rule.get('match', '')}"
        self.done[key] = self.done.get(key, 0) + 1
        return self.done[key]

    def _read_content(self) -> dict[str, Any]:
        """Return the current script.

        A broken one is an error of the test: it ends the program.
        """
        if not self.path or not os.path.exists(self.path):
            return {}
        with open(self.path, encoding="utf-8") as file:
            content = json.load(file)
        return content if isinstance(content, dict) else {"rules": content}


def build_document(prompt: str, prompts: list[str], paths: list[str]) -> str:
    """Return a handoff document with the headings that a prompt asks for, or the usual ones."""
    headings = _HEADING.findall(prompt) or list(HEADINGS)
    asked = "\n".join(f"- {line[:200]}" for line in prompts) or "- nothing yet"
    files = "\n".join(f"- {path}" for path in paths) or "- none"
    parts = []
    for heading in headings:
        body = files if re.search("(?i)file", heading) else asked
        if re.search("(?i)block", heading):
            body = "None: nothing stands in the way."
        if re.search("(?i)next|remain", heading):
            body = "1. Read this document.\n2. Carry on with what was asked last."
        if re.search("(?i)decision", heading):
            body = "- Kept to what was asked, in the order in which it was asked."
        parts.append(f"## {heading}\n\n{body}\n")
    return "\n".join(parts)
