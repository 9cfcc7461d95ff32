"""Problems: the answers to refused requests, as application/problem+json (RFC 9457).

The `type` of a problem is the address of a page about its kind. The text in `detail` is for people, and may change.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from django.http import HttpResponse
from django.urls import reverse

MEDIA_TYPE: Final = "application/problem+json"


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A kind of problem: how a program recognises it, and what it means."""

    name: str
    status: int
    title: str
    meaning: str  # what it means, and what to do next
    retry_after_s: int = 0  # Retry-After, unless the problem itself has another value; 0: waiting does not help

    @property
    def type(self) -> str:
        """Return the path of the page about this kind, which depends on where the project includes the API."""
        return reverse("weir_api:problem", args=[self.name])


MALFORMED: Final = ProblemKind(
    "malformed", 400, "The request cannot be read", "The body is not JSON in UTF-8, or the URL or a header is broken."
)
UNAUTHENTICATED: Final = ProblemKind(
    "unauthenticated",
    401,
    "A valid token is needed",
    "Send `Authorization: Bearer TOKEN`. The token was not sent, is not known, has expired, or was revoked.",
)
NOT_PERMITTED: Final = ProblemKind(
    "not-permitted", 403, "The token may not do this", "Create a token with the scope that `detail` names."
)
READ_ONLY: Final = ProblemKind(
    "read-only", 403, "Nothing can be changed now", "WEIR_OPS_READ_ONLY is set: try again when it is not."
)
NOT_FOUND: Final = ProblemKind("not-found", 404, "There is no such thing", "It never was, or has been deleted since.")
METHOD_NOT_ALLOWED: Final = ProblemKind(
    "method-not-allowed", 405, "The method is not offered here", "The header Allow names those that are."
)
SLOW_BODY: Final = ProblemKind("slow-body", 408, "The body came too slowly", "Send the whole body within ten seconds.")
TOO_LATE: Final = ProblemKind(
    "too-late", 409, "It is too late for that", "The fetch is about to start, is in flight, or has ended."
)
BUSY: Final = ProblemKind(
    "busy", 409, "Others are changing it", "Nothing was changed: try again when Retry-After is over.", 2
)
IN_PROGRESS: Final = ProblemKind(
    "in-progress",
    409,
    "A request with this Idempotency-Key is in progress",
    "Repeat the request when Retry-After is over: then the answer is the first one's.",
    1,
)
MORE_THAN_EXPECTED: Final = ProblemKind(
    "more-than-expected", 409, "It would change more than expected", "Nothing was changed: ask with `dry_run` again."
)
NOT_IN_THIS_STATE: Final = ProblemKind(
    "not-in-this-state", 409, "Its state does not allow that", "Look at it again: `detail` says in which state it is."
)
NO_EVENTS: Final = ProblemKind(
    "no-events", 409, "No events are kept", "`detail` says which setting keeps them, or when to ask again."
)
EVENTS_GONE: Final = ProblemKind(
    "events-gone",
    410,
    "Events after the cursor are no longer kept",
    "Look at each fetch or e-mail that you wait for, and go on without a cursor.",
)
CHANGED: Final = ProblemKind(
    "changed", 412, "It was changed meanwhile", "Get it again, and repeat the change with the new ETag."
)
TOO_LARGE: Final = ProblemKind("too-large", 413, "The body is too large", "Send it in several requests.")
UNSUPPORTED_MEDIA_TYPE: Final = ProblemKind(
    "unsupported-media-type", 415, "The body is of another type", "Send JSON, with `Content-Type: application/json`."
)
INVALID: Final = ProblemKind(
    "invalid", 422, "A value is wrong", "`detail` says which, or `errors` has one entry for each wrong value."
)
NO_REASON: Final = ProblemKind("no-reason", 422, "A reason is needed", "Say in `why` why you do this: it is kept.")
OTHER_REQUEST: Final = ProblemKind(
    "other-request",
    422,
    "The Idempotency-Key belongs to another request",
    "A key is for one request and its repetitions: choose a new one for another request.",
)
SUPPRESSED: Final = ProblemKind(
    "suppressed",
    422,
    "Nothing is sent to this address",
    "It is on the suppression list: `manage.py emails unsuppress` takes it off.",
)
IF_MATCH_NEEDED: Final = ProblemKind(
    "if-match-needed", 428, "If-Match is needed", "Get it first, and send its ETag in If-Match: no change is lost so."
)
TOO_MANY_REQUESTS: Final = ProblemKind(
    "too-many-requests", 429, "The token's rate is used up", "Try again when Retry-After is over."
)
SLOT_TOO_FAR: Final = ProblemKind(
    "slot-too-far",
    429,
    "The next start is too far away",
    "Try again when Retry-After is over, or with a greater `max_wait_s`.",
)
TOO_LARGE_HEAD: Final = ProblemKind(
    "too-large-head", 431, "The URL and the headers are too large", "Send fewer of them: their sum has 32 KiB at most."
)
FAILED: Final = ProblemKind(
    "failed", 500, "Something is wrong in Weir", "The log has the details, with the id that X-Request-ID names."
)
UNAVAILABLE: Final = ProblemKind(
    "unavailable",
    503,
    "It cannot be answered now",
    "PostgreSQL or Redis is away, or busy: try again when Retry-After is over.",
    5,
)
KINDS: Final[Mapping[str, ProblemKind]] = {
    kind.name: kind for kind in list(globals().values()) if isinstance(kind, ProblemKind)
}
BY_STATUS: Final = {
    kind.status: kind
    for kind in (MALFORMED, NOT_PERMITTED, NOT_FOUND, METHOD_NOT_ALLOWED, TOO_LARGE, FAILED, UNAVAILABLE)
}


@dataclass
class Problem(Exception):
    """A request was refused, and nothing was changed."""

    kind: ProblemKind
    detail: str
    headers: Mapping[str, str] = field(default_factory=dict)
    errors: Sequence[Mapping[str, object]] = ()

    def body(self) -> bytes:
        """Return the problem as JSON."""
        kind = self.kind
        shown: dict[str, object] = {
            "type": kind.type,
            "title": kind.title,
            "status": kind.status,
            "detail": self.detail.encode(errors="replace").decode(),
        }
        return json.dumps({**shown, **({"errors": list(self.errors)} if self.errors else {})}).encode()

    def response(self) -> HttpResponse:
        """Return the answer to the refused request."""
        headers = {"Retry-After": str(self.kind.retry_after_s)} if self.kind.retry_after_s else {}
        headers |= self.headers
        return HttpResponse(self.body(), status=self.kind.status, content_type=MEDIA_TYPE, headers=headers)


# The schema of a problem in the OpenAPI document.
SCHEMA: Final = {
    "title": "Problem",
    "type": "object",
    "description": "Why a request was refused (RFC 9457).",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "description": "names the kind of problem: the path of a page about it"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "for people"},
        "errors": {
            "type": "array",
            "items": {
                "title": "WrongValue",
                "type": "object",
                "required": ["at", "message"],
                "properties": {"at": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
}
