"""Why the last turn of a thread failed, in the words of its program.

Sentences and names: Claude Code 2.1.332, Codex 0.171, Gemini CLI 0.61, pi 1.5.2, opencode, and the
providers that they show as they are. Whatever is not listed is an error of the kind `other`.
"""

import re
from collections.abc import Iterable

from tasuki.harness.reading.usage_limits import MOST_CHARACTERS, find_limit, get_code, split_body
from tasuki.model import Entry, FailureKind, TurnFailure
from tasuki.patterns import compile_pattern
from tasuki.text_safety import shorten_to_line

_CODES: dict[str, FailureKind] = {
    **dict.fromkeys(
        (
            "authentication_failed", "oauth_org_not_allowed", "account_on_hold", "verification_required",
            "cloud_credential_error", "authentication_error", "unauthorized", "invalid_api_key", "ProviderAuthError",
        ),
        "login",
    ),
    **dict.fromkeys(
        ("context_window_exceeded", "context_length_exceeded", "prompt_too_long", "ContextOverflowError"), "context"
    ),
}  # fmt: skip
"""What programs and providers call such an error."""
_SENTENCES: dict[FailureKind, re.Pattern[str]] = {
    "context": compile_pattern(
        r"\bprompt is too long\b|\bcontext limit reached\b|\bran out of room in the model['’]s context window"
        r"|\bexceeds? (?:the |this )?(?:model['’]s |available )?(?:maximum )?(?:context (?:window|limit|length|size)|number of tokens allowed)"
        r"|\bexceeds the maximum number of tokens allowed\b|\bmaximum context length is \d",
        re.IGNORECASE,
    ),
    "login": compile_pattern(
        r"\bPlease run /login\b|\bFailed to authenticate\b|\bNot logged in\b|\bInvalid API key\b|\bIncorrect API key provided\b"
        r"|\bOAuth (?:token|access) (?:has expired|revoked|has been revoked)|\bAPI key not valid\b"
        r"|\baccess token could not be refreshed\b|\bunexpected status 401\b",
        re.IGNORECASE,
    ),
}


class FailureRecord:
    """The last error of a thread while it is read; it counts only where no answer came after it."""

    def __init__(self) -> None:
        self._error: tuple[str, str | float, str, object] | None = None
        self._after = 0

    def note_error(
        self, text: str, at: str | float, after: int, *, code: str = "", resets_at: object = None
    ) -> None:
        """Note an error that came after so many entries, as `find_failure` takes it."""
        self._error, self._after = (text, at, code, resets_at), after

    def choose(self, entries: Iterable[Entry]) -> TurnFailure | None:
        """Return the error with which a thread of these entries ends."""
        if self._error is None or any(_is_answer(e) for e in entries if e.ref > self._after):
            return None
        text, at, code, resets_at = self._error
        return find_failure(text, at, code=code, resets_at=resets_at)


def _is_answer(entry: Entry) -> bool:
    return entry.kind == "assistant" or (entry.kind == "tool" and entry.origin != "command")


def find_failure(
    text: str, at: str | float, *, code: str = "", resets_at: object = None
) -> TurnFailure | None:
    """Return the error that a program reports; None where it says nothing. As `find_limit`."""
    if limit := find_limit(text, at, code=code, resets_at=resets_at):
        return limit
    body, sentence = split_body(text, code)
    named = get_code(body, _CODES) or code
    if not (line := shorten_to_line(sentence, MOST_CHARACTERS) or code):
        return None
    said = [kind for kind, pattern in _SENTENCES.items() if pattern.search(sentence)]
    return TurnFailure(said[0] if said else _CODES.get(named, "other"), line)
