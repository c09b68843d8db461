"""Where alerts are sent, and which."""

from typing import Any

from tasuki import notify
from tasuki.errors import TasukiError
from tasuki.fleet.service import Fleet
from tasuki.web.api import error_answers
from tasuki.web.handlers import AnyRequest, FormValues, TheFleet, show_page, take_form
from tasuki.web.pages.settings.frame import SettingsNotice, render_section, say_in_section
from tasuki.web.pages.settings.general import SAVED, apply_changes
from tasuki.web.views import display
from tasuki.web.views.templates import PageResponse

ALERT_MEANINGS = {
    "done": "a handoff is done",
    "failed": "a handoff failed, an agent is lost",
    "limited": "an agent is at a usage limit",
    "needs_you": "an agent waits for you, an automation stopped",
    "stuck": "nothing of a busy agent moves",
    "threshold": "a context is past its threshold",
    "unacknowledged": "a successor did not acknowledge",
}


@show_page("/settings/notifications")
def show_notifications(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Show where alerts go and which, without the addresses."""
    return _render_notifications(request, fleet)


def _render_notifications(request: AnyRequest, fleet: Fleet, **more: Any) -> PageResponse:
    notifier = fleet.notifier
    return render_section(
        request, "notifications", places=notify.list_kinds(notifier.get_addresses()), is_set=bool(notifier.addresses),
        about=notifier.kinds.split(), problem=notifier.problem,
        kinds=[(key, display.ALERT_SHAPES[key], meaning) for key, meaning in ALERT_MEANINGS.items()], **more,
    )  # fmt: skip


@take_form("/settings/notifications")
def change_notifications(request: AnyRequest, fleet: TheFleet, fields: FormValues) -> PageResponse:
    """Change where alerts go and which; an omitted address stays."""
    addresses = " ".join("".join(fields.get("notify", [""])[-1:]).split())
    changes: dict[str, Any] = {"notify_about": " ".join(fields.get("about", []))}
    if addresses or fields.get("forget"):
        changes["notify"] = addresses or None
    try:
        apply_changes(fleet, changes)
    except TasukiError as error:
        notice = SettingsNotice(str(error), is_success=False)
        return _render_notifications(request, fleet, notice=notice, values=changes, status=error_answers.get_status(error))  # fmt: skip
    return say_in_section(request, "notifications", SAVED)


@take_form("/settings/test")
def send_test(request: AnyRequest, fleet: TheFleet) -> PageResponse:
    """Send a test notification."""
    problems = fleet.notifier.test()
    message = " ".join(problems) or "Sent. Check that it arrived."
    notice = SettingsNotice(message, is_success=not problems, place="test")
    return say_in_section(request, "notifications", notice)


HANDLERS = (show_notifications, change_notifications, send_test)
