"""`/api/alerts` and `/api/settings`: what the operator is told, and how."""

from typing import Any

import msgspec
from litestar import Router, get, patch, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import UNSET

from tasuki import notify
from tasuki.fleet import alerts
from tasuki.fleet.service import Fleet
from tasuki.web.api_agents import Limit
from tasuki.web.auth import operator_only
from tasuki.web.bodies import Seen, SettingsChange


@get("/alerts", sync_to_thread=True)
def list_alerts(fleet: NamedDependency[Fleet], limit: Limit = 200) -> dict[str, Any]:
    """Alerts, the newest first, and how many of them were not seen."""
    found = alerts.newest(fleet.database, limit)
    return {"alerts": msgspec.to_builtins(found), "unseen": alerts.unseen(fleet.database)}


@post("/alerts/seen", status_code=200, sync_to_thread=True)
def see_alerts(fleet: NamedDependency[Fleet], data: JSONBody[Seen]) -> dict[str, Any]:
    """The operator has seen the alerts up to one."""
    alerts.see(fleet.database, data.up_to)
    return {"unseen": alerts.unseen(fleet.database)}


@get("/settings", sync_to_thread=True)
def show_settings(fleet: NamedDependency[Fleet]) -> dict[str, Any]:
    """The settings of the fleet that can be changed here; of addresses only their kinds."""
    return settings_of(fleet)


@patch("/settings", sync_to_thread=True)
def change_settings(
    fleet: NamedDependency[Fleet], data: JSONBody[SettingsChange]
) -> dict[str, Any]:
    """Change settings in the user's own file; they hold at once."""
    fleet.configure(**given(data))
    return settings_of(fleet)


@post("/settings/test-notification", status_code=200, sync_to_thread=True)
def try_notifications(fleet: NamedDependency[Fleet]) -> dict[str, list[str]]:
    """Send a notification to try it; what went wrong, as sentences."""
    return {"problems": fleet.notifier.test()}


def given(change: SettingsChange) -> dict[str, Any]:
    """What of a change is to be changed."""
    named = {name: getattr(change, name) for name in change.__struct_fields__}
    return {name: value for name, value in named.items() if value is not UNSET}


def settings_of(fleet: Fleet) -> dict[str, Any]:
    """The settings as they are shown: an address may hold a key."""
    return {
        "context_threshold": fleet.threshold,
        "notify": notify.kinds(fleet.notifier.where),
        "notify_about": fleet.notifier.about.split(),
        "problem": fleet.notifier.problem,
    }


router = Router(
    "/api",
    route_handlers=[list_alerts, see_alerts, show_settings, change_settings, try_notifications],
    guards=[operator_only],
    tags=["operator"],
)
