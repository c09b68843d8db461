"""The operator's orders, as the host carries them out whose agents they concern.

Each may come from this host's own API, or from another host's by the engine, then with the id of
that order. After a crash an order of another host is carried out again: with the same id nothing is
started, typed or begun a second time.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
from msgspec.structs import replace

from tasuki.errors import AlreadyUnderWay, HandoffNotFound, NotPossible, ServerEnds
from tasuki.fleet.agents import lifecycle, limits
from tasuki.fleet.agents.agent_ends import AgentShutdown, check_gone
from tasuki.fleet.agents.lifecycle import StartRequest, check_folder, check_hooks
from tasuki.fleet.agents.personas import check_available
from tasuki.fleet.changes.pull_requests import PullRequest, PullRequests
from tasuki.fleet.changes.records import WorkChanges
from tasuki.fleet.changes.starts import find_document_time
from tasuki.fleet.changes.work import read_changes
from tasuki.fleet.delivery.answers import AgentAnswer, answer_question
from tasuki.fleet.delivery.messages import check_managed, press_key, send_message
from tasuki.fleet.delivery.prompt_delivery import PromptDelivery
from tasuki.fleet.delivery.terminals import KnownTerminal, TerminalReader, read_screen
from tasuki.fleet.delivery.typed_keys import KeyTypist, TypedKeys
from tasuki.fleet.exchange.gate import HostGate
from tasuki.fleet.exchange.requests import HostRequests
from tasuki.fleet.exchange.shared_files import delete_parcels, share_persona
from tasuki.fleet.handoff import commands, moves
from tasuki.fleet.handoff.engine import build_queue_name
from tasuki.fleet.handoff.forks import ForkRequest, begin_fork, check_fork
from tasuki.fleet.handoff.moves import MovePreview, MoveRequest
from tasuki.fleet.handoff.runner import StepRunner, record_order
from tasuki.fleet.store import queries
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.failures import ServerClosing
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetAgent, FleetHandoff
from tasuki.harness import registry as harnesses
from tasuki.launch.tmux.panes import TmuxPanes
from tasuki.text_safety import clean_text

HandoffOrder = Literal["retry", "cancel", "finish", "skip"]
_SETTLERS = {
    "cancel": commands.cancel_handoff, "finish": commands.finish_handoff,
    "skip": commands.skip_acknowledgement,
}  # fmt: skip


_SETTLED_STATES = {"cancel": "cancelled", "finish": "done", "skip": "done"}


class OrderedFleet(Protocol):
    """What orders need of the fleet of this host."""

    database: FleetDatabase
    data: Path
    root: Path
    host: str
    panes: TmuxPanes
    changes: ChangeFeed
    lifecycle: lifecycle.AgentLifecycle
    delivery: PromptDelivery
    shutdown: AgentShutdown
    requests: HostRequests
    gate: HostGate
    step_runner: StepRunner

    def pass_to_engine(self, handoff: FleetHandoff) -> None:
        """Pass a handoff that is recorded to the engine."""

    def note(self, kind: str, text: str, **details: Any) -> None:
        """Write a line into the log."""


class LocalOrders:
    """Carries out orders on this host. `carry_out` takes them by name, with JSON values."""

    def __init__(self, fleet: OrderedFleet) -> None:
        self.fleet = fleet
        self.database = fleet.database
        self.pull_requests = PullRequests()
        self._terminals = TerminalReader(fleet.panes)
        self._typist = KeyTypist(fleet.database, fleet.delivery)
        self._orders: Mapping[str, Callable[[str, dict[str, Any]], Any]] = {
            "start": self.start_agent, "adopt": self.adopt_agent, "send": self.send_text,
            "resume": self.resume_agent, "stop": self.stop_agent, "handoff": self.hand_off,
            "fork": self.fork_agent, "order": self.order_handoff, "undo_move": self.undo_move,
        }  # fmt: skip

    def carry_out(self, order_id: str, name: str, arguments: dict[str, Any]) -> Any:
        """Carry an order out; return its result, a JSON value. Raises TasukiError."""
        order = self._orders.get(name)
        if order is None:
            raise NotPossible(f"This host runs a tasuki that does not know {name!r}. Upgrade it.")
        return order(order_id, arguments)

    # -- agents ------------------------------------------------------------------------

    def start_agent(self, order_id: str, arguments: dict[str, Any]) -> int:
        """Start an agent; return its id.

        Raises PersonaNotFound, NotPossible, AlreadyUnderWay, HarnessMissing, LaunchFailed.
        """
        request = msgspec.convert(arguments["request"], StartRequest)
        request = replace(request, cwd=request.cwd or os.getcwd(), goal=clean_text(request.goal))
        name = request.harness or harnesses.DEFAULT
        if slug := request.persona:
            with self.database.read() as connection:
                known = queries.find_ordered_agent(connection, order_id) if order_id else None
                check_available(connection, slug, except_agent=known)
            share_persona(self.database, self.fleet.root, slug)
            self.fleet.lifecycle.read_skill(slug)  # fails early where it cannot be read
            name = request.harness or queries.load_persona(self.database, slug).harness
        check_folder(request.cwd)
        check_hooks(self.fleet.data, name, request.cwd)
        agent = self.fleet.lifecycle.create_agent(request, order_id)
        self.fleet.changes.notify([agent.id])
        return agent.id

    def adopt_agent(self, _order_id: str, arguments: dict[str, Any]) -> int:
        """Adopt an agent that is already running in a pane; return its id. Raises NotPossible."""
        if slug := arguments["persona"]:
            share_persona(self.database, self.fleet.root, slug)
        agent = lifecycle.adopt_agent(
            self.database, self.fleet.panes, self.fleet.host, pane=arguments["pane"],
            harness=arguments["harness"], persona=slug, session=arguments["session"],
            brief=arguments.get("brief", ""), goal=arguments.get("goal", ""),
        )  # fmt: skip
        self.fleet.changes.notify([agent.id])
        return agent.id

    def send_text(self, order_id: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Type a text to an agent as a prompt, once for each key. Raises NotPossible."""
        agent_id, key = arguments["agent_id"], arguments["key"] or order_id
        return send_message(self.database, self.fleet.delivery, agent_id, arguments["text"], key)

    def resume_agent(self, order_id: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Tell an agent whose usage limit has reset to go on, as `send_text`."""
        agent = queries.load_agent(self.database, arguments["agent_id"])
        limits.check_resumable(agent, force=arguments["force"])
        return self.send_text(order_id, {**arguments, "text": limits.GO_ON})

    def stop_agent(self, _order_id: str, arguments: dict[str, Any]) -> int:
        """End an agent by its own exit command; return its id. Raises NotPossible, StepFailed."""
        agent_id = arguments["agent_id"]
        agent = queries.load_agent(self.database, agent_id)
        if running := commands.find_running(self.database, agent_id):
            raise AlreadyUnderWay(
                f"Handoff {running.id[:8]} of agent {agent_id} is under way. Cancel it first: "
                f"tasuki agent cancel {running.id[:8]}"
            )
        if agent.ended_at is None:
            check_managed(agent)
        try:
            self.fleet.shutdown.shut_down_agent(agent_id)
        except ServerClosing as error:
            raise ServerEnds(
                f"The server ends before agent {agent_id} did. Stop it again once the server runs: nothing is done twice."
            ) from error
        self.fleet.changes.notify([agent_id])
        return int(agent_id)

    def read_screen(self, arguments: Mapping[str, Any]) -> str:
        """Return what the pane of an agent shows, without secrets. Raises NotPossible."""
        return read_screen(
            self.fleet.panes, queries.load_agent(self.database, arguments["agent_id"])
        )

    def read_terminal(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the terminal of an agent, a `TerminalView`. Raises NotPossible."""
        agent = queries.load_agent(self.database, arguments["agent_id"])
        known = msgspec.convert(arguments["known"], KnownTerminal)
        return self._terminals.read_terminal(agent, known)

    def press_key(self, arguments: Mapping[str, Any]) -> None:
        """Press a key in an agent's pane. Raises NotPossible."""
        agent_id = arguments["agent_id"]
        press_key(self.database, self.fleet.delivery, agent_id, arguments["key"])
        self.fleet.changes.notify([agent_id])

    def answer_agent(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Answer the question of an agent, once. Raises NotPossible."""
        agent_id = arguments["agent_id"]
        answer = msgspec.convert(arguments["answer"], AgentAnswer)
        try:
            return answer_question(self.database, self.fleet.delivery, agent_id, answer)
        finally:
            self.fleet.changes.notify([agent_id])

    def read_changes(self, arguments: Mapping[str, Any]) -> WorkChanges:
        """Read what an agent of this host changed; what cannot be read is said in it."""
        agent = queries.load_agent(self.database, arguments["agent_id"])
        since, diff = arguments["since"], arguments["diff"]
        document_at = find_document_time(self.database, agent.id) if since == "handoff" else None
        return read_changes(agent, since=since, document_at=document_at, diff=diff)

    def find_pull_request(self, arguments: Mapping[str, Any]) -> PullRequest:
        """Find the pull request of the branch that an agent of this host works on."""
        return self.pull_requests.find(queries.load_agent(self.database, arguments["agent_id"]).cwd)

    def type_keys(self, arguments: Mapping[str, Any]) -> None:
        """Type keys into an agent's pane. Raises NotPossible."""
        agent_id = arguments["agent_id"]
        keys = msgspec.convert(arguments["keys"], TypedKeys)
        if self._typist.type_keys(agent_id, keys):
            self.fleet.changes.notify([agent_id])

    # -- handoffs ----------------------------------------------------------------------

    def hand_off(self, order_id: str, arguments: dict[str, Any]) -> str:
        """Begin to hand an agent off, also to another host; return the handoff's id at once.

        Raises NotPossible, AlreadyUnderWay.
        """
        agent = queries.load_agent(self.database, arguments["agent_id"])
        request = msgspec.convert(arguments["request"], commands.HandoffRequest)
        new_id = arguments["new_id"]
        if order_id and self._has_handoff(new_id):
            return str(new_id)
        if not limits.can_answer(agent):
            request = replace(request, from_thread=True)
        if arguments.get("move"):
            request = self._plan_move(agent, request, arguments["move"], new_id)
        elif request.harness:
            limits.check_target(self.fleet.data, request.harness)
        if request.from_thread and agent.ended_at is not None and agent.host == self.fleet.host:
            check_gone(self.fleet.panes, agent)
        handoff = commands.begin_handoff(
            self.database, agent.id, request, host=self.fleet.host,
            queue=arguments.get("queue") or build_queue_name(self.fleet.host), new_id=new_id,
        )  # fmt: skip
        self.fleet.pass_to_engine(handoff)
        return handoff.id

    def _has_handoff(self, handoff_id: str) -> bool:
        try:
            queries.load_handoff(self.database, handoff_id)
        except HandoffNotFound:
            return False
        return True

    def _plan_move(
        self, agent: FleetAgent, request: commands.HandoffRequest, wanted: dict[str, Any], id: str
    ) -> commands.HandoffRequest:
        wanted = {**wanted, "from_thread": request.from_thread}
        preview = self.preview_move({"agent_id": agent.id, "move": wanted})
        preview.check()
        signed = self.fleet.gate.sign(preview.host, id, "move", {"agent_id": agent.id})
        plan = replace(preview.plan, signed=signed["signed"])
        from_thread = request.from_thread or preview.plan.kind == "rescue"
        return replace(request, target_host=preview.host, move=plan, from_thread=from_thread)

    def preview_move(self, arguments: Mapping[str, Any]) -> MovePreview:
        """Say what a move of an agent of this host, or of a host that is gone, would do."""
        agent = queries.load_agent(self.database, arguments["agent_id"])
        request = msgspec.convert(arguments["move"], MoveRequest)
        if agent.host != self.fleet.host:
            return moves.plan_rescue(self.database, self.fleet.data, agent, request)
        return moves.plan_move(self.database, self.fleet.requests, agent, request)

    def fork_agent(self, order_id: str, arguments: dict[str, Any]) -> str:
        """Begin to start a second agent from an agent's thread; return the handoff's id at once.

        Raises NotPossible, PersonaNotFound, AlreadyUnderWay, StoreFailed.
        """
        agent, new_id = (
            queries.load_agent(self.database, arguments["agent_id"]),
            arguments["new_id"],
        )
        if order_id and self._has_handoff(new_id):
            return str(new_id)
        request = msgspec.convert(arguments["request"], ForkRequest)
        for slug in filter(None, {request.persona, agent.persona}):
            share_persona(self.database, self.fleet.root, slug)
        harness = check_fork(self.database, agent, request)
        check_hooks(self.fleet.data, harness)
        handoff = begin_fork(
            self.database, self.fleet.root, agent, request, host=self.fleet.host,
            queue=build_queue_name(self.fleet.host), new_id=new_id,
        )  # fmt: skip
        share_persona(self.database, self.fleet.root, handoff.persona)
        self.fleet.pass_to_engine(handoff)
        return handoff.id

    def order_handoff(self, order_id: str, arguments: dict[str, Any]) -> str:
        """Carry out an operator's order for a handoff; return its id. Raises NotPossible."""
        handoff_id, order, attempt = (arguments[x] for x in ("handoff_id", "order", "attempt"))
        handoff = queries.load_handoff(self.database, handoff_id)
        if order == "retry":
            if order_id and handoff.attempt > attempt:
                return handoff.id  # by this order, before a crash
            handoff = commands.retry_handoff(self.database, handoff_id, arguments.get("queue", ""))
            self.fleet.pass_to_engine(handoff)
            return handoff.id
        if order_id and handoff.state == _SETTLED_STATES[order]:
            return handoff.id  # by this order, before a crash
        handoff = _SETTLERS[order](self.database, handoff_id)
        record_order(handoff)
        if handoff.move:
            delete_parcels(self.database, handoff_id)
        self.fleet.changes.notify(
            id for id in (handoff.agent_id, handoff.successor_id) if id is not None
        )
        return handoff.id

    def undo_move(self, _order_id: str, arguments: dict[str, Any]) -> str:
        """Undo what a cancelled move has made on this host; return what, as a sentence."""
        handoff_id = arguments["handoff_id"]
        undone = self.fleet.step_runner.undo_move(handoff_id)
        handoff = queries.load_handoff(self.database, handoff_id)
        self.fleet.note(
            "handoff", f"Handoff {handoff_id[:8]} was cancelled. Undone on this host: {undone}",
            agent_id=handoff.agent_id, handoff_id=handoff_id,
        )  # fmt: skip
        return undone
