"""What one browser chose for itself: its theme, and whether it shows notifications."""

from litestar import get, post

from tasuki.web.api import forms
from tasuki.web.handlers import AnyRequest, FormFields
from tasuki.web.pages.settings.frame import render_section
from tasuki.web.views import templates, theme
from tasuki.web.views.templates import PageResponse
from tasuki.web.views.theme import ThemeChoice


@get("/settings/browser", sync_to_thread=False)
def show_browser(request: AnyRequest) -> PageResponse:
    """Show what this browser chose."""
    return render_section(request, "browser", themes=theme.THEMES)


@post("/settings/theme", sync_to_thread=False)
def choose_theme(request: AnyRequest, form: FormFields) -> PageResponse:
    """Let this browser keep a theme."""
    choice = forms.fill_body(ThemeChoice, {"theme": form.get("theme", "")})
    answer = templates.redirect(request, "/settings/browser")
    theme.keep_theme(request, answer, choice.theme)
    return answer


HANDLERS = (show_browser, choose_theme)
