"""Notifications: on the desktop, or by apprise to wherever the user wants them. Redacted."""

import shutil
import subprocess
import sys

from tasuki.draft.redact import Redactor
from tasuki.errors import ExtraMissing
from tasuki.plain import one_line

DESKTOP = "desktop"
SECONDS = 10
"""Time limit of one notification."""


def has_desktop() -> bool:
    """Whether this machine has a program that shows notifications."""
    return bool(
        shutil.which("notify-send") or (sys.platform == "darwin" and shutil.which("osascript"))
    )


def send(where: str, title: str, body: str) -> list[str]:
    """Send a notification to every place named in `where`, in words; what went wrong, as sentences.

    A place is `desktop`, or an address of apprise (`ntfy://topic`), which needs the extra `notify`.
    An address is never repeated in a sentence: it may hold a key.
    """
    places = where.split()
    redactor = Redactor()
    title, body = (one_line(redactor.redact(text), 300) for text in (title, body))
    problems = []
    if DESKTOP in places and not _on_desktop(title, body):
        problems.append("There is no notify-send nor osascript here for a notification.")
    if addresses := [place for place in places if place != DESKTOP]:
        problems += _by_apprise(addresses, title, body)
    return problems


def _on_desktop(title: str, body: str) -> bool:
    """Show it on the desktop; whether a program for that was found and took it."""
    if shutil.which("notify-send"):
        command = ["notify-send", "--app-name=tasuki", "--", title, body]
    elif sys.platform == "darwin" and shutil.which("osascript"):
        script = "on run {t, b}\ndisplay notification b with title t\nend run"
        command = ["osascript", "-e", script, title, body]
    else:
        return False
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _by_apprise(addresses: list[str], title: str, body: str) -> list[str]:
    try:
        from apprise import Apprise
    except ModuleNotFoundError as error:
        raise ExtraMissing(
            "Notifications by apprise need the extra `notify`. Install it: pip install 'tasuki[notify]'"
        ) from error
    sender = Apprise()
    understood = [sender.add(address) for address in addresses]
    problems = [
        f"Address {number} of the setting notify is none that apprise knows."
        for number, fine in enumerate(understood, 1)
        if not fine
    ]
    if any(understood) and not sender.notify(title=title, body=body):
        problems.append("A notification could not be delivered.")
    return problems
