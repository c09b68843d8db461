"""Adds entries to a session until it is killed: `append_forever.py FILE`."""

import sys
from pathlib import Path

from tasuki.session.pi_store.manager import SessionManager
from tasuki.session.pi_store.messages import build_user_message

manager = SessionManager.open(Path(sys.argv[1]))
print("writing", flush=True)
number = 0
while True:
    number += 1
    manager.append_message(build_user_message(f"number {number} " + "x" * 5000))
