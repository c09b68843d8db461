"""The routes of the settings."""

from tasuki.web.pages.settings import general, hooks, notifications, server

HANDLERS = (*general.HANDLERS, *hooks.HANDLERS, *notifications.HANDLERS, *server.HANDLERS)
