"""Whether somebody is logged in to a harness on this host, by what its program leaves behind.

Nothing is run and no key is read. A program may keep its login elsewhere, so its absence is a hint,
never a proof.
"""

import sys
from typing import Literal

from tasuki.harness import registry as harnesses


def find_login(name: str) -> Literal["yes", "no", "unknown"]:
    """Tell whether traces of a login to a harness are on this host."""
    found = harnesses.is_signed_in(harnesses.get_harness(name))
    if found:
        return "yes"
    return "unknown" if found is None or sys.platform == "darwin" else "no"  # macOS has a keychain
