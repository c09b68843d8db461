"""What each step of a handoff does, under its name in `workflow.py`."""

from tasuki.fleet.outgoing import Outgoing
from tasuki.fleet.successor import Successor


class Steps(Outgoing, Successor):
    """All steps."""
