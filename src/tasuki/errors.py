"""What can go wrong, as sentences a person can act on.

TasukiError                 base; `exit_code` 1
├── UsageError              the command was called wrongly; exit code 2
├── Refused                 tasuki could, but should not; exit code 3
│   ├── GoalTooVague        the goal is missing, too short or vague
│   ├── GoalHasSecret       the goal holds a secret and the user did not confirm it
│   └── NothingToHandOff    the thread has no conversation
├── HomeUnknown             the user's home folder is unknown
├── ThreadNotFound          no thread matches the request
├── ThreadUnreadable        the file exists, but is no thread, is empty, or cannot be read
│   └── KeptCopyDamaged     the copy of a thread that is gone cannot be read
├── HandoffNotFound         no stored handoff matches
├── AgentNotFound           no agent of the fleet matches
├── PersonaNotFound         no persona matches
├── HostNotFound            no host of the fleet matches, or several do
├── NotPossible             it cannot be done to an agent, persona or handoff in its state
├── AlreadyUnderWay         it is being done, or was done, already
├── HostAway                the host of an agent does not answer
├── ServerAway              no server answers
├── ServerRuns              another server uses the data folder, or the database
├── ServerFailed            the server cannot start, or cannot go on
├── ServerEnds              the server is stopping; repeat the request
├── HarnessMissing          the program of a harness is not installed
├── LaunchFailed            the successor could not be started
│   └── PaneGone            a tmux pane, or tmux itself, no longer exists
├── StoreFailed             a handoff could not be stored (disk full, no permission)
├── InstallFailed           what `tasuki install` adds to a harness could not be added
├── ExtraMissing            an optional part of tasuki is not installed
├── AuthorFailed            a model or an agent was asked and gave no usable answer
├── AgentFailed             the agent of a running session failed, or ended
├── Cancelled               the user, or the program that was asked, cancelled it; exit code 130
├── ConfigInvalid           a setting has the wrong type or value
└── ModelUnavailable        an author that needs a model has none

Every message says what happened, where, and what to do next.
"""


class TasukiError(Exception):
    """Base of all errors that tasuki raises on purpose."""

    exit_code = 1


class UsageError(TasukiError):
    """The command was called wrongly."""

    exit_code = 2


class Refused(TasukiError):
    """tasuki could do it, but not without being asked."""

    exit_code = 3


class GoalTooVague(Refused):
    """The goal is missing, too short, or says nothing about what to do."""


class GoalHasSecret(Refused):
    """The goal holds what looks like a secret, and the user did not confirm it."""


class NothingToHandOff(Refused):
    """The thread holds no conversation."""


class HomeUnknown(TasukiError):
    """The user's home folder is unknown; the message says what to set."""


class ThreadNotFound(TasukiError):
    """No thread matches what was asked for."""


class ThreadUnreadable(TasukiError):
    """A file is there but cannot be read as a thread."""


class KeptCopyDamaged(ThreadUnreadable):
    """The kept copy of a thread is damaged; the message names its file."""


class HandoffNotFound(TasukiError):
    """No stored handoff matches what was asked for."""


class AgentNotFound(TasukiError):
    """No agent of the fleet matches what was asked for."""


class PersonaNotFound(TasukiError):
    """No persona matches what was asked for."""


class HostNotFound(TasukiError):
    """No host of the fleet matches what was asked for, or several do."""


class NotPossible(TasukiError):
    """It cannot be done to an agent, persona or handoff in its state; the message says why."""


class NoLongerPossible(NotPossible):
    """It could be done once, and will not be possible again; the message says why."""


class AlreadyUnderWay(TasukiError):
    """It is being done, or was done, already; `details` say by what, and how to continue."""

    def __init__(self, message: str, **details: str) -> None:
        super().__init__(message)
        self.details = {name: value for name, value in details.items() if value}


class HostAway(TasukiError):
    """The host of an agent does not answer; the message says what is known of the result."""


class ServerAway(TasukiError):
    """No server answers; the message says how to start it."""


class ServerRuns(TasukiError):
    """Another server uses the data folder, or the database; the message says which."""


class ServerFailed(TasukiError):
    """The server cannot start, or cannot go on; the message says why, and how to fix it."""


class ServerEnds(TasukiError):
    """The server was stopped during a request; the message says what is known of its result."""


class HarnessMissing(TasukiError):
    """The program of a harness is not installed."""


class LaunchFailed(TasukiError):
    """The successor could not be started."""


class PaneGone(LaunchFailed):
    """A tmux pane no longer exists, or its program ended, or tmux itself is gone."""


class StoreFailed(TasukiError):
    """A handoff could not be written."""


class InstallFailed(TasukiError):
    """A file of a harness could not be read, understood or written; nothing was changed."""


class ExtraMissing(TasukiError):
    """An optional part of tasuki is not installed; the message says which line to run."""


class AuthorFailed(TasukiError):
    """A model or an agent was asked for a draft and gave no usable answer; the message says why."""


class AgentFailed(TasukiError):
    """The agent of a running session failed, or ended; the message says what it reported."""


class Cancelled(TasukiError):
    """The user, or the program that was asked, cancelled it."""

    exit_code = 130


class ConfigInvalid(TasukiError):
    """A setting has the wrong type or an impossible value."""

    exit_code = 2


class ModelUnavailable(TasukiError):
    """An author needs a model, and none can be used."""
