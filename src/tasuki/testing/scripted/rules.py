"""What the scripted harness does in a turn: a rule for each prompt, from a file that tests write.

    {"window": 200000, "start_delay": 0.0, "rules": [
        {"match": "REGULAR EXPRESSION", "do": [["say", "hello {name}"], "no_stop"],
         "times": 1, "ignore_enter": 1}]}

The first rule whose `match` is found in the prompt counts; groups with a name, and prompt, session,
pid and cwd, stand in braces in the words of its actions. `times`: only so often. `ignore_enter`:
so often Enter is not noticed where such a text stands in the input. Where no rule matches, the
default ones do: a handoff document is written where it is asked for, an acknowledgement given.
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


class Rule:
    """A rule, and how its expression matched a prompt."""

    def __init__(self, rule: dict[str, Any], found: "re.Match[str]") -> None:
        self.rule = rule
        self.actions: list[Any] = rule.get("do") or []
        self.fields = {name: value or "" for name, value in found.groupdict().items()}


class Script:
    """The script file, which may change at any time; without one the default rules alone."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.done: dict[str, int] = {}

    def setting(self, name: str, default: float) -> float:
        """A number at the top of the script."""
        value = self._content().get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def rule(self, prompt: str) -> Rule:
        """The rule for a prompt; counts that it was used."""
        rule = self._find(prompt)
        self._count("do", rule.rule)
        return rule

    def ignores_enter(self, text: str) -> bool:
        """Whether Enter is not noticed this time."""
        rule = self._find(text).rule
        wanted = int(rule.get("ignore_enter") or 0)
        return wanted > 0 and self._count("enter", rule) <= wanted

    def _find(self, prompt: str) -> Rule:
        for rule in (*self._content().get("rules", ()), *DEFAULTS):
            most = rule.get("times")
            used = self.done.get(f"do {rule.get('match', '')}", 0)
            if most is not None and used >= most:
                continue
            if found := re.search(rule.get("match", ""), prompt):
                return Rule(rule, found)
        raise AssertionError("the last rule matches everything")

    def _count(self, what: str, rule: dict[str, Any]) -> int:
        key = f"{what} {rule.get('match', '')}"
        self.done[key] = self.done.get(key, 0) + 1
        return self.done[key]

    def _content(self) -> dict[str, Any]:
        """The script as it is now. A broken one is an error of the test: it ends the program."""
        if not self.path or not os.path.exists(self.path):
            return {}
        with open(self.path, encoding="utf-8") as file:
            content = json.load(file)
        return content if isinstance(content, dict) else {"rules": content}


def document(prompt: str, told: list[str], written: list[str]) -> str:
    """A handoff document with the headings that a prompt asks for, or the usual ones."""
    headings = _HEADING.findall(prompt) or list(HEADINGS)
    asked = "\n".join(f"- {line[:200]}" for line in told) or "- nothing yet"
    files = "\n".join(f"- {path}" for path in written) or "- none"
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
