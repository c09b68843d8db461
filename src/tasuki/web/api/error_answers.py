"""Errors as answers of the HTTP API: a status, a sentence, and the class of the error."""

import logging
from collections.abc import Mapping
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException, SerializationException, ValidationException
from sqlalchemy.exc import DBAPIError

from tasuki import errors
from tasuki.draft.redact.redactor import redact
from tasuki.fleet.hooks.intake import IntakeOverloaded
from tasuki.fleet.store.database import is_temporary
from tasuki.fleet.store.failures import StepFailed
from tasuki.text_safety import clean_for_display, shorten_to_line
from tasuki.web.api.wrong_values import describe_wrong_value

logger = logging.getLogger("tasuki.web")

STATUS_BY_ERROR: Mapping[type[errors.TasukiError], int] = {
    errors.AgentNotFound: 404,
    errors.PersonaNotFound: 404,
    errors.HandoffNotFound: 404,
    errors.HostNotFound: 404,
    errors.ThreadNotFound: 404,
    errors.ThreadUnreadable: 400,
    errors.ConfigInvalid: 400,
    errors.NotPossible: 400,
    errors.NoLongerPossible: 410,
    errors.UsageError: 400,
    errors.HarnessMissing: 400,
    errors.AlreadyUnderWay: 409,
    errors.HostAway: 409,
    errors.Refused: 409,
    StepFailed: 409,
    errors.LaunchFailed: 502,
    IntakeOverloaded: 503,
    errors.ServerEnds: 503,
    errors.StoreFailed: 507,
}
"""The status by the class of an error, or of one that it descends from; 500 for others."""

PARAMETER_NAMES = {"in_state": "state"}
"""Parameters whose own name would have another meaning for Litestar."""
JsonResponse = Response[dict[str, Any]]


def get_status(error: errors.TasukiError) -> int:
    """Return the status of an error."""
    return next(
        (STATUS_BY_ERROR[kind] for kind in type(error).__mro__ if kind in STATUS_BY_ERROR), 500
    )


def handle_tasuki_error(_: Request[Any, Any, Any], error: errors.TasukiError) -> JsonResponse:
    """Answer an error that tasuki raised on purpose."""
    details = error.details if isinstance(error, errors.AlreadyUnderWay) else {}
    if isinstance(error, StepFailed):
        details = {"code": error.code}
    return _build_answer(get_status(error), str(error), kind=type(error).__name__, **details)


def handle_invalid(request: Request[Any, Any, Any], error: ValidationException) -> JsonResponse:
    """Answer an invalid body or query: each wrong field by its name, and what to enter."""
    wrong = error.extra if isinstance(error.extra, list) else []
    problems = [_format_field(one, request) for one in wrong]
    return _build_answer(400, " ".join(problems) or str(error.detail), kind="UsageError")


def handle_http_error(request: Request[Any, Any, Any], error: HTTPException) -> JsonResponse:
    """Answer what Litestar refuses: no such path, a too large body, no JSON, no token."""
    detail = error.detail
    if isinstance(error.__cause__, SerializationException) or (
        error.status_code == 400 and request.method != "GET"
    ):
        detail = f"The body cannot be read: {error.__cause__ or error.detail}."
    elif error.status_code == 404:
        detail = f"Nothing exists at {shorten_to_line(request.url.path, 200)}. All paths: /schema"
    elif error.status_code == 405:
        detail = f"{request.method} is not possible at {shorten_to_line(request.url.path, 200)}."
    elif error.status_code == 413:
        detail = "The body is too large: at most 1 MiB."
    kind = {401: "Unauthorized", 404: "NotFound"}.get(error.status_code, "UsageError")
    answer = _build_answer(error.status_code, detail, kind=kind)
    answer.headers.update(error.headers or {})
    return answer


def handle_recursion(_: Request[Any, Any, Any], error: RecursionError) -> JsonResponse:
    """Answer a body whose brackets never end."""
    return _build_answer(
        400, "The body cannot be read: it is nested too deeply.", kind="UsageError"
    )


def handle_unexpected(request: Request[Any, Any, Any], error: Exception) -> JsonResponse:
    """Answer a fault of tasuki's own, or of the database; the log has the details."""
    if isinstance(error, DBAPIError) and is_temporary(error):
        return _build_answer(503, "The database does not answer. Try again.", kind="StoreFailed")
    path = shorten_to_line(request.url.path, 200)
    logger.error("%s %s failed", request.method, path, exc_info=error)
    return _build_answer(
        500,
        "That failed because of an error in tasuki. The server's log says more.",
        kind="TasukiError",
    )


def _format_field(problem: Any, request: Request[Any, Any, Any]) -> str:
    """Format one wrong field as a sentence."""
    key, message = problem.get("key", ""), str(problem.get("message", ""))
    parameters = request.scope["route_handler"].parsed_fn_signature.parameters
    body = parameters["data"].annotation if "data" in parameters else None
    if key == "data":  # Litestar's word for the body
        if message.rstrip(".") == "'data'":
            return "A body of JSON is needed."
        return describe_wrong_value("", message, body)
    annotation = parameters[key].annotation if key in parameters else body
    return describe_wrong_value(PARAMETER_NAMES.get(key, key), message, annotation)


def _build_answer(status: int, sentence: str, **more: Any) -> JsonResponse:
    content = {"error": redact(clean_for_display(sentence))[0], **more}
    return Response(content, status_code=status, media_type="application/json")


EXCEPTION_HANDLERS: dict[Any, Any] = {
    errors.TasukiError: handle_tasuki_error,
    ValidationException: handle_invalid,
    HTTPException: handle_http_error,
    RecursionError: handle_recursion,
    Exception: handle_unexpected,
}
"""The handlers for Litestar, by exception class."""
