"""What the ACP proxy keeps of a conversation, for agents whose own threads cannot be read."""

from typing import Any

from tasuki.session.acp.conversation import AcpConversation
from tasuki.session.pi_store.messages import extract_text


def said(kind: str, text: str, message: str = "m1") -> dict[str, Any]:
    """An update by which the agent says something."""
    return {"sessionUpdate": kind, "messageId": message, "content": {"type": "text", "text": text}}


def piece(text: str) -> dict[str, Any]:
    """A piece of a tool's output."""
    content = {"type": "content", "content": {"type": "text", "text": text}}
    return {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "t1", "content": content}


def tool(kind: str, **fields: Any) -> dict[str, Any]:
    """An update about a tool call."""
    return {"sessionUpdate": kind, "toolCallId": "t1", **fields}


def kept(*updates: dict[str, Any]) -> list[tuple[str, str]]:
    """Role and text of every message that is kept of a turn."""
    conversation = AcpConversation()
    for update in updates:
        conversation.record_update(update)
    conversation.end_turn()
    return [(m["role"], extract_text(m)) for m in conversation.messages]


def test_a_message_that_is_told_whole_takes_the_place_of_its_pieces() -> None:
    """It is kept once, and so is another one beside it."""
    pieces = [said("agent_message_chunk", text) for text in ("Hel", "lo")]

    assert kept(*pieces, said("agent_message", "Hello")) == [("assistant", "Hello")]
    other = said("agent_message_chunk", "And more.", "m2")
    assert kept(*pieces, said("agent_message", "Hello"), other) == [
        ("assistant", "Hello\nAnd more.")
    ]


def test_the_pieces_of_an_output_are_kept_whole_and_in_order() -> None:
    """As if the tool had told its output at once, with what is said around them in its place."""
    before, after = (said("agent_message_chunk", t, t) for t in ("I look.", "Done."))
    begun, done = tool("tool_call", title="ls"), tool("tool_call_update", status="completed")
    pieces = [piece(str(n)) for n in range(3)]

    assert kept(before, begun, *pieces, done, after) == [
        ("assistant", "I look."), ("toolResult", "0\n1\n2"), ("assistant", "Done."),
    ]  # fmt: skip
    assert kept(before, begun, pieces[0], after, *pieces[1:], done) == kept(
        before, begun, after, *pieces, done
    )


def test_a_piece_of_an_unknown_tool_or_behind_odd_content_is_kept() -> None:
    """An agent may tell the call later, or tell of its content what is no list."""
    done = tool("tool_call_update", status="completed")

    assert ("toolResult", "a") in kept(piece("a"), done)
    assert ("toolResult", "b") in kept(tool("tool_call", content="odd"), piece("b"), done)
