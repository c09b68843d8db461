"""Notifications, redacted: on the desktop, or by apprise to wherever the user wants them."""

import shutil
import subprocess
import sys

from tasuki.draft.redact.redactor import Redactor
from tasuki.errors import ExtraMissing
from tasuki.patterns import compile_pattern

DESKTOP = "desktop"
_KIND = compile_pattern(r"[A-Za-z][A-Za-z0-9.+-]{0,30}(?=://)")
SECONDS = 10
"""Time limit of one notification."""


def has_desktop() -> bool:
    """Tell whether this machine has a program that shows notifications."""
    return bool(_build_desktop_command("", ""))


def _build_desktop_command(title: str, body: str) -> list[str]:
    """Build the command that shows a notification on the desktop; empty without such a program."""
    if shutil.which("notify-send"):
        return ["notify-send", "--app-name=tasuki", "--", title, body]
    if sys.platform == "darwin" and shutil.which("osascript"):
        script = "on run {t, b}\ndisplay notification b with title t\nend run"
        return ["osascript", "-e", script, title, body]
    return []


def list_places(targets: str) -> list[str]:
    """List the places that `targets` names in words, each once."""
    return list(dict.fromkeys(targets.split()))


def list_kinds(targets: str) -> list[str]:
    """List the places of `targets` as they may be shown: only the kind of an address, `ntfy://…`.

    Anything that is neither an address nor `desktop` is hidden: it may be a key.
    """
    kinds = ((place, _KIND.match(place)) for place in list_places(targets))
    return [
        place if place == DESKTOP else f"{kind[0]}://…" if kind else "…" for place, kind in kinds
    ]


def send_notification(targets: str, title: str, body: str, link: str = "") -> list[str]:
    """Send a notification to every place in `targets`, in words; return problems as sentences.

    `link` is the address of the page that it is about; it stands on a line of its own.
    A place is `desktop`, or an address of apprise (`ntfy://topic`), which needs the extra
    `notify`. Each has at most one sentence. An address is never repeated in one: it may hold a
    key.
    """
    named = list_places(targets)
    redactor = Redactor()
    title, body = (redactor.redact_line(text, 300) for text in (title, body))
    body = f"{body}\n{link}" if link else body
    problems = []
    if DESKTOP in named and not _show_on_desktop(title, body):
        problems.append("Notifications need notify-send or osascript, and neither is installed.")
    if addresses := [place for place in named if place != DESKTOP]:
        problems += _send_by_apprise(addresses, title, body)
    return problems


def _show_on_desktop(title: str, body: str) -> bool:
    """Show it on the desktop; return whether a program for that was found and accepted it."""
    if not (command := _build_desktop_command(title, body)):
        return False
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _send_by_apprise(addresses: list[str], title: str, body: str) -> list[str]:
    try:
        from apprise import Apprise
    except ModuleNotFoundError as error:
        from tasuki.config.installation import build_install_line

        raise ExtraMissing(
            f"Notifications by apprise need the extra `notify`. Install it: {build_install_line('notify')}"
        ) from error
    problems = []
    for number, address in enumerate(addresses, 1):
        sender, address_name = Apprise(), f"Address {number} of the setting notify"
        if not sender.add(address):
            problems.append(f"{address_name} is not an address that apprise supports.")
        elif not sender.notify(title=title, body=body):
            failure = "notification could not be delivered."
            problems.append(
                f"{address_name}: a {failure}" if len(addresses) > 1 else f"A {failure}"
            )
    return problems
