"""Adds entries to a session until it is killed: `append_forever.py FILE`."""

import sys
from pathlib import Path

from tasuki.session.manager import SessionManager
from tasuki.session.messages import user_message

manager = SessionManager.open(Path(sys.argv[1]))
print("writing", flush=True)
number = 0
while True:
    number += 1
    manager.append_message(user_message(f"number {number} " + "x" * 5000))
