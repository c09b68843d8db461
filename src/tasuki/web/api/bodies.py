"""Bodies of requests and fields of forms, with their bounds; and errors as answers."""

import logging
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, SerializationException, ValidationException
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict
from sqlalchemy.exc import DBAPIError

from tasuki import errors
from tasuki.draft.redact.redactor import redact
from tasuki.errors import UsageError
from tasuki.fleet.agents.goal_queue import GoalOrder
from tasuki.fleet.agents.goal_templates import TemplateValues
from tasuki.fleet.agents.lifecycle import StartRequest
from tasuki.fleet.delivery.answers import AgentAnswer
from tasuki.fleet.handoff.commands import HandoffRequest
from tasuki.fleet.handoff.forks import ForkRequest
from tasuki.fleet.handoff.moves import MoveRequest
from tasuki.fleet.hooks.intake import IntakeOverloaded
from tasuki.fleet.store.database import is_temporary
from tasuki.fleet.store.failures import StepFailed
from tasuki.harness import registry as harnesses
from tasuki.text_safety import clean_for_display, shorten_to_line
from tasuki.web.api.wrong_values import describe_wrong_value

ShortText = Annotated[str, Meta(max_length=200)]
PathText = Annotated[str, Meta(max_length=4096)]
LongText = Annotated[str, Meta(max_length=100_000)]
ReasonText = Annotated[str, Meta(min_length=1, max_length=4000)]
ContextText = Annotated[str, Meta(max_length=4000)]
PercentValue = Annotated[float, Meta(ge=1, le=100)]


class _RequestBody(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class NewPersona(_RequestBody, frozen=True):
    """A persona to add. `threshold` is in percent; without one that of the settings is used.

    `on_limit` is the harness in which its work goes on at a usage limit; empty for none.
    """

    role: ShortText
    name: ShortText
    skill: LongText = ""
    harness: ShortText = harnesses.DEFAULT
    model: ShortText = ""
    threshold: PercentValue | None = None
    automatic: bool = False
    on_limit: ShortText = ""


class PersonaChange(_RequestBody, frozen=True):
    """Changes of a persona; omitted fields stay."""

    skill: LongText | UnsetType = UNSET
    harness: ShortText | UnsetType = UNSET
    model: ShortText | UnsetType = UNSET
    threshold: PercentValue | UnsetType | None = UNSET
    automatic: bool | UnsetType = UNSET
    on_limit: ShortText | UnsetType = UNSET


class NewTemplate(_RequestBody, frozen=True):
    """A goal that is used again. Words in braces in `goal` and `folder` become fields.

    `role`: its agent works as the first free persona of that role; `persona` names one.
    """

    name: ShortText
    goal: LongText
    persona: ShortText = ""
    role: ShortText = ""
    folder: PathText = ""
    harness: ShortText = ""
    model: ShortText = ""
    permission: ShortText = ""

    def build_values(self) -> TemplateValues:
        """Build the fleet's own values."""
        return TemplateValues(**asdict(self))


class TemplateChange(_RequestBody, frozen=True):
    """Changes of a template; omitted fields stay."""

    name: ShortText | UnsetType = UNSET
    goal: LongText | UnsetType = UNSET
    persona: ShortText | UnsetType = UNSET
    role: ShortText | UnsetType = UNSET
    folder: PathText | UnsetType = UNSET
    harness: ShortText | UnsetType = UNSET
    model: ShortText | UnsetType = UNSET
    permission: ShortText | UnsetType = UNSET


class TemplateStart(_RequestBody, frozen=True):
    """What is filled in to start a template. `cwd` takes the place of its folder."""

    fields: dict[ShortText, Annotated[str, Meta(max_length=20_000)]] = {}
    cwd: PathText = ""
    host: ShortText = ""


class NewGoal(_RequestBody, frozen=True):
    """A goal for the queue of a persona."""

    text: LongText


class QueueChange(_RequestBody, frozen=True):
    """Whether a queue is paused. Resuming also goes on after a stop."""

    paused: bool


class GoalChange(_RequestBody, frozen=True):
    """A new text for a goal that waits, or an order for it.

    `arrived` and `again` are for one of which it is not known whether it was typed.
    """

    text: LongText | UnsetType = UNSET
    order: GoalOrder | UnsetType = UNSET


class LessonOrder(_RequestBody, frozen=True):
    """The decision on proposed lessons; without ids all of them."""

    order: Literal["accept", "drop"]
    ids: Annotated[tuple[Annotated[int, Meta(ge=1, le=2**31 - 1)], ...], Meta(max_length=1000)] = ()


class NewAgent(_RequestBody, frozen=True):
    """An agent to start. `cwd` is a whole path; `arguments` go to the program as they are.

    `host` is the id or the label of the host that starts it; empty for that of the server.
    """

    cwd: PathText
    host: ShortText = ""
    persona: ShortText = ""
    harness: ShortText = ""
    model: ShortText = ""
    permission: ShortText = ""
    goal: LongText = ""
    arguments: Annotated[
        tuple[Annotated[str, Meta(max_length=4096)], ...], Meta(max_length=64)
    ] = ()

    def build_request(self) -> StartRequest:
        """Build the fleet's own request."""
        values = asdict(self)
        values.pop("host")
        return StartRequest(**values)


class Adoption(_RequestBody, frozen=True):
    """An agent that is already running in a pane. `pane` is tmux's id of the pane, `%3`.

    `host` is where that pane is; empty for the host of the server.
    """

    pane: ShortText
    harness: ShortText
    persona: ShortText = ""
    session: ShortText = ""
    host: ShortText = ""


class AgentMessage(_RequestBody, frozen=True):
    """A text that is typed to an agent."""

    text: Annotated[str, Meta(min_length=1, max_length=100_000)]


class Resumption(_RequestBody, frozen=True):
    """Whether an agent is told to go on although its usage limit has not reset."""

    force: bool = False


class MuteOrder(_RequestBody, frozen=True, rename={"span": "for"}):
    """For how long an agent is muted: `30m`, `1h`, `2d`, `tomorrow`; empty for good, `off` ends it."""

    span: ShortText = ""


Theme = Literal["system", "light", "dark"]


class ThemeChoice(_RequestBody, frozen=True):
    """The theme of the pages in one browser."""

    theme: Theme


class SettingsChange(_RequestBody, frozen=True):
    """Changes of the fleet's settings; omitted ones stay, and null is the default."""

    context_threshold: Annotated[int, Meta(ge=1, le=100)] | UnsetType | None = UNSET
    notify: PathText | UnsetType | None = UNSET
    notify_about: ShortText | UnsetType | None = UNSET


class SeenAlerts(_RequestBody, frozen=True):
    """The alert up to which the operator has seen them."""

    up_to: Annotated[int, Meta(ge=0, le=2**31 - 1)]


class KeyPress(_RequestBody, frozen=True):
    """A key to press, by its tmux name."""

    key: ShortText


class QuestionAnswer(_RequestBody, frozen=True):
    """An answer to the question of a waiting agent: the keys of choices, or a text."""

    mark: ShortText
    choice: ShortText = ""
    text: LongText = ""
    choices: Annotated[list[ShortText], Meta(max_length=20)] = []

    def build_answer(self) -> AgentAnswer:
        """Build the answer as the fleet takes it."""
        return AgentAnswer(self.mark, self.choice, self.text, tuple(self.choices))


class CallerClues(_RequestBody, frozen=True):
    """Clues to the agent that a caller is inside of: from its environment and its processes."""

    token: ShortText = ""
    sessions: Annotated[tuple[PathText, ...], Meta(max_length=16)] = ()
    processes: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=2**31 - 1)], ...], Meta(max_length=64)
    ] = ()


class Recovery(_RequestBody, frozen=True):
    """Why lost agents are recovered."""

    reason: ReasonText = "it was lost"


class HostLabel(_RequestBody, frozen=True):
    """The name of a host for people; empty for its machine's own."""

    label: Annotated[str, Meta(max_length=100)]


class NewHostToken(_RequestBody, frozen=True):
    """A token with which a host joins.

    `label` is the name that the host gets, `database_host` where it reaches PostgreSQL, `HOST` or
    `HOST:PORT`; without one it is where this server does. `unverified`: its URL may lead to a
    server whose certificate is not checked.
    """

    label: Annotated[str, Meta(max_length=100)] = ""
    database_host: ShortText = ""
    unverified: bool = False


class NewFork(_RequestBody, frozen=True):
    """A fork of an agent: a second one that begins from its thread.

    `worktree`: true for one next to the repository, or the whole path of its folder.
    """

    goal: ReasonText
    persona: ShortText = ""
    worktree: bool | PathText = False
    reason: ReasonText = "fork"

    def build_request(self) -> ForkRequest:
        """Build the fleet's own request."""
        wanted = self.worktree
        folder = wanted if isinstance(wanted, str) else ("" if wanted else None)
        return ForkRequest(self.goal, self.persona, folder, self.reason)


class NewHandoff(_RequestBody, frozen=True, rename={"source": "from"}):
    """Why an agent is handed off.

    `context` is for its successor; `force` does not wait for its children. `goal` is what the
    successor should do; without one it continues its predecessor's task. `"from": "thread"`:
    the document is written from the agent's thread, for an agent that is dead, has no pane or
    is out of its quota; one at a usage limit is always handed off so. `to` is the harness of the
    successor; without one it is the agent's.

    `to_host`: the successor works on that host. `to_cwd` is a checkout there, whole path; without
    one it is found. `worktree` is the folder of the worktree that may be made there, whole path.
    `with_secrets`: uncommitted work travels although it holds what looks like a secret. With
    `dry_run` nothing begins; the answer is what would happen, and every obstacle.
    """

    reason: ReasonText
    context: ContextText = ""
    goal: ContextText = ""
    force: bool = False
    source: Literal["agent", "thread"] = "agent"
    to: ShortText = ""
    to_host: ShortText = ""
    to_cwd: PathText = ""
    worktree: PathText = ""
    with_secrets: bool = False
    dry_run: bool = False

    def build_move(self) -> MoveRequest | None:
        """Build the request for another host; None where it stays on its own."""
        if not self.to_host:
            if self.to_cwd or self.worktree or self.with_secrets or self.dry_run:
                raise UsageError("That is for a handoff to another host. Name the host: --to-host")
            return None
        for folder in (self.to_cwd, self.worktree):
            if folder and not folder.startswith("/"):
                raise UsageError(f"{folder} is no whole path on the other host.")
        return MoveRequest(
            self.to_host, self.to_cwd, self.worktree, self.to, self.with_secrets,
            from_thread=self.source == "thread",
        )  # fmt: skip

    def build_request(self) -> HandoffRequest:
        """Build the fleet's own request."""
        from_thread = self.source == "thread"
        return HandoffRequest(
            self.reason, self.context, self.goal, self.force, from_thread, harness=self.to
        )


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
AnyRequest = Request[Any, Any, Any]
JsonResponse = Response[dict[str, Any]]


def get_status(error: errors.TasukiError) -> int:
    """Return the status of an error."""
    return next(
        (STATUS_BY_ERROR[kind] for kind in type(error).__mro__ if kind in STATUS_BY_ERROR), 500
    )


def handle_tasuki_error(_: AnyRequest, error: errors.TasukiError) -> JsonResponse:
    """Answer an error that tasuki raised on purpose."""
    details = error.details if isinstance(error, errors.AlreadyUnderWay) else {}
    if isinstance(error, StepFailed):
        details = {"code": error.code}
    return _build_answer(get_status(error), str(error), kind=type(error).__name__, **details)


def handle_invalid(request: AnyRequest, error: ValidationException) -> JsonResponse:
    """Answer an invalid body or query: each wrong field by its name, and what to enter."""
    wrong = error.extra if isinstance(error.extra, list) else []
    problems = [_format_field(one, request) for one in wrong]
    return _build_answer(400, " ".join(problems) or str(error.detail), kind="UsageError")


def handle_http_error(request: AnyRequest, error: HTTPException) -> JsonResponse:
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


def handle_recursion(_: AnyRequest, error: RecursionError) -> JsonResponse:
    """Answer a body whose brackets never end."""
    return _build_answer(
        400, "The body cannot be read: it is nested too deeply.", kind="UsageError"
    )


def handle_unexpected(request: AnyRequest, error: Exception) -> JsonResponse:
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


def _format_field(problem: Any, request: AnyRequest) -> str:
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


MOST_FIELDS = 400
B = TypeVar("B", bound=msgspec.Struct)


async def read_fields(request: AnyRequest) -> dict[str, str]:
    """Read the fields of a form, the last of each name; line ends are newlines.

    Raises UsageError.
    """
    return {name: values[-1] for name, values in (await read_all_fields(request)).items()}


async def read_all_fields(request: AnyRequest) -> dict[str, list[str]]:
    """Read the fields of a form with every value, in order. Raises UsageError."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        pairs = parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise UsageError("The form cannot be read: it has too many fields.") from error
    fields_found: dict[str, list[str]] = {}
    for name, value in pairs:
        fields_found.setdefault(name, []).append(
            value.replace("\r\n", "\n").replace("\0", "\ufffd")
        )
    return fields_found


def fill_body(kind: type[B], values: Mapping[str, Any]) -> B:
    """Fill a body of the API with the fields of a form. Raises UsageError naming the field."""
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        sentence = describe_wrong_value("", str(error), kind)
        label = re.sub(
            r"\A`([^`]+)`", lambda name: name[1].replace("_", " ").capitalize(), sentence
        )
        raise UsageError(label) from error


def list_startable_harnesses() -> list[tuple[str, str]]:
    """List the harnesses whose agents can be run, each with its title."""
    adapters = map(harnesses.get_harness, harnesses.list_names())
    return [(h.name, h.title) for h in adapters if harnesses.get_control(h) is not None]


def parse_number(text: str) -> int:
    """Parse a whole number of at most nine digits from a field; 0 where there is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
