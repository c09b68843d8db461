"""What went wrong, as a page: the sentence, and where to go on."""

from typing import Any

from litestar.exceptions import HTTPException, ValidationException

from tasuki.errors import TasukiError
from tasuki.web import answers
from tasuki.web.gate import API
from tasuki.web.pages import frame, login
from tasuki.web.pages.frame import Asked, Page
from tasuki.web.sessions import current_session

TITLES = {400: "Not possible", 403: "Refused", 404: "Nothing here", 409: "Not now", 503: "Away"}


def of_page(request: Asked, error: Exception) -> Page:
    """Any error of a page, with the status and the sentence that the API gives it."""
    if isinstance(error, HTTPException) and error.status_code == 401:
        if request.headers.get("hx-request"):
            return frame.again()
        return login.sign_in(request)
    answer = _answer(request, error)
    content: dict[str, Any] = answer.content
    status = answer.status_code or 500
    title = TITLES.get(status, "That failed")
    if request.headers.get("hx-request"):
        return frame.answered(
            request, frame.piece("macros.html", "refused", content["error"]), status
        )
    known = current_session(request) is not None
    again = frame.own_path(request) if status != 404 and request.method == "GET" else ""
    return frame.page(
        request, "error.html", status, title=title, sentence=content["error"], bare=not known, again=again,
    )  # fmt: skip


def anywhere(request: Asked, error: HTTPException) -> Page | answers.Answer:
    """What Litestar refuses before a route is known: a page for a browser, data for a program."""
    asks = "text/html" in request.headers.get("accept", "")
    if asks and not request.url.path.startswith(API):
        return of_page(request, error)
    return answers.refused(request, error)


def _answer(request: Asked, error: Exception) -> answers.Answer:
    if isinstance(error, TasukiError):
        return answers.failed(request, error)
    if isinstance(error, ValidationException):
        return answers.invalid(request, error)
    if isinstance(error, HTTPException):
        return answers.refused(request, error)
    return answers.unexpected(request, error)


HANDLERS: dict[Any, Any] = dict.fromkeys(
    (TasukiError, ValidationException, HTTPException, Exception), of_page
)
"""For the router of the pages, by the class of what was raised."""
