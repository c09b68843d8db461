"""The terminal on an agent's page: what it shows now, and the keys that are typed there."""

from typing import Annotated, Any

import msgspec
from litestar import Response
from litestar.params import HeaderParameter, QueryParameter

from tasuki.errors import TasukiError, UsageError
from tasuki.fleet.delivery.messages import TypedKeys
from tasuki.fleet.delivery.terminals import KnownTerminal
from tasuki.fleet.orders import agents
from tasuki.fleet.orders.bodies import KeyPress
from tasuki.fleet.store import queries
from tasuki.web.api import forms
from tasuki.web.handlers import AnyRequest, FormFields, PathId, TheFleet, show_page, take_form
from tasuki.web.views import templates
from tasuki.web.views.hosts import find_absence
from tasuki.web.views.notices import SEEN_SECONDS, TEXT_SECONDS
from tasuki.web.views.templates import PageResponse

OWN_PACE = 400
"""Milliseconds after which a browser asks again, for an agent of this host."""
OTHER_PACE = 1000


@show_page("/agents/{id:int}/terminal")
def show_terminal(
    request: AnyRequest,
    fleet: TheFleet,
    id: PathId,
    epoch: Annotated[str, QueryParameter(max_length=40)] = "",
    above: Annotated[int, QueryParameter(ge=-1, le=2**53)] = -1,
    tag: Annotated[str, HeaderParameter(name="If-None-Match", max_length=80)] = "",
) -> Response[bytes]:
    """Show a terminal as data: 304 where it is as the browser knows it.

    `problem` is a sentence where it cannot be shown now.
    """
    agent = queries.load_agent(fleet.database, id)
    pace = OWN_PACE if agent.host == fleet.host else OTHER_PACE
    if agent.host != fleet.host and (absence := find_absence(fleet.database, agent.host)):
        return build_data_response(request, {"problem": absence, "pace": OTHER_PACE})
    known = KnownTerminal(epoch, tag.removeprefix("W/").strip('"'), above)
    try:
        view = agents.read_terminal(fleet, id, known)
    except TasukiError as error:
        return build_data_response(request, {"problem": str(error), "pace": OTHER_PACE})
    etag = f'"{view["tag"]}"'
    if "screen" not in view:
        return Response(b"", status_code=304, headers={**templates.PAGE_HEADERS, "ETag": etag})
    return build_data_response(request, {**view, "pace": pace}, ETag=etag)


@take_form("/agents/{id:int}/type")
def type_keys(
    request: AnyRequest, fleet: TheFleet, id: PathId, form: FormFields
) -> Response[bytes]:
    """Type a batch of keys, the field `batch` as JSON; `problem` says why nothing was typed."""
    try:
        agents.type_keys(fleet, id, _read_batch(form.get("batch", "")))
    except TasukiError as error:
        return build_data_response(request, {"problem": str(error)})
    return build_data_response(request, {})


def _read_batch(text: str) -> TypedKeys:
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"), type=TypedKeys)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"The keys cannot be read: {error}.") from error


@take_form("/agents/{id:int}/keys")
def press_key(
    request: AnyRequest,
    fleet: TheFleet,
    id: PathId,
    form: FormFields,
    accept: Annotated[str, HeaderParameter(name="Accept")] = "",
) -> PageResponse:
    """Press one key in its pane; a script is answered by data, and its page stays as it is."""
    is_script = accept == "application/json"
    try:
        agents.press_key(fleet, id, forms.fill_body(KeyPress, {"key": form.get("key", "")}))
    except TasukiError as error:
        if is_script:
            return build_data_response(request, {"problem": str(error)})
        return redirect_with_result(request, id, SentMessage(refused=str(error)), "#screen")
    if is_script:
        return build_data_response(request, {})
    return templates.redirect(request, f"/agents/{id}#screen")


class SentMessage(msgspec.Struct, frozen=True):
    """What became of a message or a key; `text` stays typed in."""

    sent: str = ""
    refused: str = ""
    text: str = ""
    unanswered: str = ""
    """Why an answer to its question was not given."""


def redirect_with_result(
    request: AnyRequest, id: int, result: SentMessage, place: str = ""
) -> PageResponse:
    """Redirect to the agent's page, which says the result."""
    key = request.app.state.notices.add(result, TEXT_SECONDS if result.text else SEEN_SECONDS)
    return templates.redirect(request, f"/agents/{id}?said={key}{place}")


def find_result(request: AnyRequest) -> SentMessage:
    """Find the result that the address of an agent's page names; an empty one for none."""
    found = request.app.state.notices.find(request.query_params.get("said", ""), SentMessage)
    return found or SentMessage()


def build_data_response(
    request: AnyRequest, data: dict[str, Any], **headers: str
) -> Response[bytes]:
    """Build an answer for a script of a page, compressed where the browser accepts that."""
    answer = templates.build_html_response(request, msgspec.json.encode(data).decode())
    answer.media_type = "application/json"
    answer.headers.update(headers)
    return answer
