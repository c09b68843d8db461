"""Successors of kept handoffs that were started from a page, and what was told of them."""

import shlex
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tasuki import handoffs
from tasuki.errors import AlreadyUnderWay, NotPossible
from tasuki.launch import Launched, running_elsewhere
from tasuki.plain import shown
from tasuki.threads.safe import Cleaner
from tasuki.vault import Vault

KEPT = 100


class Starts:
    """Starts each handoff once at a time; what was told stays until the server ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._going: set[str] = set()
        self._told: OrderedDict[str, tuple[str, ...]] = OrderedDict()

    def told(self, id: str) -> tuple[str, ...]:
        """What was told when a handoff was started last; empty if this server did not start it."""
        with self._lock:
            return self._told.get(id, ())

    def start(self, id: str, form: Mapping[str, str]) -> str:
        """Start a successor in a tmux window, as a form asks for; the handoff's whole id.

        Returns once it is up and the brief stands in its input, which may take most of a minute.
        Raises HandoffNotFound, AlreadyUnderWay, NotPossible, UsageError, HarnessMissing or LaunchFailed.
        """
        told: list[str] = []
        offer = handoffs.kept(Vault(), id, form.get("to", ""))
        if not offer.successor.can_start:
            raise NotPossible(f"{offer.successor.title} starts no successor.")
        whole = offer.handoff.id
        with self._alone(whole):
            told += [f"The thread is still open: {one}" for one in running_elsewhere(offer.thread)]
            launched = handoffs.start(
                offer, where="tmux", tell=told.append, send=bool(form.get("send")),
                model=form.get("model", "").strip(),
            )  # fmt: skip
            self._keep(whole, [_where(offer.successor.title, launched), *offer.warnings, *told])
        return whole

    @contextmanager
    def _alone(self, id: str) -> Iterator[None]:
        with self._lock:
            if id in self._going:
                raise AlreadyUnderWay(
                    "This handoff is being started. Wait until its page says where it runs."
                )
            self._going.add(id)
        try:
            yield
        finally:
            with self._lock:
                self._going.discard(id)

    def _keep(self, id: str, told: list[str]) -> None:
        cleaner = Cleaner()
        with self._lock:
            self._told[id] = tuple(cleaner.text(shown(line)) for line in told)
            self._told.move_to_end(id)
            while len(self._told) > KEPT:
                self._told.popitem(last=False)


STARTS = Starts()


def _where(title: str, launched: Launched) -> str:
    """Where a successor runs, and how to look at it."""
    look = shlex.join(launched.attach) if launched.attach else "it is beside the server's window"
    return f"{title} runs in the tmux pane {launched.target}. Look at it: {look}"
