"""What a customer writes, with the models that datamodel-code-generator makes of the contract. It is type-checked and not
run: a name that the contract does not have is an error."""

import os
from typing import TypeVar, assert_never
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import kitfleet
from kitfleet_webhook import NotVerified, verify
from pydantic import BaseModel

Answer = TypeVar("Answer", bound=BaseModel)


def post(path: str, body: BaseModel, answer: type[Answer]) -> Answer:
    request = Request(
        f"http://127.0.0.1:8080{path}",
        data=body.model_dump_json(exclude_unset=True).encode(),
        headers={"Authorization": f"Bearer {os.environ['KITFLEET_KEY']}", "Content-Type": "application/json"},
    )
    try:
        with urlopen(request) as response:
            return answer.model_validate_json(response.read())
    except HTTPError as error:
        problem = kitfleet.Problem.model_validate_json(error.read())
        raise RuntimeError(f"{problem.title}: {problem.detail} ({problem.request_id})") from error


def title_of_shop() -> str:
    session = post("/v1/sessions", kitfleet.SessionCreate(label="price check"), kitfleet.Session)
    if session.status is not kitfleet.SessionStatus.ready:
        raise RuntimeError(session.status.value)
    path = f"/v1/sessions/{session.id}"

    where = kitfleet.Navigate(url="https://shop.example/", wait_until=kitfleet.WaitUntil.domcontentloaded)
    page = post(f"{path}/navigate", where, kitfleet.Navigated)
    if page.status != 200:
        raise RuntimeError(f"{page.final_url} answered {page.status}")

    action = kitfleet.TapAction(kind="tap", selector="#accept")
    tap = kitfleet.Interact(action=action, on_timeout=kitfleet.OnTimeout.return_)
    if post(f"{path}/interact", tap, kitfleet.Interacted).ok:
        condition = kitfleet.SelectorCondition(kind="selector", selector="h1")
        post(f"{path}/wait", kitfleet.Wait(condition=condition, timeout_ms=5_000), kitfleet.Waited)

    title = kitfleet.Extraction(name="title", selector="h1", type=kitfleet.ExtractionType.text)
    extracted = post(f"{path}/extract", kitfleet.Extract(extractions=[title]), kitfleet.Extracted)
    values = (extracted.value.model_extra or {}) if extracted.value else {}
    return str(values.get("title", ""))


def about(event: kitfleet.WebhookEvent) -> str:
    """What an event is about. Nothing is left out, and nothing is there that events do not have."""
    match event.root:
        case kitfleet.SessionCompletedEvent(data=completed):
            return f"{completed.session_id} lived {completed.duration_ms} ms{'!' if completed.auto_destroyed else ''}"
        case kitfleet.SessionFailedEvent(data=failed):
            return f"{failed.operation.value} failed: {failed.error_name}"
        case kitfleet.ApiKeyRevokedEvent(data=key):
            return f"{key.name} is good no more since {key.revoked_at}"
        case kitfleet.SessionEgressCapabilityChangedEvent(data=egress):
            return ", ".join(egress.egress_capabilities.warnings)
        case kitfleet.CryptoOrderPaidEvent(data=paid):
            return f"{paid.price_cents} {paid.price_currency}"
        case kitfleet.CryptoOrderFailedEvent(data=unpaid):
            return unpaid.reason.value
        case kitfleet.SessionChallengeDetectedEvent(data=challenged):
            return f"{challenged.challenge.type}: {challenged.challenge.confidence:.2f}"
        case kitfleet.SessionProfileSaveFailedEvent(data=unsaved):
            return f"{unsaved.profile_id} is as it was: {unsaved.reason}"
        case kitfleet.TestPingEvent(data=ping):
            return ping.message
        case other:
            assert_never(other)


def receive(secret: str, header: str, body: bytes) -> int:
    try:
        verify(secret, header, body)
    except NotVerified:
        return 400
    event = kitfleet.WebhookEvent.model_validate_json(body)
    print(event.root.id, event.root.created_at, about(event))
    return 204
