"""Notifications: on the desktop, or by apprise to wherever the user wants them. Redacted."""

import re
import shutil
import subprocess
import sys

from tasuki.draft.redact import Redactor
from tasuki.errors import ExtraMissing
from tasuki.extras import install_line
from tasuki.plain import one_line, shown

DESKTOP = "desktop"
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9.+-]{0,30}(?=://)")
SECONDS = 10
"""Time limit of one notification."""


def has_desktop() -> bool:
    """Whether this machine has a program that shows notifications."""
    return bool(
        shutil.which("notify-send") or (sys.platform == "darwin" and shutil.which("osascript"))
    )


def places(where: str) -> list[str]:
    """The places that `where` names in words, each once."""
    return list(dict.fromkeys(where.split()))


def kinds(where: str) -> list[str]:
    """The places of `where` as they may be shown: of an address its kind alone, `ntfy://…`.

    Of what is neither an address nor `desktop` nothing is shown: it may be a key.
    """
    return [place if place == DESKTOP else _kind(place) for place in places(where)]


def _kind(address: str) -> str:
    found = _KIND.match(address)
    return f"{found[0]}://…" if found else "…"


def send(where: str, title: str, body: str) -> list[str]:
    """Send a notification to every place named in `where`, in words; what went wrong, as sentences.

    A place is `desktop`, or an address of apprise (`ntfy://topic`), which needs the extra `notify`;
    of each there is one sentence at the most. An address is never repeated in one: it may hold a key.
    """
    named = places(where)
    redactor = Redactor()
    title, body = (one_line(redactor.redact(shown(text)), 300) for text in (title, body))
    problems = []
    if DESKTOP in named and not _on_desktop(title, body):
        problems.append("There is no notify-send nor osascript here for a notification.")
    if addresses := [place for place in named if place != DESKTOP]:
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
            f"Notifications by apprise need the extra `notify`. Install it: {install_line('notify')}"
        ) from error
    problems = []
    for number, address in enumerate(addresses, 1):
        sender, which = Apprise(), f"Address {number} of the setting notify"
        if not sender.add(address):
            problems.append(f"{which} is none that apprise knows.")
        elif not sender.notify(title=title, body=body):
            said = "notification could not be delivered."
            problems.append(f"{which}: a {said}" if len(addresses) > 1 else f"A {said}")
    return problems
