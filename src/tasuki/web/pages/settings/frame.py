"""The frame of every section of the settings: its navigation, and what came of a change."""

from typing import Any

from msgspec import Struct

from tasuki.config import settings
from tasuki.web.handlers import AnyRequest, find_refusal
from tasuki.web.views import templates
from tasuki.web.views.templates import PageResponse


class SettingsSection(Struct, frozen=True):
    """A section of the settings, with a page of its own."""

    key: str
    word: str
    href: str
    anchors: str = ""
    """Names of its parts, which `/settings#NAME` once showed; `settings.js` leads them here."""


SECTIONS = (
    SettingsSection("general", "General", "/settings"),
    SettingsSection("automation", "Automatic handoff", "/settings/automation", "automation"),
    SettingsSection("hooks", "Programs that report", "/settings/hooks", "hooks"),
    SettingsSection("notifications", "Notifications", "/settings/notifications", "notifications"),
    SettingsSection("browser", "This browser", "/settings/browser", "browser"),
    SettingsSection("browsers", "Signed-in browsers", "/settings/browsers", "sessions"),
    SettingsSection("doctor", "Doctor", "/doctor"),
    SettingsSection("server", "This server", "/settings/server", "server"),
)  # fmt: skip
"""In the order of the navigation. The template of a section is `settings_KEY.html`."""
ADDRESSES = {section.key: section.href for section in SECTIONS}


class SettingsNotice(Struct, frozen=True):
    """What a section says after a change, next to its form."""

    message: str = ""
    is_success: bool = True
    place: str = ""
    """Which of its forms; empty where it has one."""


def render_section(request: AnyRequest, key: str, **context: Any) -> PageResponse:
    """Render a section, with why its form was refused, or what the last change left to say."""
    refusal = find_refusal(request)
    found = request.app.state.notices.find(request.query_params.get("said", ""), SettingsNotice)
    notice = found or SettingsNotice()
    if refusal.sentence:
        notice = SettingsNotice(refusal.sentence, is_success=False)
    path = settings.find_user_file()
    file = settings.format_path(path) if path else "the file that TASUKI_CONFIG names"
    return templates.render_page(
        request, f"settings_{key}.html", sections=SECTIONS, here=key, file=file, said=notice.message,
        fine=notice.is_success, place=notice.place, values=refusal.values, **context,
    )  # fmt: skip


def say_in_section(request: AnyRequest, key: str, notice: SettingsNotice) -> PageResponse:
    """Redirect to a section, which says what came of a change."""
    said = request.app.state.notices.add(notice)
    return templates.redirect(request, f"{ADDRESSES[key]}?said={said}")
