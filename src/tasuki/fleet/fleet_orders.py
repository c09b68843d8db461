"""The operator's orders for agents and handoffs, given to whichever host they concern."""

import uuid
from pathlib import Path
from typing import Any

import msgspec

from tasuki.errors import AlreadyUnderWay, NotPossible
from tasuki.fleet.agents import mutes
from tasuki.fleet.agents.agent_ends import LostAgent, find_lost_agents
from tasuki.fleet.agents.lifecycle import StartRequest
from tasuki.fleet.agents.mutes import MuteChange
from tasuki.fleet.changes.pull_requests import PullRequest
from tasuki.fleet.changes.records import Since, WorkChanges
from tasuki.fleet.delivery.answers import AgentAnswer
from tasuki.fleet.delivery.terminals import KnownTerminal
from tasuki.fleet.delivery.typed_keys import TypedKeys
from tasuki.fleet.exchange.host_list import describe_gone, find_host, load_host, read_labels
from tasuki.fleet.exchange.orders import HostOrders
from tasuki.fleet.exchange.requests import ANSWER_SECONDS as ASK_SECONDS
from tasuki.fleet.exchange.requests import HostRequests
from tasuki.fleet.exchange.shared_files import share_persona
from tasuki.fleet.handoff import commands
from tasuki.fleet.handoff.engine import build_lost_queue_name
from tasuki.fleet.handoff.forks import ForkRequest
from tasuki.fleet.handoff.moves import MovePreview, MoveRequest
from tasuki.fleet.handoff.workflow import MOVE_ARRIVAL
from tasuki.fleet.local_orders import HandoffOrder, LocalOrders
from tasuki.fleet.store import queries
from tasuki.fleet.store.database import FleetDatabase
from tasuki.fleet.store.log import ChangeFeed
from tasuki.fleet.store.models import FleetAgent, FleetHandoff
from tasuki.launch.tmux.panes import TmuxPanes

ANSWER_SECONDS = 20.0
"""How long another host may take to answer an agent's question: it waits until that is taken."""
CHANGES_SECONDS = 15.0
"""How long another host may take to say what an agent changed: git has a limit of its own."""
PREVIEW_SECONDS = 30.0
"""How long another host may take to say what a move would do: it asks a third one."""


class FleetOrders:
    """Carries orders out on this host, or gives them to the host of the agent, and waits.

    Raises HostAway where that one does not answer.
    """

    database: FleetDatabase
    host: str
    root: Path
    panes: TmuxPanes
    local: LocalOrders
    orders: HostOrders
    requests: HostRequests
    changes: ChangeFeed

    # -- agents ------------------------------------------------------------------------

    def start_agent(self, request: StartRequest, host: str = "") -> FleetAgent:
        """Start an agent, on this host or another one of the fleet.

        Raises PersonaNotFound, NotPossible, AlreadyUnderWay, HarnessMissing, LaunchFailed,
        HostNotFound, HostAway.
        """
        target = find_host(self.database, host).id if host else self.host
        if target != self.host and not request.cwd:
            raise NotPossible("An agent on another host needs a folder there. Name one: --cwd")
        if request.persona:
            share_persona(self.database, self.root, request.persona)
        return self._load_agent(self._order(target, "start", request=request))

    def adopt_agent(
        self, *, pane: str, harness: str, persona: str = "", session: str = "", host: str = "",
        brief: str = "", goal: str = "",
    ) -> FleetAgent:  # fmt: skip
        """Adopt an agent that is already running in a pane. Raises NotPossible, HostAway.

        `brief` is the id of a stored handoff of this host with which it was started, `goal` its goal.
        """
        target = find_host(self.database, host).id if host else self.host
        id = self._order(
            target, "adopt", pane=pane, harness=harness, persona=persona, session=session, brief=brief,
            goal=goal,
        )  # fmt: skip
        return self._load_agent(id)

    def send_text(self, agent_id: int, text: str, key: str = "") -> dict[str, Any]:
        """Type a text to an agent as a prompt, once for each key.

        Raises AgentNotFound, NotPossible, HostAway.
        """
        host = self._find_host(agent_id)
        return dict(self._order(host, "send", agent_id=agent_id, text=text, key=key))

    def resume_agent(self, agent_id: int, key: str = "", *, force: bool = False) -> dict[str, Any]:
        """Tell an agent whose usage limit has reset to go on, as `send_text`."""
        host = self._find_host(agent_id)
        return dict(self._order(host, "resume", agent_id=agent_id, key=key, force=force))

    def read_screen(self, agent_id: int) -> str:
        """Return what the pane of an agent shows, without secrets.

        Raises AgentNotFound, NotPossible, HostAway.
        """
        return str(self._ask(self._find_host(agent_id), "screen", agent_id=agent_id))

    def read_changes(self, agent_id: int, since: Since = "start", diff: str = "") -> WorkChanges:
        """Read what an agent changed since its start, or since its last handoff document.

        `diff` is `all` for the differences of every file, or the key of one file. What cannot be
        read is said in its `problem`. Raises AgentNotFound, HostAway.
        """
        host, words = self._find_host(agent_id), {"since": since, "diff": diff}
        answer = self._ask(host, "changes", CHANGES_SECONDS, agent_id=agent_id, **words)
        return msgspec.convert(answer, WorkChanges)

    def find_pull_request(self, agent_id: int) -> PullRequest:
        """Find the pull request of an agent's branch by `gh`; without one its `note` says why.

        Raises AgentNotFound, HostAway.
        """
        host = self._find_host(agent_id)
        answer = self._ask(host, "pull_request", CHANGES_SECONDS, agent_id=agent_id)
        return msgspec.convert(answer, PullRequest)

    def read_terminal(
        self,
        agent_id: int,
        known: KnownTerminal = KnownTerminal(),  # noqa: B008 a frozen struct
    ) -> dict[str, Any]:
        """Return the terminal of an agent with colours and the rows above, without secrets.

        A `TerminalView`, without what the asker knows, and only `{"tag"}` where that is all.
        Raises AgentNotFound, NotPossible, HostAway.
        """
        host = self._find_host(agent_id)
        return dict(self._ask(host, "terminal", agent_id=agent_id, known=known))

    def type_keys(self, agent_id: int, keys: TypedKeys) -> None:
        """Type keys, texts and pastes into an agent's pane, in order, once for each batch.

        Raises AgentNotFound, NotPossible, HostAway.
        """
        self._ask(self._find_host(agent_id), "type_keys", agent_id=agent_id, keys=keys)

    def press_key(self, agent_id: int, key: str) -> None:
        """Press a key in an agent's pane. Raises AgentNotFound, NotPossible, HostAway."""
        self._ask(self._find_host(agent_id), "press_key", agent_id=agent_id, key=key)

    def answer_agent(self, agent_id: int, answer: AgentAnswer) -> dict[str, Any]:
        """Answer the question of a waiting agent, once, if it is still the one that is meant.

        Returns `state` (proven, uncertain), `why` and `answer`. Raises AgentNotFound, NotPossible,
        HostAway.
        """
        host = self._find_host(agent_id)
        return dict(self._ask(host, "answer", ANSWER_SECONDS, agent_id=agent_id, answer=answer))

    def stop_agent(self, agent_id: int) -> FleetAgent:
        """End an agent by its own exit command.

        Raises AgentNotFound, NotPossible, StepFailed, HostAway.
        """
        host, alone = self._find_host(agent_id), f"stop-{agent_id}"
        return self._load_agent(self._order(host, "stop", alone, agent_id=agent_id))

    def mute_agent(self, agent_id: int, span: str) -> MuteChange:
        """Mute an agent's alerts on every host; `span` as `parse_mute` takes it.

        Raises AgentNotFound, UsageError.
        """
        change = mutes.mute_agent(self.database, self._load_agent(agent_id), span)
        self.changes.notify([agent_id])
        return change

    def restore_mute(self, change: MuteChange) -> None:
        """Undo a mute, or its end. Raises NotPossible where the agent was muted anew since."""
        mutes.restore_mute(self.database, change)
        self.changes.notify([change.agent_id])

    def _order(self, host: str, name: str, alone: str = "", /, **arguments: Any) -> Any:
        """Carry an order out on its host; return its result, a JSON value."""
        words = msgspec.to_builtins(arguments)
        if host == self.host:
            return self.local.carry_out("", name, words)
        return self.orders.give(host, name, words, alone=alone)

    def _ask(self, host: str, kind: str, seconds: float = ASK_SECONDS, /, **data: Any) -> Any:
        """Ask a host, which may be this one; return its answer."""
        words = msgspec.to_builtins(data)
        if host == self.host:
            return self.requests.handlers[kind](words)
        return self.requests.ask(host, kind, words, seconds)

    def _find_host(self, agent_id: int) -> str:
        return self._load_agent(agent_id).host

    def _load_agent(self, agent_id: int) -> FleetAgent:
        return queries.load_agent(self.database, agent_id)

    def describe_other_host(self, agent_id: int) -> str:
        """Return a sentence where an agent is another host's; empty for this one's.

        Raises AgentNotFound.
        """
        host = self._find_host(agent_id)
        if host == self.host:
            return ""
        label = read_labels(self.database, [host]).get(host, host)
        return f"Agent {agent_id} runs on the host {label}, not on this one. Attach to it there: tasuki agent attach {agent_id}"

    # -- handoffs ----------------------------------------------------------------------

    def hand_off(
        self,
        agent_id: int,
        request: commands.HandoffRequest,
        queue: str = "",
        move: MoveRequest | None = None,
    ) -> FleetHandoff:
        """Begin to hand an agent off, with `move` to another host; return at once.

        Raises AgentNotFound, NotPossible, AlreadyUnderWay, HostNotFound, HostAway.
        """
        id = self._order(
            self._find_carrier(agent_id, move), "handoff", agent_id=agent_id, request=request, queue=queue,
            move=move, new_id=uuid.uuid4().hex,
        )  # fmt: skip
        return queries.load_handoff(self.database, id)

    def preview_move(self, agent_id: int, move: MoveRequest) -> MovePreview:
        """Say what a move of an agent to another host would do, and what stands in its way.

        Raises AgentNotFound, HostNotFound, HostAway.
        """
        host = self._find_carrier(agent_id, move)
        answer = self._ask(host, "preview_move", PREVIEW_SECONDS, agent_id=agent_id, move=move)
        return msgspec.convert(answer, MovePreview)

    def _find_carrier(self, agent_id: int, move: MoveRequest | None) -> str:
        """Find the host that begins a handoff: the agent's; the new one where that is gone."""
        host = self._find_host(agent_id)
        if move is None or host == self.host:
            return host
        if load_host(self.database, host).state not in ("given up", "retired"):
            return host
        return find_host(self.database, move.host).id

    def fork_agent(self, agent_id: int, request: ForkRequest) -> FleetHandoff:
        """Begin to start a second agent from an agent's thread, which goes on; return at once.

        Raises AgentNotFound, NotPossible, PersonaNotFound, AlreadyUnderWay, StoreFailed, HostAway.
        """
        host, new_id = self._find_host(agent_id), uuid.uuid4().hex
        id = self._order(host, "fork", agent_id=agent_id, request=request, new_id=new_id)
        return queries.load_handoff(self.database, id)

    def recover_lost_agents(self, reason: str) -> list[tuple[LostAgent, FleetHandoff | None]]:
        """Recover every lost agent of this host, a few at once; each with its handoff.

        None where that was refused.
        """
        queue, recovered = build_lost_queue_name(self.host), []
        for lost in find_lost_agents(self.database, self.panes, self.host):
            handoff: FleetHandoff | None = None
            try:
                if lost.retried:
                    handoff = self.retry(lost.retried.id, queue)
                elif not lost.refused:
                    request = commands.HandoffRequest(reason, from_thread=True)
                    handoff = self.hand_off(lost.agent.id, request, queue)
            except (NotPossible, AlreadyUnderWay) as error:
                lost = LostAgent(lost.agent, lost.retried, str(error))
            recovered.append((lost, handoff))
        return recovered

    def retry(self, handoff_id: str, queue: str = "") -> FleetHandoff:
        """Continue a failed handoff. Raises HandoffNotFound, NotPossible, HostAway."""
        return self.order_handoff(handoff_id, "retry", queue)

    def order_handoff(self, handoff_id: str, order: HandoffOrder, queue: str = "") -> FleetHandoff:
        """Carry out an operator's order for a handoff, as `commands` describes it.

        Any host can cancel, also while the handoff's own is away. Raises HandoffNotFound,
        NotPossible, HostAway.
        """
        handoff = queries.load_handoff(self.database, handoff_id)
        with self.database.read() as connection:
            is_here = order == "cancel" or bool(describe_gone(connection, handoff.host))
        self._order(
            self.host if is_here else handoff.host, "order", handoff_id=handoff.id, order=order,
            attempt=handoff.attempt, queue=queue,
        )  # fmt: skip
        ordered = queries.load_handoff(self.database, handoff.id)
        if order == "cancel":
            self._undo_cancelled(ordered)
        return ordered

    def _undo_cancelled(self, handoff: FleetHandoff) -> None:
        """Let the target of a cancelled move undo what it has made, now or once it is back."""
        is_move = handoff.move is not None and handoff.move.kind == "move"
        if not is_move or handoff.step not in (*MOVE_ARRIVAL, "shut_down"):
            return
        if self._load_agent(handoff.agent_id).ended_at is None:
            key = f"undo-{handoff.id}-{handoff.attempt}"
            self.orders.leave(handoff.target_host, "undo_move", {"handoff_id": handoff.id}, key)
