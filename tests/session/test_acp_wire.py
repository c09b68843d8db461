"""Lines of JSON-RPC: cut, read, and changed in one place alone."""

import json

import pytest

from tasuki.session.acp.wire import (
    HEAD_BYTES,
    LineSplitter,
    RpcMessage,
    add_handoff_command,
    find_value,
    insert_block,
    is_command,
    parse_focus,
    parse_message,
    read_head,
    replace_session,
)  # fmt: skip


def message(raw: bytes) -> RpcMessage:
    """The message of a line."""
    found = parse_message(raw)
    assert found
    return found


@pytest.mark.parametrize(
    "raw",
    [
        b'{"jsonrpc":"2.0","method":"m","params":{"sessionId":"A","x":1.0}}\n',
        b'{ "params" : { "x" : [ "}", {"sessionId":"A"} , 1e5 ] , "sessionId" :\t"A" } , "method":"m" }\r\n',
        b'{"x":{"sessionId":"A"},"params":{"_meta":{"sessionId":"A","q":"\\"sessionId\\":\\"A\\""},"sessionId":"A"}}',
        b'{"params":{"a\\\\":"\\\\","n":123456789012345678901234567890,"sessionId":"A","z":"\\ud83d"}}\n',
    ],
)  # fmt: skip
def test_the_session_alone_is_changed(raw: bytes) -> None:
    """Blanks, order, numbers and everything else stay as they were written."""
    changed = replace_session(message(raw), 'B"\u2028')

    place = find_value(raw, "params", "sessionId")
    assert place
    assert raw[slice(*place)] == b'"A"'
    new = json.dumps('B"\u2028', ensure_ascii=False).encode()
    assert changed == raw[: place[0]] + new + raw[place[1] :]


def test_an_unusual_spelling_of_the_key() -> None:
    """A key written with escapes, or twice, is understood as the parser understands it."""
    escaped = b'{"params":{"session\\u0049d":"A","x":2}}\n'
    twice = b'{"params":{"sessionId":"first","sessionId":"A"}}\n'

    assert json.loads(replace_session(message(escaped), "B")) == {
        "params": {"sessionId": "B", "x": 2}
    }
    assert json.loads(replace_session(message(twice), "B"))["params"]["sessionId"] == "B"


@pytest.mark.parametrize("prompt", [b"[]", b'[ {"type":"text","text":"x"} ]', b'[{"type":"image","data":"AA=="}]'])  # fmt: skip
def test_a_block_more(prompt: bytes) -> None:
    """A block is put in front of the others, which stay to the letter."""
    raw = b'{"id":1,"params":{"prompt":' + prompt + b',"sessionId":"A"}}\n'

    changed = insert_block(message(raw), "B", {"type": "text", "text": "doc"})

    first = {"type": "text", "text": "doc"}
    assert json.loads(changed)["params"]["prompt"] == [first, *json.loads(prompt)]
    assert prompt[1:] in changed


@pytest.mark.parametrize("raw", [b"", b"\n", b"[]\n", b'[{"id":1}]\n', b"nonsense\n", b'"text"\n', b"{\n", b"\xff\xfe{}\n", b"[" * 100_000])  # fmt: skip
def test_no_message(raw: bytes) -> None:
    """Batches, blanks and broken lines are no messages."""
    assert parse_message(raw) is None


@pytest.mark.parametrize("raw", [b"", b"{", b'{"params"', b'{"params":{"sessionId":"A', b'{"params":[', b'{"params":{"a":1', b'{"a":{"b":"'])  # fmt: skip
def test_a_place_in_a_line_that_is_cut_off(raw: bytes) -> None:
    """What is not whole is not found."""
    assert find_value(raw, "params", "sessionId") is None


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"x":"aaaa', (7, "m")),
        (b'{"method":"m","params":{"x":"aaaa', (None, "m")),
        (b'{"id":"a","result":"aaaa', ("a", "")),
        (b'{"params":"aaaa', (None, "")),
    ],
)
def test_the_beginning_of_a_line(raw: bytes, expected: tuple[object, str]) -> None:
    """Id and method are known where they stand in front."""
    assert read_head(raw) == expected


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines(size: int) -> None:
    """Lines come whole, however they arrive; what the end cuts off comes as it is."""
    whole, taken = b'{"a":1}\n\r\n\n{"b":"\xc3\xbc"}\r\nrest', []
    lines = LineSplitter(taken.append, lambda raw: pytest.fail("too long"))

    for at in range(0, len(whole), size):
        lines.feed(whole[at : at + size])
    lines.finish()
    lines.finish()

    assert taken == whole.splitlines(keepends=True)


@pytest.mark.parametrize("size", [1, 5, 100, 1_000_000])
def test_a_line_that_is_too_long(size: int) -> None:
    """It is dropped, its beginning is told, and the next one comes."""
    whole = b"ok\n" + b"x" * 200_000 + b"\nfine\n"
    taken, long = [], []
    lines = LineSplitter(taken.append, long.append, limit=100_000)

    for at in range(0, len(whole), size):
        lines.feed(whole[at : at + size])

    assert taken == [b"ok\n", b"fine\n"]
    assert long == [b"x" * HEAD_BYTES]


@pytest.mark.parametrize(
    ("text", "focus"),
    [("/handoff", ""), (" /handoff ", ""), ("/handoff a b ", "a b"), ("/handoff\na\nb", "a\nb"),
     ("/handoffs", None), ("handoff", None), ("", None), ("x /handoff", None), ("/handoff: x", None)],
)  # fmt: skip
def test_focus(text: str, focus: str | None) -> None:
    """What is behind the command is the focus."""
    assert parse_focus(text) == focus


@pytest.mark.parametrize(
    ("text", "expected"),
    [("/compact", True), (" /a:b-c.d x", True), ("/usr/bin is full", False), ("a /b", False), ("/", False), ("// x", False)],
)  # fmt: skip
def test_slash_commands(text: str, expected: bool) -> None:
    """A path at the beginning is no command."""
    assert is_command(text) is expected


def test_the_agents_own_handoff_gives_way() -> None:
    """There is one `/handoff`, the last of the commands; version 2 wants the type of its input."""
    old = [{"name": "handoff", "description": "own"}, {"name": "x"}]

    first, second = add_handoff_command(old, 1), add_handoff_command(old, 2)

    assert [c["name"] for c in first] == ["x", "handoff"]
    assert first[-1]["input"] == {"hint": "[focus instructions]"}
    assert second[-1]["input"] == {"type": "text", "hint": "[focus instructions]"}
