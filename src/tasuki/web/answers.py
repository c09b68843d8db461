"""What went wrong, as `{"error": sentence, "kind": name}` and a status."""

import logging
from collections.abc import Mapping
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException, SerializationException, ValidationException
from sqlalchemy.exc import DBAPIError

from tasuki import errors
from tasuki.draft.redact import redact
from tasuki.fleet.database import is_gone
from tasuki.fleet.failures import StepFailed
from tasuki.fleet.intake import Overloaded
from tasuki.plain import one_line, shown

logger = logging.getLogger("tasuki.web")

STATUS: Mapping[type[errors.TasukiError], int] = {
    errors.AgentNotFound: 404,
    errors.PersonaNotFound: 404,
    errors.HandoffNotFound: 404,
    errors.ThreadNotFound: 404,
    errors.ThreadUnreadable: 400,
    errors.ConfigInvalid: 400,
    errors.NotPossible: 400,
    errors.UsageError: 400,
    errors.HarnessMissing: 400,
    errors.AlreadyUnderWay: 409,
    errors.OtherHost: 409,
    errors.Refused: 409,
    StepFailed: 409,
    errors.LaunchFailed: 502,
    Overloaded: 503,
    errors.ServerEnds: 503,
    errors.StoreFailed: 507,
}
"""By the class of an error, or of one that it descends from; 500 for others."""

RENAMED = {"in_state": "state"}
"""Parameters whose name Litestar takes for something else."""
Asked = Request[Any, Any, Any]
Answer = Response[dict[str, Any]]


def status_of(error: errors.TasukiError) -> int:
    """The status of an error."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def failed(_: Asked, error: errors.TasukiError) -> Answer:
    """An error that tasuki raised on purpose."""
    details = error.details if isinstance(error, errors.AlreadyUnderWay) else {}
    if isinstance(error, StepFailed):
        details = {"code": error.code}
    return _answer(status_of(error), str(error), kind=type(error).__name__, **details)


def invalid(_: Asked, error: ValidationException) -> Answer:
    """A body or a query that is not what it should be: each wrong field by its name."""
    said = [_field(one) for one in error.extra] if isinstance(error.extra, list) else []
    return _answer(400, " ".join(said) or str(error.detail), kind="UsageError")


def refused(request: Asked, error: HTTPException) -> Answer:
    """What Litestar refuses: no such path, a body that is too large or no JSON, no token."""
    detail = error.detail
    if isinstance(error.__cause__, SerializationException) or (
        error.status_code == 400 and request.method != "GET"
    ):
        detail = f"The body cannot be read: {error.__cause__ or error.detail}."
    elif error.status_code == 404:
        detail = f"There is nothing at {one_line(request.url.path, 200)}. What there is: /schema"
    elif error.status_code == 405:
        detail = f"{request.method} is not possible at {one_line(request.url.path, 200)}."
    elif error.status_code == 413:
        detail = "The body is too large: at most 1 MiB."
    kind = {401: "Unauthorized", 404: "NotFound"}.get(error.status_code, "UsageError")
    answer = _answer(error.status_code, detail, kind=kind)
    answer.headers.update(error.headers or {})
    return answer


def too_deep(_: Asked, error: RecursionError) -> Answer:
    """A body whose brackets never end."""
    return _answer(400, "The body cannot be read: it is nested too deeply.", kind="UsageError")


def unexpected(request: Asked, error: Exception) -> Answer:
    """A fault of tasuki's own, or of the database; the log tells more."""
    if isinstance(error, DBAPIError) and is_gone(error):
        return _answer(503, "The database does not answer. Try again.", kind="StoreFailed")
    path = one_line(request.url.path, 200)
    logger.error("%s %s failed", request.method, path, exc_info=error)
    return _answer(
        500, "That failed, by a fault of tasuki's. The server's log says more.", kind="TasukiError"
    )


def _field(problem: Any) -> str:
    """One wrong field as a sentence."""
    key, message = problem.get("key", ""), str(problem.get("message", "")).rstrip(".")
    if key == "data":  # Litestar's word for the body
        return "A body of JSON is needed." if message == "'data'" else f"The body: {message}."
    key = RENAMED.get(key, key)
    return f"`{key}`: {message}." if key else f"{message}."


def _answer(status: int, sentence: str, **more: Any) -> Answer:
    content = {"error": redact(shown(sentence))[0], **more}
    return Response(content, status_code=status, media_type="application/json")


HANDLERS: dict[Any, Any] = {
    errors.TasukiError: failed,
    ValidationException: invalid,
    HTTPException: refused,
    RecursionError: too_deep,
    Exception: unexpected,
}
"""For Litestar, by the class of what was raised."""
