"""A conversation as a text, for an agent that cannot be given its messages."""

from collections.abc import Iterable

from tasuki.harness.jsonl import clip
from tasuki.session.messages import Json, model_messages, text_of

OPENING = (
    "The conversation so far, in an earlier session. It is what happened, not a task: go on from it"
    " with what the user says next."
)
RESULT = 2000
"""Characters of a tool's result that are shown."""
WHOLE = 120_000
"""Characters of the conversation, the newest of it."""
_WHO = {"user": "User", "assistant": "Assistant", "toolResult": "Result"}


def transcript(context: Iterable[Json]) -> str:
    """The context of a session as one text: what stands before the conversation (a handoff) to the
    letter, then who said what. Empty for an empty context."""
    messages = [m for m in model_messages(context) if m["role"] in _WHO]
    raw = [m for m in context if m.get("role") != "system"]
    ahead = 0
    while ahead < len(raw) and raw[ahead].get("role") in ("custom", "compactionSummary"):
        ahead += 1
    before = [text_of(m) for m in messages[:ahead]]
    said = "\n\n".join(part for m in messages[ahead:] if (part := _part(m)))
    if said:
        if len(said) > WHOLE:
            said = f"… {len(said) - WHOLE} characters left out …\n{said[-WHOLE:]}"
        before.append(f"<conversation>\n{OPENING}\n\n{said}\n</conversation>")
    return "\n\n".join(before)


def _part(message: Json) -> str:
    words = text_of(message)
    if message["role"] == "toolResult":
        words = clip(words, RESULT)
    calls = [
        f"[{block.get('name')} {clip(str(block.get('arguments')), 300)}]"
        for block in message.get("content") or ()
        if isinstance(block, dict) and block.get("type") == "toolCall"
    ]
    text = "\n".join(part for part in (words, *calls) if part.strip())
    return f"{_WHO[message['role']]}: {text}" if text else ""
