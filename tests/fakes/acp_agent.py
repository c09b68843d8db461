"""A scripted ACP agent, run as a child: `python tests/fake.py acp_agent SCRIPT`.

ACP is the Agent Client Protocol. SCRIPT is a JSON file that holds an `AcpScript`. The agent
speaks version 1 or 2 on its standard streams, uses no model, and keeps its sessions where
the script says, so that another process can load them. A prompt is answered by the first
rule whose `match` is found in its text, else by `[SESSION mode=MODE n=PROMPTS]`.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from fakes.acp_script import AcpRule, AcpScript, AcpStep, Json
from tasuki.harness.pi_v3 import format as pi_format

__all__ = ["AcpRule", "AcpScript", "AcpStep", "ScriptedAcpAgent"]


class ScriptedAcpSession:
    """One session: its conversation and its mode."""

    def __init__(self, id: str, cwd: str, history: Sequence[tuple[str, str]] = ()) -> None:
        self.id, self.cwd = id, cwd
        self.history = list(history)
        self.mode = "default"
        self.cancelled = asyncio.Event()


class ScriptedAcpAgent:
    """The agent; `run` serves until its input ends."""

    def __init__(self, script: AcpScript) -> None:
        self.script = script
        self.version = script.version
        self.sessions: dict[str, ScriptedAcpSession] = {}
        self.opened = 0
        self.answers: dict[str, asyncio.Future[Json]] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.log = Path(script.log).open("ab") if script.log else None  # noqa: SIM115

    async def run(self) -> int:
        """Serve requests and return the exit status."""
        if self.script.child:
            await self._start_child(Path(self.script.child))
        reader = asyncio.StreamReader(limit=1 << 30)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while raw := await reader.readline():
            if self.log:
                self.log.write(raw)
                self.log.flush()
            with suppress(ValueError):
                message = json.loads(raw)
                if isinstance(message, dict):
                    self._handle_message(message)
        if self.script.linger:
            await asyncio.sleep(600)
        return self.script.farewell

    async def _start_child(self, pid_file: Path) -> None:
        child = await asyncio.create_subprocess_exec(
            "sleep", "600", stdin=asyncio.subprocess.DEVNULL
        )
        pid_file.write_text(str(child.pid))

    def _handle_message(self, message: Json) -> None:
        if "method" not in message:
            answer = self.answers.pop(str(message.get("id")), None)
            if answer and not answer.done():
                answer.set_result(message)
            return
        task = asyncio.get_running_loop().create_task(self._answer_request(message))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _answer_request(self, message: Json) -> None:
        name = str(message["method"]).replace("/", "_").replace("$", "")
        method = getattr(self, f"_on_{name}", None)
        params = message.get("params") or {}
        if method is None:
            if "id" in message:
                self.send_error(message["id"], f"Method not found: {message['method']}", -32601)
            return
        try:
            result = await method(params, message)
        except AcpRefusal as error:
            self.send_error(message.get("id"), str(error))
            return
        except (KeyError, TypeError, AttributeError):
            self.send_error(message.get("id"), "Invalid params", -32602)
            return
        if "id" in message and result is not None:
            self.send({"id": message["id"], "result": result})
            self._send_commands_after(message["method"], params, result)

    # -- sending ---------------------------------------------------------------------------

    def send(self, message: Json) -> None:
        """Send a message."""
        self.send_line(json.dumps({"jsonrpc": "2.0", **message}))

    def send_line(self, line: str) -> None:
        """Send a line with any content."""
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def send_error(self, id: object, text: str, code: int = -32603) -> None:
        """Answer with an error."""
        self.send({"id": id, "error": {"code": code, "message": text}})

    def send_update(self, session: str, kind: str, /, **fields: object) -> None:
        """Send a `session/update`."""
        params = {"sessionId": session, "update": {"sessionUpdate": kind, **fields}}
        self.send({"method": "session/update", "params": params})

    def send_chunk(self, session: str, kind: str, text: str) -> None:
        """Send a chunk of a message."""
        content = {"type": "text", "text": text}
        self.send_update(
            session, kind, messageId=f"m-{kind[:4]}", content=content, _meta={"kept": True}
        )

    def send_commands(self, session: str) -> None:
        """Send the list of commands."""
        commands = [{"name": name, "description": name} for name in self.script.commands]
        self.send_update(session, "available_commands_update", availableCommands=commands)

    async def send_request(self, method: str, params: Json) -> Json:
        """Send a request to the client and return its answer."""
        id = f"agent-{len(self.answers)}-{os.urandom(3).hex()}"
        self.answers[id] = asyncio.get_running_loop().create_future()
        self.send({"id": id, "method": method, "params": params})
        return await self.answers[id]

    # -- requests --------------------------------------------------------------------------

    async def _on_initialize(self, params: Json, message: Json) -> Json:
        self.version = min(self.script.version, params.get("protocolVersion", 1))
        if self.version >= 2:
            return {
                "protocolVersion": 2,
                "info": {"name": "scripted", "version": "0"},
                "capabilities": {"session": self.script.capabilities, "future": {"x": 1}},
            }
        return {
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": bool(self.script.keep),
                "sessionCapabilities": self.script.capabilities,
                "future": {"x": 1},
            },
        }

    async def _on_session_new(self, params: Json, message: Json) -> Json:
        if self.opened >= self.script.sessions:
            raise AcpRefusal("Authentication required")
        self.opened = max(self.opened, len(self._read_saved())) + 1
        id = self.script.ids.format(n=self.opened, uuid=pi_format.create_id())
        if self.script.early:
            self.send_commands(id)
        await asyncio.sleep(self.script.slow)
        self.sessions[id] = ScriptedAcpSession(id, str(params.get("cwd") or ""))
        return {"sessionId": id, "models": {"currentModelId": "scripted"}}

    async def _on_session_load(self, params: Json, message: Json) -> Json:
        session = self._load_session(params)
        if self.script.early:
            self.send_commands(session.id)
        for role, text in session.history:
            kind = "user_message_chunk" if role == "user" else "agent_message_chunk"
            self.send_chunk(session.id, kind, text)
        return {}

    async def _on_session_resume(self, params: Json, message: Json) -> Json:
        if params.get("replayFrom"):
            return await self._on_session_load(params, message)
        self._load_session(params)
        return {}

    async def _on_session_fork(self, params: Json, message: Json) -> Json:
        origin = self._get_session(params)
        made = await self._on_session_new({"cwd": origin.cwd}, message)
        self.sessions[made["sessionId"]].history = list(origin.history)
        return made

    async def _on_session_list(self, params: Json, message: Json) -> Json:
        kept = [*self._read_saved(), *self.sessions]
        return {"sessions": [{"sessionId": id, "cwd": "/", "_meta": {"kept": True}} for id in dict.fromkeys(kept)]}  # fmt: skip

    async def _on_session_close(self, params: Json, message: Json) -> Json:
        self.sessions.pop(params["sessionId"], None)
        return {}

    async def _on_session_delete(self, params: Json, message: Json) -> Json:
        self.sessions.pop(params["sessionId"], None)
        kept = self._read_saved()
        kept.pop(params["sessionId"], None)
        if self.script.keep:
            Path(self.script.keep).write_text(json.dumps(kept))
        return {}

    async def _on_session_set_mode(self, params: Json, message: Json) -> Json:
        self._get_session(params).mode = params["modeId"]
        return {}

    async def _on_session_set_config_option(self, params: Json, message: Json) -> Json:
        if params.get("value") == "refused":
            raise AcpRefusal("No such value")
        return {"configOptions": []}

    async def _on_session_set_model(self, params: Json, message: Json) -> Json:
        return {}

    async def _on_session_cancel(self, params: Json, message: Json) -> Json | None:
        self._get_session(params).cancelled.set()
        return {} if "id" in message else None

    async def _on_session_prompt(self, params: Json, message: Json) -> Json | None:
        session = self._get_session(params)
        said = "\n".join(block.get("text", "") for block in params["prompt"])
        session.history.append(("user", said))
        session.cancelled = asyncio.Event()
        if self.version >= 2:
            self.send({"id": message["id"], "result": {}})
            self.send_update(session.id, "user_message", messageId="u", content=params["prompt"])
            self.send_update(session.id, "state_update", state="running")
        self._record_message(session, "user", said)
        try:
            stop = await self._run_turn(session, said)
        except AcpRefusal as error:
            if self.version < 2:
                raise
            self.send_chunk(session.id, "agent_message_chunk", str(error))
            stop = "refusal"
        self._save_session(session)
        if self.version < 2:
            return {"stopReason": stop}
        self.send_update(session.id, "state_update", state="idle", stopReason=stop)
        return None

    # -- a turn ----------------------------------------------------------------------------

    async def _run_turn(self, session: ScriptedAcpSession, prompt: str) -> str:
        rule = next((r for r in self.script.rules if re.search(r.match, prompt, re.DOTALL)), None)
        default = AcpStep(say="[{session} mode={mode} n={n}]")
        answer: list[str] = []
        got = ""
        for step in rule.steps if rule else (default,):
            got = await self._run_step(session, step, answer, got)
            if step.stop:
                return step.stop
            if session.cancelled.is_set():
                return "cancelled"
        whole = "".join(answer)
        session.history.append(("assistant", whole))
        self._record_message(session, "assistant", whole)
        return "end_turn"

    async def _run_step(
        self, session: ScriptedAcpSession, step: AcpStep, answer: list[str], outcome: str
    ) -> str:
        if step.exit is not None:
            sys.stdout.flush()
            os._exit(step.exit)
        if step.error:
            raise AcpRefusal(step.error)
        if step.say:
            answer += self._send_words(session, step, outcome)
        self._send_step(session.id, step)
        if step.ask:
            return await self._request_permission(session.id, step.ask)
        if step.request:
            answered = await self.send_request(
                step.request, {"sessionId": session.id, **step.params}
            )
            return "refused" if "error" in answered else "given"
        if step.wait:
            if step.deaf:
                await asyncio.sleep(step.wait)
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(session.cancelled.wait(), step.wait)
        return outcome

    def _send_words(self, session: ScriptedAcpSession, step: AcpStep, got: str) -> list[str]:
        asked = sum(role == "user" for role, _ in session.history)
        text = step.say.format(session=session.id, mode=session.mode, n=asked, got=got)
        for _ in range(step.repeat):
            self.send_chunk(session.id, "agent_message_chunk", text)
        return [text] * step.repeat

    def _send_step(self, session: str, step: AcpStep) -> None:
        if step.think:
            self.send_chunk(session, "agent_thought_chunk", step.think)
        if step.tool is not None:
            self._send_tool_call(session, step.tool)
        if step.update is not None:
            params = {"sessionId": session, "update": step.update}
            self.send({"method": "session/update", "params": params})
        if step.line:
            self.send_line(step.line.replace("{session}", session))
        if step.notify:
            self.send({"method": step.notify, "params": {"sessionId": session, **step.params}})

    def _send_tool_call(self, session: str, call: Json) -> None:
        first = {"toolCallId": f"call-{os.urandom(3).hex()}", "status": "in_progress", **call}
        self.send_update(session, "tool_call" if self.version < 2 else "tool_call_update", **first)
        done = {"toolCallId": first["toolCallId"], "status": "completed"}
        self.send_update(session, "tool_call_update", **done)

    async def _request_permission(self, session: str, kinds: Sequence[str]) -> str:
        options = [{"optionId": f"id-{kind}", "name": kind, "kind": kind} for kind in kinds]
        call = {"toolCallId": "asked", "title": "rm -rf build"}
        asked = {"sessionId": session, "title": "May I?", "toolCall": call, "options": options}
        answer = await self.send_request("session/request_permission", asked)
        outcome = answer.get("result", {}).get("outcome", {})
        return str(outcome.get("optionId") or outcome.get("outcome"))

    # -- saved sessions --------------------------------------------------------------------

    def _get_session(self, params: Json) -> ScriptedAcpSession:
        session = self.sessions.get(params.get("sessionId", ""))
        if session is None:
            raise AcpRefusal(f"No session {params.get('sessionId')!r} is open")
        return session

    def _load_session(self, params: Json) -> ScriptedAcpSession:
        id = params["sessionId"]
        if id not in self.sessions:
            kept = self._read_saved().get(id)
            if kept is None:
                raise AcpRefusal(f"No session {id!r} is kept")
            self.sessions[id] = ScriptedAcpSession(id, params.get("cwd", ""), kept)
        return self.sessions[id]

    def _read_saved(self) -> dict[str, list[tuple[str, str]]]:
        if not self.script.keep or not Path(self.script.keep).exists():
            return {}
        found: dict[str, list[tuple[str, str]]] = json.loads(Path(self.script.keep).read_text())
        return found

    def _save_session(self, session: ScriptedAcpSession) -> None:
        if self.script.keep:
            kept = {**self._read_saved(), session.id: session.history}
            Path(self.script.keep).write_text(json.dumps(kept))

    def _record_message(self, session: ScriptedAcpSession, role: str, text: str) -> None:
        """Add a message to the session's thread, in pi's format."""
        if not self.script.threads:
            return
        path = Path(self.script.threads) / f"2026-01-01T00-00-00-000Z_{session.id}.jsonl"
        moment, number = pi_format.format_now(), len(session.history)
        records: list[Json] = []
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            records.append(dict(pi_format.build_header(session.id, session.cwd, moment)))
        entry = {"type": "message", "id": f"{number:08x}", "timestamp": moment}
        parent = None if records else f"{number - 1:08x}"
        content = [{"type": "text", "text": text}]
        records.append({**entry, "parentId": parent, "message": {"role": role, "content": content}})
        with path.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)

    def _send_commands_after(self, method: str, params: Json, result: Json) -> None:
        if method in ("session/new", "session/load", "session/resume", "session/fork"):
            self.send_commands(str(result.get("sessionId") or params.get("sessionId")))


class AcpRefusal(Exception):
    """The agent answers a request with an error."""


def main() -> None:
    """Run the agent with the script that the first argument names."""
    script = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=AcpScript)
    code = asyncio.run(ScriptedAcpAgent(script).run())
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
