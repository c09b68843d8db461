"""The ACP proxy before the protocol's own SDK as the client, which checks every message it gets."""

from collections.abc import Callable
from typing import Any

import acp
from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp_client import HELLO, WRITES, Setting, outcome, setting
from fakes.acp_agent import AcpRule, AcpStep

__all__ = ["setting"]


class Client(acp.Client):
    """Keeps what it is told, and allows everything."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.told.append((session_id, update))

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **kwargs: Any
    ) -> Any:
        return {"outcome": {"outcome": "selected", "optionId": options[0].option_id}}

    def text(self) -> str:
        """What the agent said."""
        said = (u for _, u in self.told if u.session_update == "agent_message_chunk")
        return "".join(u.content.text for u in said)


async def test_the_sdk_as_the_client(setting: Setting) -> None:
    """What the proxy says of its own is valid: commands, notes, answers; the SDK drops nothing."""
    ask = AcpRule("may I", (AcpStep(ask=("allow_once",)), AcpStep(say="{got}")))
    command = setting.proxied(WRITES, ask)
    client = Client()
    make: Callable[..., Any] = spawn_agent_process
    async with make(
        client, *command, env=setting.env, cwd=setting.folder, transport_kwargs={"stderr": None}
    ) as (connection, _):
        await connection.initialize(protocol_version=PROTOCOL_VERSION)
        session = (await connection.new_session(cwd="/tmp", mcp_servers=[])).session_id

        async def prompt(text: str) -> Any:
            return await connection.prompt(session_id=session, prompt=[text_block(text)])

        await prompt(HELLO)
        ended = await prompt("/handoff finish it")
        await prompt("go on, may I")

    commands = [u for _, u in client.told if u.session_update == "available_commands_update"]
    assert ended.stop_reason == "end_turn"
    assert outcome({"_meta": ended.field_meta}) == "started"
    assert commands[-1].available_commands[-1].name == "handoff"
    assert commands[-1].available_commands[-1].input.root.hint == "[focus instructions]"
    assert "New session started with handoff context" in client.text()
    assert "id-allow_once" in client.text()
    assert {session_id for session_id, _ in client.told} == {session}
    assert setting.states() == ["delivered"]
