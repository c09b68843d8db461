"""A lasting client of tmux: a hundred questions cost as much as one new tmux process.

Seen: 3.3a.

In control mode (`tmux -C`) commands go in by lines, and the output of each comes between
two guards with its own number. A line that is cut off is not carried out. Only
commands go this way that do no harm when they are repeated and hold no words of people.
Where anything is odd the client is closed, and the caller repeats them by a process of
their own.
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
"""How long no other client is tried after one could not be had."""
PIECE = 1 << 16


class TmuxUnanswered(Exception):
    """There is no client, or no reliable answer: ask in the other way."""


class ControlMode:
    """Asks one tmux server through a client that is attached to one of its sessions.

    The client neither sets the size of windows nor receives what panes print. It can be called
    from every thread.
    """

    def __init__(self, base: Sequence[str], session: str, env: dict[str, str]) -> None:
        flags = ("-N", "-C", "attach", "-f", "ignore-size,no-output", "-t", f"={session}")
        self.argv = (*base, *flags)
        self.env = env
        self._client: subprocess.Popen[bytes] | None = None
        self._read = b""
        self._lock = threading.Lock()
        self._rests_until = 0.0

    def ask(self, *commands: str) -> str:
        """Return what tmux prints for commands that are run at once, one after another.

        A last command prints a word that cannot be guessed: whatever a pane shows, the answer ends
        there. Raises TmuxUnanswered, also where tmux refuses; the commands may have run by then, or
        not.
        """
        with self._lock:
            try:
                return self._ask_once(commands, time.monotonic() + SECONDS)
            except OSError as error:
                self._give_up()
                raise TmuxUnanswered(str(error)) from error
            except TmuxUnanswered:
                self._give_up()
                raise

    def close(self) -> None:
        """End the client."""
        with self._lock:
            self._give_up()

    # -- the client --------------------------------------------------------------------

    def _ask_once(self, commands: Sequence[str], deadline: float) -> str:
        client = self._attach_client(deadline)
        assert client.stdin
        word = secrets.token_hex(8)
        client.stdin.write(f"{' ; '.join((*commands, f'display-message -p {word}'))}\n".encode())
        printed: list[str] = []
        while True:
            ok, output = self._read_block("1", deadline)
            if not ok:  # Those after it are not carried out.
                raise TmuxUnanswered(output.strip())
            if output == f"{word}\n":
                return "".join(printed)
            printed.append(output)

    def _attach_client(self, deadline: float) -> subprocess.Popen[bytes]:
        if self._client:
            return self._client
        if time.monotonic() < self._rests_until:
            raise TmuxUnanswered("there was no session to attach to")
        self._client = subprocess.Popen(
            self.argv,
            bufsize=0,
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        if not self._read_block("0", deadline)[0]:
            raise TmuxUnanswered("tmux has no such session")
        return self._client

    def _read_block(self, flags: str, deadline: float) -> tuple[bool, str]:
        """Return whether the next command was carried out, and what it printed."""
        guard: list[str] = []
        lines: list[str] = []
        while True:
            line = self._read_line(deadline)
            words = line.split(" ")
            if not guard:
                if words[0] == "%begin" and words[-1] == flags and len(words) == 4:
                    guard = words[1:]
                elif words[0] == "%exit":
                    raise TmuxUnanswered("tmux disconnected the client")
            elif words[0] in ("%end", "%error") and words[1:] == guard:
                return words[0] == "%end", "".join(f"{one}\n" for one in lines)
            else:
                lines.append(line)

    def _read_line(self, deadline: float) -> str:
        while b"\n" not in self._read:
            self._read += self._read_piece(deadline)
        line, _, self._read = self._read.partition(b"\n")
        return line.decode(errors="replace")

    def _read_piece(self, deadline: float) -> bytes:
        assert self._client
        assert self._client.stdout
        number = self._client.stdout.fileno()
        left = max(0.0, deadline - time.monotonic())
        poll = select.poll()
        poll.register(number, select.POLLIN)
        if not poll.poll(1000 * left):
            raise TmuxUnanswered("tmux does not answer")
        if not (piece := os.read(number, PIECE)):
            raise TmuxUnanswered("tmux has ended")
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
