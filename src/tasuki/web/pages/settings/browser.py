"""What one browser chose for itself: its theme, and notifications while no page is open."""

from litestar import Response, get, post
from litestar.di import NamedDependency

from tasuki.fleet.push import subscriptions
from tasuki.fleet.push.subscriptions import PushSubscription
from tasuki.fleet.service import Fleet
from tasuki.web.api import bodies
from tasuki.web.api.bodies import BrowserSubscription, ThemeChoice
from tasuki.web.pages.settings.frame import render_section
from tasuki.web.security.sessions import find_current_session, find_proxy_user
from tasuki.web.views import templates, theme
from tasuki.web.views.templates import AnyRequest, PageResponse

FormFields = NamedDependency[dict[str, str]]


@get("/settings/browser", sync_to_thread=False, include_in_schema=False)
def show_browser(request: AnyRequest) -> PageResponse:
    """Show what this browser chose."""
    return render_section(request, "browser", themes=theme.THEMES)


@post("/settings/theme", sync_to_thread=False, include_in_schema=False)
def choose_theme(request: AnyRequest, form: FormFields) -> PageResponse:
    """Let this browser keep a theme."""
    choice = bodies.fill_body(ThemeChoice, {"theme": form.get("theme", "")})
    answer = templates.redirect(request, "/settings/browser")
    theme.keep_theme(request, answer, choice.theme)
    return answer


@get("/settings/push", sync_to_thread=True, include_in_schema=False)
def show_push(request: AnyRequest, fleet: NamedDependency[Fleet]) -> Response[dict[str, str]]:
    """Show the key with which this browser subscribes, and a mark that changes with its session.

    The key is empty where no push service would be used: browsers subscribe on pages with HTTPS
    alone. Raises StoreFailed.
    """
    is_public = request.app.state.hosts.is_public(request.headers.get("host", ""))
    key = fleet.push.load_identity().public_key if is_public else ""
    session = find_current_session(request)
    content = {"key": key, "mark": str(session.id) if session else ""}
    return Response(content, headers=templates.PAGE_HEADERS)


@post("/settings/push", sync_to_thread=True, include_in_schema=False)
def subscribe_browser(
    request: AnyRequest, fleet: NamedDependency[Fleet], form: FormFields
) -> PageResponse:
    """Send alerts to this browser also while it shows no page."""
    names = ("endpoint", "public_key", "secret")
    body = bodies.fill_body(BrowserSubscription, {name: form.get(name, "") for name in names})
    subscriptions.check_endpoint(body.endpoint)
    session, user = find_current_session(request), find_proxy_user(request)
    subscriptions.add_subscription(fleet.database, fleet.host, PushSubscription(
        body.endpoint, body.public_key, body.secret, session.id if session else None,
        user.name if user and not session else "",
    ))  # fmt: skip
    return templates.build_html_response(request, "")


@post("/settings/push/end", sync_to_thread=True, include_in_schema=False)
def unsubscribe_browser(
    request: AnyRequest, fleet: NamedDependency[Fleet], form: FormFields
) -> PageResponse:
    """Send nothing to this browser any more."""
    subscriptions.remove_subscription(fleet.database, form.get("endpoint", ""))
    return templates.build_html_response(request, "")


HANDLERS = (show_browser, choose_theme, show_push, subscribe_browser, unsubscribe_browser)
