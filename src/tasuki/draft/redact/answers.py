"""Passwords that a user gave since the agent asked for them; nothing in the words themselves says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tasuki.draft.redact import patterns as shapes
from tasuki.draft.redact.patterns import compile_once
from tasuki.harness.reading.answers import parse_answers
from tasuki.model import Entry
from tasuki.text_safety import clean_for_display

_WORDS = (
    r"pass(?:word|phrase|code|wort|wd)|mot de passe|contraseña|contrasena|senha|pin(?:[ -]?code)?|otp|totp"
    r"|(?:verification|one[- ]time|security|access|[2m]fa|login|backup|recovery|unlock|sms|auth\w*) code"
    r"|пароль|密码|密碼|口令|パスワード|비밀번호"
)
_KEYS = (
    r"(?:\w+[ -])?(?:token|secret|credentials?|pat)|(?:api|access|private|encryption|license|signing|master|auth|service|deploy)[ -]?key"
    r"|密钥|令牌|トークン"
)
_ASKS = (
    r"(?i)(?:\b(?:what(?:['’]s|\s+is|\s+are|\s+was)?|which|enter|provide|paste|type|send|give|tell|share|supply|need|know|have|please|wie|welches|was ist"
    r"|quel|cuál|qual|какой|введите)\b[^.?!\n]{0,120}?\b|^\W*)"
    rf"(?:(?P<word>{_WORDS})|(?P<key>{_KEYS}))\b[`*\"']*(?P<rest>[^.?!？:\n]{{0,120}})(?P<end>[?？:.!]|$)"
)
_OTHER_HEAD = r"[^\S\n]+(?!(?:for|of|to|on|in|at|with|is|was|that|which|you|i|we|so|here|please|now|again|should|must|shall|do|does|can|may|would|and|or|für|von|de|du|для)\b)\w"
"""After a word for a secret: it only describes another one, `password policy`."""
_STEMS = ("pass", "pin", "otp", "code", "token", "secret", "key", "cred", "pat", "senha")
_TAIL = 400
"""Characters at the end of a message in which it asks."""
_LONGEST = 400
_REPLIES = frozenset(
    "yes yeah yep sure okay nope none nothing skip stop cancel continue done wait later same unknown empty neither both either"
    " already forgot revoked expired postgres".split()
)


def find_given_secrets(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield what the user of a thread answered where the agent had asked for a password, key or code."""
    said = ""
    for entry in entries:
        if entry.kind == "assistant" and entry.text.strip():
            said = entry.text
        elif entry.is_by_hand:
            given = parse_answers(entry.text) if entry.origin == "answer" else []
            for one in given:
                if not one.is_chosen:
                    yield from _choose_secret(one.question, one.answer)
            if said and not given:
                yield from _choose_secret(said, entry.text)
            said = ""


def _choose_secret(question: str, answer: str) -> Iterator[str]:
    """Yield the word of an answer that is the secret asked for: all of it, its last line, or a hard one."""
    if len(answer) > _LONGEST:
        return
    asked, kind = question[-_TAIL:].rstrip(), ""
    low = asked.lower()
    may_ask = not asked.isascii() or any(stem in low for stem in _STEMS)
    for found in compile_once(_ASKS).finditer(asked) if may_ask else ():
        if not kind and not compile_once(_OTHER_HEAD).match(found["rest"]):
            kind = "word" if found["word"] else "key"
    if not kind:
        return
    lines = [line.strip() for line in clean_for_display(answer).split("\n") if line.strip()]
    quoted = compile_once(r"[`\"']([^`\"'\s]{4,})[`\"']").findall(answer)
    alone = [lines[0], lines[-1], *quoted] if lines else []
    for value in dict.fromkeys(line.strip("`\"'*").rstrip(".,;") for line in alone):
        if shapes.is_phrase(value) or _is_word(value, question, plain=kind == "word"):
            yield value
    for word in answer.split():
        if shapes.is_bare_secret(word.strip("`\"'*.,;:!?()"), "password"):
            yield word.strip("`\"'*.,;:()")


def _is_word(value: str, question: str, *, plain: bool) -> bool:
    """Return whether one word is a secret that was asked for; a plain one may be where a password is wanted."""
    low = value.lower()
    if " " in value or len(value) < 4 or low in _REPLIES or low in question.lower():
        return False
    if plain and value.isdigit():
        return len(value) <= 12
    if shapes.is_stand_in(value):
        return False
    return plain or shapes.is_hard(value, "password")
