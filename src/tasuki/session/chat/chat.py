"""`tasuki chat`: one run, from the choice of the agent to the exit code.

It chooses the agent and the session to continue, and puts a conversation, its controllers and
its view together.
"""

import asyncio
import logging
import shutil
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from tasuki.config.settings import LoadedSettings
from tasuki.errors import TasukiError, ThreadNotFound, UsageError
from tasuki.files import get_data_folder
from tasuki.session.agent_session.acp_backend import START_SECONDS, AcpBackend
from tasuki.session.agent_session.acp_program import AcpProgram, find_acp_program, list_acp_programs
from tasuki.session.agent_session.backend import PermissionRequest, SessionEvent, TurnEnded
from tasuki.session.chat.controllers import (
    ChatController,
    PermissionDialog,
    is_full,
)
from tasuki.session.chat.conversation import AGENT_TYPE, ChatConversation
from tasuki.session.chat.screen import TerminalScreen
from tasuki.session.chat.view import ChatView, PlainView
from tasuki.session.futures import run_in_thread
from tasuki.session.pi_store.manager import SessionManager, list_sessions

GREETING = "Talking to {}. /handoff for a fresh session, /help for the rest."
SUGGESTION = "The context is {} % full. /handoff continues in a fresh session."
WAITING_MESSAGE = "Waiting for {} to answer, at most {:.0f} seconds. It was started as: {}"
SILENT_SECONDS = 4.0
"""How long an agent may take to begin before the user sees that it is waited for."""


class TerminalChat:
    """One run of the chat with one agent."""

    def __init__(self, program: AcpProgram, cwd: Path, loaded: LoadedSettings) -> None:
        self.conversation = ChatConversation(AcpBackend(program, cwd), cwd, loaded)
        self._program = program
        self._suggested_session = ""
        """Id of the session in which a handoff was suggested last."""
        # The SDK logs to the root logger, and the screen is no place for that.
        logging.getLogger().addHandler(logging.NullHandler())

    async def run_in_terminal(self, resume: Path | None = None) -> int:
        """Talk on this terminal until the user leaves; return the exit code."""
        screen = TerminalScreen(self.conversation, get_data_folder() / "chat-history")
        controller = self._build_controller(screen)
        screen.submit = controller.submit
        screen.start_task(self._open_in_background(controller, screen, resume))
        screen.show_note(GREETING.format(self.conversation.title))
        try:
            await screen.run()
        finally:
            await finish_work(self.conversation.close())
        return 0

    async def run_plain(self, resume: Path | None = None) -> int:
        """Take prompts from standard input, one a line; return the first failure's exit code."""
        view = PlainView()
        controller = self._build_controller(view)
        try:
            await self._open_session(controller, resume)
            while not view.has_left and not view.code:
                line = await run_in_thread(sys.stdin.readline)
                if not line:
                    break
                await controller.submit(line)
        finally:
            await finish_work(self.conversation.close())
        return view.code

    def _build_controller(self, view: ChatView) -> ChatController:
        permissions = PermissionDialog(view, self.conversation.title)

        def on_event(event: SessionEvent) -> None:
            if isinstance(event, PermissionRequest):
                permissions.ask(event)
            view.take(event)
            if isinstance(event, TurnEnded) and not event.internal:
                self._suggest_handoff(view)

        self.conversation.subscribe(on_event)
        return ChatController(self.conversation, view)

    def _suggest_handoff(self, view: ChatView) -> None:
        """Suggest a handoff once in a session, when its context passes the threshold."""
        session = self.conversation.session.session_id
        if is_full(self.conversation) and self._suggested_session != session:
            self._suggested_session = session
            usage = self.conversation.usage
            view.show_note(SUGGESTION.format(round(100 * usage.used / usage.size)))

    async def _open_session(self, controller: ChatController, resume: Path | None) -> None:
        waiting = asyncio.get_running_loop().call_later(
            SILENT_SECONDS,
            controller.view.show_note,
            WAITING_MESSAGE.format(
                self.conversation.title, START_SECONDS, " ".join(self._program.command)
            ),
        )
        try:
            if resume is None:
                await self.conversation.start()
                return
            await self.conversation.resume(resume)
        finally:
            waiting.cancel()
        controller.show_session()

    async def _open_in_background(
        self, controller: ChatController, screen: TerminalScreen, resume: Path | None
    ) -> None:
        """Open the session while the user may type already; then send what was typed."""
        await self._open_session(controller, resume)
        screen.mark_ready()
        if words := self.conversation.take_waiting_words():
            await controller.send_words(words)


async def run_until_ended(work: Coroutine[Any, Any, int]) -> int:
    """Run a conversation and return its exit code; an order to end cancels it in good order.

    An exit that a signal handler raises inside the loop would lose the current step: whoever
    waited for it would wait for ever.
    """
    loop, orders = asyncio.get_running_loop(), list[int]()
    task = loop.create_task(work)

    def end(order: int) -> None:
        orders.append(order)
        task.cancel()

    for order in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(order, end, order)
    try:
        return await task
    except asyncio.CancelledError:
        if not orders:
            raise
        return 128 + orders[0]


async def finish_work(work: Coroutine[Any, Any, None]) -> None:
    """Finish work that an order to end must not cancel: the order counts once it is done.

    A terminal that closes is noticed twice, as the end of input and as SIGHUP, in either order.
    """
    task, is_cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            is_cancelled = True
    task.result()
    if is_cancelled:
        raise asyncio.CancelledError


NEWEST_ID = "newest"


def find_session_file(session_id: str, cwd: Path) -> Path:
    """Find the file of a session of a folder, by the beginning of its id, or `newest`.

    Raises ThreadNotFound; UsageError if it is ambiguous.
    """
    heads = list_sessions(cwd)
    by_id = [head for head in heads if head.id.startswith(session_id)]
    matches = heads[:1] if session_id == NEWEST_ID else by_id
    if not matches:
        which = "" if session_id == NEWEST_ID else f" that begins with {session_id!r}"
        raise ThreadNotFound(f"There is no session{which} of {cwd}. Start one: tasuki chat")
    if len(matches) > 1:
        raise UsageError(f"{len(matches)} sessions begin with {session_id!r}; give more of the id.")
    return Path(matches[0].path)


def choose_agent(agent: str | None, session: Path | None, cwd: Path) -> AcpProgram:
    """Choose the named agent, else that of the session, else the first one that is installed.

    Raises HarnessMissing, UsageError.
    """
    if agent is not None:
        return find_acp_program(agent)
    heads = [] if session else list_sessions(cwd)[:1]
    earlier_session = session or (Path(heads[0].path) if heads else None)
    if earlier_session is not None and (command := _find_agent_command(earlier_session)):
        return find_acp_program(command)
    for name, program in list_acp_programs().items():
        if shutil.which(program.command[0]):
            return find_acp_program(name)
    names = ", ".join(list_acp_programs())
    raise UsageError(
        f'No agent that speaks ACP was found. Name one: --agent "gemini --acp", or one of {names}'
    )


def _find_agent_command(path: Path) -> str:
    try:
        data = SessionManager.open(path).find_custom_data(AGENT_TYPE) or {}
    except TasukiError:
        return ""
    return str(data.get("command") or "")
