"""The message that a new session begins with: kept until it is known to have arrived."""

import sys

from tasuki.errors import StoreFailed, TasukiError
from tasuki.session.acp.chains import Chains
from tasuki.session.acp.sessions import Session


class Delivery:
    """Keeps what is known of a message, and adds it to the events of its handoff."""

    def __init__(self, chains: Chains) -> None:
        self.chains = chains

    def begins(self, session: Session) -> None:
        """It is about to go out with a prompt."""
        session.sending = True
        self.keep(session)
        note(session, "intent", target=session.agent)

    def failed(self, session: Session, why: str) -> None:
        """The prompt that it went with failed; it goes with the next one."""
        session.sending = False
        note(session, "failed", reason=why)
        self.keep(session)

    def arrived(self, session: Session) -> None:
        """The agent has it."""
        note(session, "delivered", target=session.agent)
        self._forget(session)

    def unknown(self, session: Session) -> None:
        """Nobody can tell whether it arrived; it is never sent twice."""
        note(session, "uncertain", target=session.agent)
        self._forget(session)

    def _forget(self, session: Session) -> None:
        session.message, session.handoff, session.sending = "", "", False
        self.keep(session)

    def keep(self, session: Session) -> None:
        """Have it on the disk; where that fails, a restart does not know of it."""
        try:
            self.chains.put(session.chain)
        except StoreFailed as error:
            trouble(error)


def note(session: Session, kind: str, **detail: str) -> None:
    """Add to the events of the handoff that a session came from."""
    if not session.handoff:
        return
    from tasuki.handoffs import event
    from tasuki.vault import Vault

    try:
        Vault().append(session.handoff, event(kind, **detail))
    except TasukiError as error:
        trouble(error)


def trouble(error: Exception) -> None:
    """Tell what went wrong and kept nothing from going on; editors show it in their log."""
    said = str(error) if isinstance(error, TasukiError) else repr(error)
    print(f"tasuki acp: {said}", file=sys.stderr, flush=True)
