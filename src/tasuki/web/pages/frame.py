"""What every page shares: its templates, its headers, how times and sizes are shown."""

import gzip
import time
from datetime import datetime
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from litestar import Request, Response
from markupsafe import Markup

from tasuki.fleet import alerts
from tasuki.plain import shown
from tasuki.web import assets
from tasuki.web.pages import markdown

Asked = Request[Any, Any, Any]
Page = Response[bytes]

POLICY = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'",
    "connect-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
))  # fmt: skip
"""What a page may load and send: this server's own, and nothing that stands in the page itself."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",  # with no-referrer a browser tells no origin of a form either
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
GZIPPED_FROM = 1400
"""Bytes: less goes in one packet anyway."""
LEVEL = 5


def page(request: Asked, template: str, status: int = 200, **context: Any) -> Page:
    """A whole page; for htmx, which replaces a part, without the frame around it.

    A template says `extends layout`, and what htmx may ask for stands in its block `part`.
    """
    layout = "part.html" if request.headers.get("hx-request") else "base.html"
    context = {**_around(request), "layout": layout, **context}
    text = ENVIRONMENT.get_template(template).render(context)
    return answered(request, text, status)


def _around(request: Asked) -> dict[str, Any]:
    """What the frame around every page shows."""
    state = request.app.state
    unseen, newest_known = alerts.known(state.fleet.database)
    return {
        "path": request.url.path, "bare": False, "live": "", "newest": state.live.position,
        "unseen": unseen, "newest_known": newest_known,
    }  # fmt: skip


def own_path(request: Asked) -> str:
    """The path of a request as a link that cannot lead to another host.

    Browsers take `//name` and `/\\name` for another host, also with a tab between.
    """
    return "/" + quote(request.url.path.lstrip("/\\\t\n\r "), safe="/:@!$&'()*+,;=~-._")


def answered(request: Asked, html: str, status: int = 200) -> Page:
    """HTML as an answer, compressed where the browser takes that."""
    body, headers = html.encode("utf-8", "replace"), dict(HEADERS)
    if len(body) >= GZIPPED_FROM and "gzip" in request.headers.get("accept-encoding", ""):
        body = gzip.compress(body, LEVEL, mtime=0)
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return Response(body, status_code=status, media_type="text/html", headers=headers)


def moved(request: Asked, where: str) -> Page:
    """Go to another page behind a change; htmx is told in its own words."""
    if request.headers.get("hx-request"):
        return Response(b"", status_code=200, headers={**HEADERS, "HX-Redirect": where})
    return Response(b"", status_code=303, headers={**HEADERS, "Location": where})


def again() -> Page:
    """Tell htmx to load the whole page anew."""
    return Response(b"", status_code=401, headers={**HEADERS, "HX-Refresh": "true"})


def piece(template: str, macro: str, *values: Any) -> str:
    """What a macro of a template makes of some values."""
    return str(getattr(ENVIRONMENT.get_template(template).module, macro)(*values))


# -- times and sizes -------------------------------------------------------------------


def span(seconds: float) -> str:
    """A time span in its greatest unit: `9 s`, `12 min`, `3 h`, `9 d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def exactly(at: float) -> str:
    """A moment in the server's own time: `Sat 21 Nov 2026, 14:27:18`."""
    return _local(at).strftime("%a %-d %b %Y, %H:%M:%S")


def ago(at: float | None, suffix: str = "") -> Markup:
    """How long ago a moment was, with the exact one on hover; `page.js` counts it on."""
    if at is None:
        return Markup("")
    return Markup(
        '<time class="num muted" datetime="{}" title="{}" data-ago="{}">{}{}</time>'
    ).format(iso(at), exactly(at), suffix, span(time.time() - at), suffix)


def clock(at: float | None) -> Markup:
    """The time of day of a moment, and the day where it is another one."""
    if at is None:
        return Markup("")
    local, form = _local(at), "%H:%M:%S"
    if local.date() != _local(time.time()).date():
        form = "%-d %b %H:%M"
    return Markup('<time class="num" datetime="{}" title="{}">{}</time>').format(
        iso(at), exactly(at), local.strftime(form)
    )


def took(seconds: float) -> str:
    """How long something took: `0.4 s`, `39.4 s`, `2 m 41 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} m {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} m"


def thousands(number: int) -> str:
    """A count of tokens: `950`, `176k`, `1.2M`."""
    if number < 1000:
        return str(number)
    if number < 1_000_000:
        return f"{number / 1000:.0f}k"
    return f"{number / 1_000_000:.1f}M".replace(".0M", "M")


def size(number: int) -> str:
    """Bytes with their unit."""
    return f"{number:,} bytes" if number < 10_000 else f"{number / 1000:,.0f} kB"


def _local(at: float) -> datetime:
    return datetime.fromtimestamp(min(max(at, 0.0), 32503680000.0)).astimezone()


def iso(at: float) -> str:
    """A moment for programs."""
    return _local(at).isoformat(timespec="seconds")


def _finalized(value: Any) -> Any:
    """What an expression puts into a page: no control characters, no direction marks."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, str):
        return shown(value)
    return "" if value is None else value


ENVIRONMENT = Environment(
    loader=PackageLoader("tasuki.web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
    finalize=_finalized,
)
ENVIRONMENT.filters.update(
    ago=ago, clock=clock, exactly=exactly, iso=iso, markdown=markdown.rendered, size=size, span=span,
    thousands=thousands, took=took,
)  # fmt: skip
ENVIRONMENT.globals.update(asset=assets.address, now=time.time)
