"""`tasuki chat`: a conversation, its controllers and its view, put together and run."""

import asyncio
import logging
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from tasuki.config import Loaded
from tasuki.data_folder import data_folder
from tasuki.session.acp.process import in_thread
from tasuki.session.acp_backend import START_SECONDS, AcpBackend
from tasuki.session.acp_program import AcpProgram
from tasuki.session.backend import Permission
from tasuki.session.chat.command_controller import CommandController
from tasuki.session.chat.conversation import Conversation
from tasuki.session.chat.input_controller import InputController
from tasuki.session.chat.permissions import Permissions
from tasuki.session.chat.plain_view import PlainView
from tasuki.session.chat.screen import Screen
from tasuki.session.chat.status import is_full
from tasuki.session.chat.view import View
from tasuki.session.events import SessionEvent, TurnEnded

GREETING = "Talking to {}. /handoff for a fresh session, /help for the rest."
SUGGESTED = "The context is {} % full. /handoff goes on in a fresh session."

AWAITED = "Waiting for {} to answer, for {:.0f} seconds at most. It was started as: {}"
SILENT_SECONDS = 4.0
"""How long an agent may take to begin before the user is told that it is waited for."""


class Chat:
    """One run of the chat with one agent. `resume` is the file of the session to go on with."""

    def __init__(self, program: AcpProgram, cwd: Path, loaded: Loaded) -> None:
        self.conversation = Conversation(AcpBackend(program, cwd), cwd, loaded)
        self._program = program
        self._suggested = ""
        """Id of the session in which a handoff was suggested last."""

    async def in_terminal(self, resume: Path | None = None) -> int:
        """Talk on this terminal until the user leaves; the exit code."""
        _quiet()
        screen = Screen(self.conversation, data_folder() / "chat-history")
        controller = self._controller(screen)
        controller.commands.leave = screen.leave
        screen.submit = controller.submit
        screen.start(self._begin(controller, screen, resume))
        screen.note(GREETING.format(self.conversation.title))
        try:
            await screen.run()
        finally:
            await to_its_end(self.conversation.close())
        return 0

    async def without_terminal(self, resume: Path | None = None) -> int:
        """Take prompts from the lines of standard input; the exit code is that of the first failure."""
        _quiet()
        view = PlainView()
        controller = self._controller(view)
        controller.commands.leave = view.leave
        try:
            await self._open(view, resume)
            while not view.left and not view.code:
                line = await in_thread(sys.stdin.readline)
                if not line:
                    break
                await controller.submit(str(line))
        finally:
            await to_its_end(self.conversation.close())
        return view.code

    def _controller(self, view: View) -> InputController:
        permissions = Permissions(view, self.conversation.title)

        def heard(event: SessionEvent) -> None:
            if isinstance(event, Permission):
                permissions.ask(event)
            view.take(event)
            if isinstance(event, TurnEnded) and not event.internal:
                self._suggest(view)

        self.conversation.subscribe(heard)
        commands = CommandController(self.conversation, view)
        return InputController(self.conversation, commands, view)

    def _suggest(self, view: View) -> None:
        """Suggest a handoff once in a session, when its context passes the threshold."""
        session = self.conversation.session.session_id
        if is_full(self.conversation) and self._suggested != session:
            self._suggested = session
            usage = self.conversation.usage
            view.note(SUGGESTED.format(round(100 * usage.used / usage.size)))

    async def _open(self, view: View, resume: Path | None) -> None:
        waiting = asyncio.get_running_loop().call_later(SILENT_SECONDS, view.note, self._awaited())
        try:
            if resume is None:
                await self.conversation.start()
                return
            await self.conversation.resume(resume)
        finally:
            waiting.cancel()
        session = self.conversation.session
        view.rebuild(session.messages, session.todos)
        for note in session.manager.notes:
            view.note(note)

    def _awaited(self) -> str:
        """What is waited for, in a sentence."""
        return AWAITED.format(
            self.conversation.title,
            START_SECONDS,
            " ".join(self._program.command),
        )

    async def _begin(
        self, controller: InputController, screen: Screen, resume: Path | None
    ) -> None:
        """Open the session while the user may type already; what was typed is sent then."""
        await self._open(screen, resume)
        screen.ready()
        if words := self.conversation.waiting_words():
            await controller.say(words)


async def until_ended(work: Coroutine[Any, Any, int]) -> int:
    """The exit code of a conversation; an order to end breaks it off, and it closes as ever.

    An exit that a signal's handler raises inside the loop would lose the step that was under way:
    whoever waited for it would wait for ever.
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


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Do work that an order to end must not break off: the order counts once it is done.

    A terminal that closes is noticed twice, as the end of input and as SIGHUP, in either order.
    """
    task, cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError


def _quiet() -> None:
    """Keep the SDK's remarks on what an agent sends off the screen: it logs to the root logger."""
    logging.getLogger().addHandler(logging.NullHandler())
