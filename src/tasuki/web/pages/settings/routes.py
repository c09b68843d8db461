"""The routes of the settings."""

from tasuki.web.pages.settings import browser, doctor, general, hooks, notifications, server

HANDLERS = (
    *general.HANDLERS,
    *browser.HANDLERS,
    *doctor.HANDLERS,
    *hooks.HANDLERS,
    *notifications.HANDLERS,
    *server.HANDLERS,
)
