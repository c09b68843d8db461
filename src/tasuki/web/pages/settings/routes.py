"""The routes of the settings."""

from tasuki.web.pages.settings import doctor, general, hooks, notifications, server

HANDLERS = (
    *general.HANDLERS,
    *doctor.HANDLERS,
    *hooks.HANDLERS,
    *notifications.HANDLERS,
    *server.HANDLERS,
)
