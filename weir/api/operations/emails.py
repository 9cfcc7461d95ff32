"""Operations on e-mails: send them, list them, say why they wait, resolve unknown ones, and pause their kinds."""

from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Status

from weir.api.access import actor
from weir.api.http import etags
from weir.api.http.problems import (
    CHANGED,
    IN_PROGRESS,
    INVALID,
    NO_REASON,
    NOT_FOUND,
    NOT_IN_THIS_STATE,
    OTHER_REQUEST,
    READ_ONLY,
    SUPPRESSED,
    Problem,
)
from weir.api.idempotency import once
from weir.api.operations.looking import looked
from weir.api.operations.operation import IDEMPOTENCY_KEY, IF_MATCH, operation, refused
from weir.api.schemas import emails as schemas
from weir.api.schemas.values import Id
from weir.api.tokens import scopes
from weir.postgres import planner
from weir.workers.cursors import BadCursor
from weir.workers.mail import suppression
from weir.workers.mail.actions import emails, kinds
from weir.workers.mail.addresses import CannotBeWritten
from weir.workers.mail.kinds import UnknownKind
from weir.workers.mail.models import Act, Email
from weir.workers.mail.outbox import queue_once
from weir.workers.mail.reports import counts, listing
from weir.workers.mail.reports.why import goes_by, why
from weir.workers.mail.resolving import CannotBeResolved
from weir.workers.overview import telling

router = Router(tags=["e-mails"])
KIND_CHANGES: Final = (READ_ONLY, NOT_FOUND, NO_REASON, CHANGED)


@operation(
    router,
    "POST",
    "/emails",
    scope=scopes.ADD_EMAILS,
    answers={200: schemas.QueuedEmail, 201: schemas.QueuedEmail},
    refusals=[SUPPRESSED],
)
def post_email(request: HttpRequest, wanted: schemas.NewEmail) -> Any:  # noqa: ANN401  ninja's pair of status and body
    """Queue an e-mail of a kind that an app has registered; it is rendered now, and submitted at most once.

    There is one e-mail for each kind and key, however many programs and web code ask for it at the same time. If there
    is one already, it is answered with 200, and stays as it is, whatever else the request says.
    """
    if wanted.kind == telling.KIND:
        raise Problem(INVALID, f"Only Weir itself sends {telling.KIND}.")
    options = wanted.model_dump(exclude={"kind", "key"}) | {"language": wanted.language or settings.LANGUAGE_CODE}
    with transaction.atomic(durable=True), refused(INVALID, UnknownKind, CannotBeWritten):
        email, is_new = queue_once(wanted.kind, wanted.key, **options)
        if is_new and suppression.entry_of(email.recipient):
            raise Problem(SUPPRESSED, "The address is on the suppression list: the e-mail was not queued.")
    shown = {name: getattr(email, name) for name in schemas.QueuedEmail.model_fields}
    return Status(201 if is_new else 200, schemas.QueuedEmail(**shown))


@operation(router, "GET", "/emails", scope=scopes.SEE_EMAILS, answers={200: schemas.EmailPage})
def list_emails(request: HttpRequest, query: Query[schemas.EmailQuery]) -> schemas.EmailPage:
    """List e-mails: unknown ones by when they were sent, those to an address by it, all others the oldest first."""
    wanted = listing.EmailFilters(state=query.state, kind=query.kind, to=query.to)

    def found() -> listing.EmailsPage:
        planner.by_indexes()
        return listing.page(wanted, query.after)

    with refused(INVALID, BadCursor):
        page = looked(found)
    return schemas.EmailPage(
        emails=[schemas.Email(**_values(email)) for email in page.emails],
        next=page.next or None,
        looked_at=page.looked_at,
    )


@operation(
    router,
    "GET",
    "/emails/{email_id}",
    scope=scopes.SEE_EMAILS,
    answers={200: schemas.EmailDetails},
    refusals=[NOT_FOUND],
)
def get_email(request: HttpRequest, email_id: Id, response: HttpResponse) -> schemas.EmailDetails:
    """Return all about one e-mail, with what is in its way, and what people and logs have said about it."""
    email = _email(email_id)
    response.headers["ETag"] = etags.etag(emails.version_of(email))
    return _details(email)


@operation(
    router,
    "POST",
    "/emails/{email_id}/resolutions",
    scope=scopes.RESOLVE_EMAILS,
    answers={201: schemas.Resolved},
    refusals=[READ_ONLY, NOT_FOUND, NO_REASON, NOT_IN_THIS_STATE, CHANGED, IN_PROGRESS, OTHER_REQUEST],
)
def resolve_email(
    request: HttpRequest,
    email_id: Id,
    wanted: schemas.NewResolution,
    idempotency_key: str = IDEMPOTENCY_KEY,
    if_match: str = IF_MATCH,
) -> HttpResponse:
    """Say what became of an e-mail, or what is to become of it. Of two calls together, the second finds it resolved.

    With the ETag of `GET /emails/{email_id}` in If-Match, an e-mail that was sent or resolved meanwhile is left alone.
    """

    def resolve() -> tuple[int, schemas.Resolved]:
        seen = etags.seen_if_given(if_match, emails.version_of(_email(email_id)))
        with refused(INVALID, ValueError), refused(NOT_IN_THIS_STATE, CannotBeResolved):
            email = _resolved(request, email_id, wanted, seen)
        return 201, schemas.Resolved(email=email.pk, state=email.state)  # type: ignore[arg-type]  # one of State

    return once(request, idempotency_key, resolve)


@operation(router, "GET", "/email-kinds", scope=scopes.SEE_EMAILS, answers={200: schemas.MailKinds})
def list_email_kinds(request: HttpRequest) -> schemas.MailKinds:
    """List the kinds of e-mail, and which of them are paused."""
    rows = looked(counts.of_kinds)
    tags = (etags.etag(kinds.version_of(row.paused_at)) for row in rows)
    return schemas.MailKinds(
        kinds=[schemas.MailKind(**row._asdict(), etag=tag) for row, tag in zip(rows, tags, strict=True)]
    )


@operation(
    router,
    "PUT",
    "/email-kinds/{kind}/pause",
    scope=scopes.RESOLVE_EMAILS,
    answers={204: None},
    refusals=KIND_CHANGES,
)
def pause_email_kind(
    request: HttpRequest, kind: schemas.Kind, wanted: schemas.MailReason, if_match: str = IF_MATCH
) -> HttpResponse:
    """Pause a kind: from now on, no e-mail of it is begun."""
    kinds.pause(actor(request), kind, why=wanted.why, seen=_version(kind, if_match))
    return HttpResponse(status=204)


@operation(
    router,
    "DELETE",
    "/email-kinds/{kind}/pause",
    scope=scopes.RESOLVE_EMAILS,
    answers={204: None},
    refusals=KIND_CHANGES,
)
def resume_email_kind(
    request: HttpRequest, kind: schemas.Kind, query: Query[schemas.MailReasonQuery], if_match: str = IF_MATCH
) -> HttpResponse:
    """Resume sending this kind."""
    kinds.resume(actor(request), kind, why=query.why, seen=_version(kind, if_match))
    return HttpResponse(status=204)


def _version(kind: str, if_match: str) -> str | None:
    """Return the version of the kind that the request may change; None for any. Raises Problem."""
    return etags.seen_if_given(if_match, kinds.current_version(kind))


def _resolved(request: HttpRequest, email_id: int, wanted: schemas.NewResolution, seen: str | None) -> Email:
    return emails.resolve(actor(request), email_id, Act(wanted.act), why=wanted.why, to=wanted.to or None, seen=seen)


def _email(email_id: int) -> Email:
    email: Email | None = Email.objects.filter(pk=email_id).first()
    if email is None:
        raise Problem(NOT_FOUND, f"There is no e-mail {email_id}.")
    return email


def _values(email: Email) -> dict[str, Any]:
    return {name: getattr(email, name) for name in schemas.Email.model_fields}


def _details(email: Email) -> schemas.EmailDetails:
    blockers = [schemas.EmailBlocker(kind=one.what, text=one.text, until=one.until) for one in why(email)]
    fields = [name for name in schemas.Resolution.model_fields if name != "act"]
    resolutions = [
        schemas.Resolution(act=one.done.value, **{name: getattr(one, name) for name in fields})
        for one in email.resolutions.order_by("pk")
    ]
    return schemas.EmailDetails(
        **_values(email), goes_by=[relay.name for relay in goes_by(email)], blockers=blockers, resolutions=resolutions
    )
