"""A client of tmux that stays: it asks a hundred times what one new process of tmux costs. Seen: 3.3a.

In control mode (`tmux -C`) commands go in by lines, and what each of them prints comes between two
guards with a number of its own. A line that is cut off is not carried out. Only commands go this way
that do no harm when they are given again, and have no words of anybody's in them: where anything is
odd the client is given up, and the caller gives them anew by a process of their own.
"""

import os
import secrets
import select
import subprocess
import threading
import time
from collections.abc import Sequence

SECONDS = 10.0
"""Time limit of an answer."""
REST_SECONDS = 1.0
"""After a client could not be had no other one is tried for so long."""
PIECE = 1 << 16


class Unanswered(Exception):
    """There is no client, or no answer that can be relied on: ask in the other way."""


class ControlMode:
    """Asks one tmux server through a client that is attached to one of its sessions.

    The client neither sets the size of windows nor gets what panes print. Callable from every thread.
    """

    def __init__(self, base: Sequence[str], session: str, env: dict[str, str]) -> None:
        self.argv = (
            *base,
            "-N",
            "-C",
            "attach",
            "-f",
            "ignore-size,no-output",
            "-t",
            f"={session}",
        )
        self.env = env
        self._client: subprocess.Popen[bytes] | None = None
        self._read = b""
        self._lock = threading.Lock()
        self._rests_until = 0.0

    def ask(self, *commands: str) -> str:
        """What tmux prints for commands that are carried out at once, one behind another.

        A last one prints a word that nobody can know: whatever a pane shows, the answer ends there.
        Raises Unanswered, also where tmux refuses; then they may have been carried out, or not.
        """
        with self._lock:
            try:
                return self._asked(commands, time.monotonic() + SECONDS)
            except OSError as error:
                self._give_up()
                raise Unanswered(str(error)) from error
            except Unanswered:
                self._give_up()
                raise

    def close(self) -> None:
        """End the client."""
        with self._lock:
            self._give_up()

    # -- the client --------------------------------------------------------------------

    def _asked(self, commands: Sequence[str], deadline: float) -> str:
        client = self._attached(deadline)
        assert client.stdin
        word = secrets.token_hex(8)
        client.stdin.write(f"{' ; '.join((*commands, f'display-message -p {word}'))}\n".encode())
        printed: list[str] = []
        while True:
            ok, said = self._block("1", deadline)
            if not ok:  # those behind it are not carried out
                raise Unanswered(said.strip())
            if said == f"{word}\n":
                return "".join(printed)
            printed.append(said)

    def _attached(self, deadline: float) -> subprocess.Popen[bytes]:
        if self._client:
            return self._client
        if time.monotonic() < self._rests_until:
            raise Unanswered("there was no session to attach to")
        self._client = subprocess.Popen(
            self.argv,
            bufsize=0,
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        if not self._block("0", deadline)[0]:
            raise Unanswered("tmux has no such session")
        return self._client

    def _block(self, flags: str, deadline: float) -> tuple[bool, str]:
        """Whether the next command was carried out, and what it printed."""
        guard: list[str] = []
        lines: list[str] = []
        while True:
            line = self._line(deadline)
            words = line.split(" ")
            if not guard:
                if words[0] == "%begin" and words[-1] == flags and len(words) == 4:
                    guard = words[1:]
                elif words[0] == "%exit":
                    raise Unanswered("tmux let the client go")
            elif words[0] in ("%end", "%error") and words[1:] == guard:
                return words[0] == "%end", "".join(f"{one}\n" for one in lines)
            else:
                lines.append(line)

    def _line(self, deadline: float) -> str:
        while b"\n" not in self._read:
            self._read += self._piece(deadline)
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(errors="replace")

    def _piece(self, deadline: float) -> bytes:
        assert self._client
        assert self._client.stdout
        number = self._client.stdout.fileno()
        left = max(0.0, deadline - time.monotonic())
        poll = select.poll()
        poll.register(number, select.POLLIN)
        if not poll.poll(1000 * left):
            raise Unanswered("tmux does not answer")
        if not (piece := os.read(number, PIECE)):
            raise Unanswered("tmux has ended")
        return piece

    def _give_up(self) -> None:
        client, self._client, self._read = self._client, None, b""
        if client is None:
            return
        self._rests_until = time.monotonic() + REST_SECONDS
        for pipe in (client.stdin, client.stdout):
            if pipe:
                pipe.close()
        try:
            client.wait(0.5)
        except subprocess.TimeoutExpired:
            client.kill()
            client.wait()
