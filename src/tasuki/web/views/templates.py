"""What every page shares: assets, templates, headers, how times and sizes are shown."""

import gzip
import hashlib
import time
from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from functools import lru_cache, partial
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from markupsafe import Markup, escape
from msgspec import Struct

from tasuki.draft.redact.redactor import redact
from tasuki.fleet import alerts
from tasuki.fleet.store.models import MUTED_FOR_GOOD
from tasuki.patterns import compile_pattern
from tasuki.text_safety import clean_for_display, format_size, shorten_to_line
from tasuki.web.handlers import AnyRequest, PathWord, find_refusal
from tasuki.web.views import display, markdown, parts
from tasuki.web.views.hosts import ShownHost, list_fleet_hosts
from tasuki.web.views.parts import PartHolder, RenderedPage, fill_times
from tasuki.web.views.shared_answers import SharedAnswers
from tasuki.web.views.theme import read_theme
from tasuki.web.views.undo import FIELD, PageNote, UndoOffer, add_key, find_note, keep_note

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
CACHE_FOREVER = "public, max-age=31536000, immutable"
HEADERS = {"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin"}


class StaticAsset(Struct, frozen=True):
    """A file as it is sent."""

    type: str
    content: bytes
    gzipped: bytes
    version: str
    """Characters that change with its content; they are a part of its address."""


def _load_assets() -> dict[str, StaticAsset]:
    assets = {}
    root = files("tasuki.web") / "static"
    for folder in (root, root / "vendor"):
        for file in folder.iterdir():
            suffix = file.name[file.name.rfind(".") :]
            if suffix in MEDIA_TYPES:
                content = file.read_bytes()
                version = hashlib.sha256(content).hexdigest()[:12]
                assets[file.name] = StaticAsset(
                    MEDIA_TYPES[suffix], content, gzip.compress(content, 9, mtime=0), version
                )
    return assets


ASSETS = _load_assets()


def get_asset_address(name: str) -> str:
    """Return the address of a file; another content has another address."""
    return f"/static/{name}?v={ASSETS[name].version}"


@get("/static/{name:str}", sync_to_thread=False, include_in_schema=False)
def serve_asset(name: PathWord, request: Request[Any, Any, Any]) -> Response[bytes]:
    """Serve a file of the dashboard.

    It needs no session, because the page that explains how to sign in uses it.
    """
    static_asset = ASSETS.get(name)
    if static_asset is None:
        raise NotFoundException
    headers = {**HEADERS, "Cache-Control": CACHE_FOREVER, "Vary": "Accept-Encoding"}
    body = static_asset.content
    if "gzip" in request.headers.get("accept-encoding", ""):
        body = static_asset.gzipped
        headers["Content-Encoding"] = "gzip"
    return Response(body, media_type=static_asset.type, headers=headers)


PageResponse = Response[bytes]

CONTENT_POLICY = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'",
    "connect-src 'self'", "worker-src 'self'", "manifest-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
))  # fmt: skip
"""What a page may load and send: only this server's own, and nothing inline."""
PAGE_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",  # with no-referrer a browser sends no origin of a form either
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
GZIPPED_FROM = 1400
"""Bytes; a smaller answer fits into one packet anyway."""
GZIP_LEVEL = 5
NEAR_SECONDS = 20 * 3600
"""Of a moment that comes within this time the day is not named; also in `page.js`."""


def note_place(request: AnyRequest) -> None:
    """Note the newest line of the log before anything is read: a page shows at least that."""
    request.state.newest = request.app.state.live.position.id


def render_page(
    request: AnyRequest, template: str, status: int = 0, **context: Any
) -> PageResponse:
    """Render a whole page for the browser that asks; for htmx, which replaces a part, without the frame around it.

    A template says `extends layout`, and its block `part` is what htmx may request. Without `status`
    it is that of the refusal of its form, or 200.
    """
    status = status or find_refusal(request).status
    page = render_for_all(request, template, status, **context)
    return build_page_response(request, page, status)


def render_for_all(
    request: AnyRequest, template: str, status: int = 200, **context: Any
) -> RenderedPage:
    """Render a page for all browsers that ask for the same, whatever version of it they have."""
    layout = "part.html" if request.headers.get("hx-request") else "base.html"
    holder = PartHolder()
    context = {
        **_build_frame_context(request, context.get("hosts")),
        "layout": layout,
        "part": holder.hold,
        **context,
    }
    for name in ("refused", "sentence"):
        if context.get(name):
            context[name] = display.say_for_page(context[name])
    if request.method != "GET" or status >= 400:
        context["live"] = ""  # made again it would be another page, without what was typed
    text = ENVIRONMENT.get_template(template).render(context)
    return holder.finish(text, request.state.get("newest", request.app.state.live.position.id))


def build_page_response(request: AnyRequest, page: RenderedPage, status: int = 200) -> PageResponse:
    """Build the answer of a page to one browser: what that one lacks of it."""
    known = read_known_version(request) if status == 200 else ""
    text = page.fill(known)
    if not text:
        return Response(b"", status_code=304, headers={**PAGE_HEADERS, "ETag": f'"{page.version}"'})
    answer = build_html_response(request, text, status)
    answer.headers["ETag"] = f'"{page.version}"'
    return answer


def read_known_version(request: AnyRequest) -> str:
    """Read which version of a page a browser has; empty for none."""
    return str(request.headers.get("if-none-match", "")).strip('"')


def _build_frame_context(request: AnyRequest, hosts: Sequence[ShownHost] | None) -> dict[str, Any]:
    """Build what the frame around every page shows; `hosts` where the page has listed them."""
    state = request.app.state
    unseen, newest_known = alerts.find_unseen_and_newest(state.fleet.database)
    if hosts is None:
        is_whole = not request.headers.get("hx-request")
        hosts = list_fleet_hosts(state.fleet.database) if is_whole else []
    return {
        "path": request.url.path, "bare": False, "live": "", "refused": find_refusal(request).sentence, "unseen": unseen,
        "newest_known": newest_known, "has_hosts": len(hosts) > 1,
        "version": parts.VERSION_MARK, "newest": parts.NEWEST_MARK, "server_time": parts.NOW_MARK, "theme": read_theme(request),
        "done_note": find_note(state.notices, request.query_params.get(FIELD, "")),
    }  # fmt: skip


async def share_page(
    request: AnyRequest, address: Hashable, render: Callable[[], RenderedPage]
) -> PageResponse:
    """Answer with a page that is rendered once for all browsers that ask for it at the same moment.

    Those that also have the same version of it share what they are sent.
    """
    shared: SharedAnswers[Any] = request.app.state.shared
    note = request.query_params.get(FIELD, "")
    kind = (address, request.headers.get("hx-request", ""), read_theme(request), note)

    def render_now() -> RenderedPage:
        note_place(request)  # whoever waited for an older page gets what is known now
        return render()

    page: RenderedPage = await shared.get(kind, render_now)
    is_packed = "gzip" in request.headers.get("accept-encoding", "")
    answer_kind = (*kind, page.version, page.newest, read_known_version(request), is_packed)
    answer: PageResponse = await shared.get(
        answer_kind, partial(build_page_response, request, page)
    )
    return answer


def get_own_path(request: AnyRequest) -> str:
    """Return the path of a request as a link that cannot lead to another host.

    Browsers take `//name` and `/` + backslash + `name` for another host, also with a tab
    between.
    """
    return "/" + quote(request.url.path.lstrip("/\\\t\n\r "), safe="/:@!$&'()*+,;=~-._")


def find_way_back(request: AnyRequest, default: str) -> str:
    """Find the page of this server on which a form was sent, as the browser names it."""
    try:
        came_from = urlsplit(request.headers.get("referer", ""))
    except ValueError:
        return default
    path = quote(came_from.path.replace("\\", ""), safe="/:@!$&'()*+,;=~-._%")
    is_own = came_from.netloc == request.headers.get("host", "")
    if not is_own or not path.startswith("/") or path.startswith("//"):
        return default
    return f"{path}?{quote(came_from.query, safe='=&%+,-._~')}" if came_from.query else path


def build_html_response(request: AnyRequest, html: str, status: int = 200) -> PageResponse:
    """Build a response of HTML, compressed where the browser accepts that."""
    html = fill_times(html, format_span)
    body, headers = html.encode("utf-8", "replace"), dict(PAGE_HEADERS)
    if len(body) >= GZIPPED_FROM and "gzip" in request.headers.get("accept-encoding", ""):
        body = gzip.compress(body, GZIP_LEVEL, mtime=0)
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return Response(body, status_code=status, media_type="text/html", headers=headers)


def build_text_response(text: str, name: str, *, download: bool) -> Response[bytes]:
    """Build a response of a text that no browser takes for a page."""
    headers: dict[str, Any] = dict(PAGE_HEADERS)
    headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    if download:
        headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return Response(text.encode("utf-8", "replace"), media_type="text/plain", headers=headers)


def redirect(
    request: AnyRequest, address: str, says: UndoOffer | PageNote | None = None
) -> PageResponse:
    """Redirect to another page after a change; htmx has its own header for that.

    The next page says what was done, and offers to undo it; a page that stays gets that note.
    """
    request.app.state.fleet.changes.count_change()
    html = ""
    if says:
        key, note = keep_note(request.app.state.notices, says)
        address, html = add_key(address, key), render_macro("undo_macros.html", "note", note)
    if request.headers.get("hx-request"):
        answer = build_html_response(request, html)
        answer.headers["HX-Redirect"] = address
        return answer
    return Response(b"", status_code=303, headers={**PAGE_HEADERS, "Location": address})


def render_macro(template: str, macro: str, *values: Any) -> str:
    """Render a macro of a template with some values."""
    return str(getattr(ENVIRONMENT.get_template(template).module, macro)(*values))


# -- times, sizes and words --------------------------------------------------------------


def format_span(seconds: float) -> str:
    """Format a time span in its greatest unit: `9 s`, `12 min`, `3 h`, `9 d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def format_exact_time(moment: float) -> str:
    """Format a moment on the server's clock: `Sat 21 Nov 2026, 14:27:18 UTC+01:00`."""
    local = _convert_to_local(moment)
    return f"{local:%a %-d %b %Y, %H:%M:%S} UTC{local.isoformat()[-6:]}"


def format_ago(moment: float | None, suffix: str = "") -> Markup:
    """Format how long ago a moment was, with the exact one on hover.

    `page.js` keeps it counting.
    """
    if moment is None:
        return Markup("")
    return Markup(
        '<time class="num muted" datetime="{}" title="{}" data-ago="{}">{}{}</time>'
    ).format(format_iso(moment), format_exact_time(moment), suffix, count_since(moment), suffix)


def count_since(moment: float) -> Markup:
    """Return what becomes the time since a moment when the page is sent."""
    return Markup("\x01{:.3f}\x01").format(max(moment, 0.0))


MOMENT_FORMS = {
    "clock": ("%H:%M:%S", "%-d %b %H:%M"),
    "moment": ("%H:%M", "%-d %b %H:%M"),
    "hour": ("%H:%M", "%H:%M"),
    "day": ("today", "%-d %b"),
}
"""How a moment is written if it is today, and on another day; of another year `day` has that too."""


def format_moment(moment: float | None, kind: str = "moment") -> Markup:
    """Format a moment on the server's clock, with the exact one on hover; empty where it is unknown.

    `page.js` writes it as `kind`, one of `MOMENT_FORMS`, on the clock of the browser.
    """
    if moment is None:
        return Markup("")
    now = time.time()
    local, local_now = _convert_to_local(moment), _convert_to_local(now)
    # A time of day alone names a moment of today, or of the coming night.
    is_today = local.date() == local_now.date() or 0 < moment - now < NEAR_SECONDS
    form = MOMENT_FORMS[kind][0 if is_today else 1]
    if kind == "day" and not is_today and local.year != local_now.year:
        form += " %Y"
    return Markup('<time class="num" datetime="{}" title="{}" data-as="{}">{}</time>').format(
        format_iso(moment), format_exact_time(moment), kind, local.strftime(form)
    )


def format_mute(until: float | None) -> str:
    """Format until when an agent is muted, as words; empty where it is not."""
    if until is None or until <= time.time():
        return ""
    if until >= MUTED_FOR_GOOD:
        return "muted"
    return Markup("muted until {}").format(format_moment(until))


def format_calendar_day(moment: float | None) -> str:
    """Format the day of a moment in full: `Saturday 21 November 2026`; empty where it is unknown."""
    return "" if moment is None else _convert_to_local(moment).strftime("%A %-d %B %Y")


def format_field_time(moment: float) -> str:
    """Format a moment as a field of date and time has it, in the server's own time."""
    return _convert_to_local(moment).strftime("%Y-%m-%dT%H:%M")


def format_duration(seconds: float) -> str:
    """Format how long something took: `0.4 s`, `39.4 s`, `2 m 41 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} m {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} m"


def format_count(number: int) -> str:
    """Format a count of tokens: `950`, `176k`, `1.2M`."""
    if number < 1000:
        return str(number)
    if number < 1_000_000:
        return f"{number / 1000:.0f}k"
    return f"{number / 1_000_000:.1f}M".replace(".0M", "M")


def format_reason(text: str) -> str:
    """Format why a handoff was made, on one line; the fleet's own reason in words."""
    return "context limit" if text == "context_limit" else shorten_to_line(text, 120)


def begin_sentence(text: str) -> str:
    """Begin a text with a capital letter; the rest stays as it is."""
    return text[:1].upper() + text[1:]


def parse_moment(text: str) -> float | None:
    """Parse a time of a thread or a handoff (ISO 8601) into seconds since 1970; None for none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _convert_to_local(moment: float) -> datetime:
    return datetime.fromtimestamp(min(max(moment, 0.0), 32503680000.0)).astimezone()


def format_iso(moment: float) -> str:
    """Format a moment for programs."""
    return _convert_to_local(moment).isoformat(timespec="seconds")


def _finalize_value(value: Any) -> Any:
    """Clean what an expression puts into a page: no secrets, control characters, direction marks."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, str):
        return _clean_value(value) if len(value) <= MOST_REMEMBERED else _redact_value(value)
    return "" if value is None else value


def _redact_value(value: str) -> str:
    return redact(clean_for_display(value))[0]


MOST_REMEMBERED = 200
_clean_value = lru_cache(8_192)(_redact_value)
"""Short values are many, and stand in pages again and again."""


_LASTING = compile_pattern(
    r"(?i)don.t ask|always|session|auto.?mode|auto.?accept|accept edits|remember|never ask|bypass"
)


def is_lasting(label: str) -> bool:
    """Whether a choice also allows what is asked for later: it is never the main button."""
    return bool(_LASTING.search(label))


_SIGN = compile_pattern(r"\u27e8[^\u27e9]*\u27e9|[\u2423\u21e5\u23ce]+")


def mark_signs(shown: str) -> Markup:
    """Mark the signs in a text that `show_hidden` made: they are tasuki's, and not of the text."""
    return Markup(_SIGN.sub(r'<b class="sign">\g<0></b>', str(escape(shown))))  # noqa: S704


ENVIRONMENT = Environment(
    loader=PackageLoader("tasuki.web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
    finalize=_finalize_value,
)
ENVIRONMENT.filters.update(
    ago=format_ago, clock=partial(format_moment, kind="clock"), iso=format_iso, markdown=markdown.render_markdown, size=format_size,
    counted=count_since, sentence=begin_sentence, field_time=format_field_time, hour=partial(format_moment, kind="hour"), moment=format_moment, day=partial(format_moment, kind="day"), reason=format_reason, fold=markdown.fold_document, for_page=display.say_for_page, harness_title=display.get_harness_title, is_lasting=is_lasting, signs=mark_signs, thousands=format_count, took=format_duration,
)  # fmt: skip
ENVIRONMENT.globals.update(asset=get_asset_address, zip=zip)
