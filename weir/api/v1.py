"""Version 1 of the API: its operations, the problem for each of Weir's own errors, and the OpenAPI document."""

from collections.abc import Callable
from typing import Any, Final

from django.db import DatabaseError, DataError, IntegrityError, InterfaceError, InternalError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.openapi.docs import Swagger
from psycopg.errors import InFailedSqlTransaction

from weir.api.access import CHALLENGE, NEEDED
from weir.api.http import problems
from weir.api.http.bodies import StrictParser
from weir.api.http.problems import Problem, ProblemKind
from weir.api.operations import (
    batches,
    effects,
    emails,
    events,
    fetches,
    notifications,
    retries,
    sites,
    slots,
    status,
    users,
    watches,
    webhooks,
)
from weir.logs.loggers import get_logger
from weir.ratelimit.site_names import InvalidSiteName
from weir.ratelimit.site_settings import SiteBusy
from weir.ratelimit.sites import SitesLocked, UnknownSite
from weir.redis_link.calls import RedisUnreachable
from weir.workers.audit import acting
from weir.workers.effects.kinds import UnknownEffectKind
from weir.workers.fetches.batches.counts import UnknownBatch
from weir.workers.mail.kinds import UnknownKind
from weir.workers.watches.listing import UnknownWatch
from weir.workers.webhooks.endpoints import UnknownEndpoint

log = get_logger(__name__)

PREFIX: Final = "/v1"
DESCRIPTION: Final = (
    "Fetches at the rates of their sites, notifications with exact unread numbers, and e-mails and effects that happen "
    "once. Each request needs a token: `Authorization: Bearer TOKEN`."
)
# The problem for each of Weir's own errors. The error's text says why, and what to do next.
REFUSED: Final[dict[type[Exception], ProblemKind]] = {
    acting.NotPermitted: problems.NOT_PERMITTED,
    acting.ReadOnly: problems.READ_ONLY,
    acting.NoReason: problems.NO_REASON,
    acting.Changed: problems.CHANGED,
    SiteBusy: problems.BUSY,
    SitesLocked: problems.BUSY,
    UnknownSite: problems.NOT_FOUND,
    InvalidSiteName: problems.INVALID,
    UnknownKind: problems.NOT_FOUND,
    UnknownEffectKind: problems.NOT_FOUND,
    UnknownWatch: problems.NOT_FOUND,
    UnknownBatch: problems.NOT_FOUND,
    UnknownEndpoint: problems.NOT_FOUND,
}


class Api(NinjaAPI):
    """Ninja's API, with the schema of problems added to its OpenAPI document."""

    def get_openapi_schema(self, **options: Any) -> Any:  # noqa: ANN401  ninja's signature
        document = super().get_openapi_schema(**options)
        document["components"]["schemas"]["Problem"] = problems.SCHEMA
        return document


api = Api(
    title="Weir",
    version="1",
    description=DESCRIPTION,
    urls_namespace="weir_api:v1",  # within the namespace of `weir.api.urls`
    parser=StrictParser(),
    docs=Swagger({"persistAuthorization": False}),
)
# `/fetches/ended` goes before `/fetches/{fetch_id}`.
for module in (
    events,
    fetches,
    retries,
    batches,
    watches,
    webhooks,
    sites,
    emails,
    effects,
    notifications,
    users,
    slots,
    status,
):
    api.add_router(PREFIX, module.router)


def _refusal(kind: ProblemKind) -> Callable[[HttpRequest, Exception | type[Exception]], HttpResponse]:
    return lambda _request, error: Problem(kind, str(error)).response()


for of_domain, kind_of_it in REFUSED.items():
    api.add_exception_handler(of_domain, _refusal(kind_of_it))


@api.exception_handler(Problem)
def _problem(_request: HttpRequest, problem: Problem) -> HttpResponse:
    return problem.response()


@api.exception_handler(AuthenticationError)
def _unauthenticated(_request: HttpRequest, _error: AuthenticationError) -> HttpResponse:
    return Problem(problems.UNAUTHENTICATED, NEEDED, CHALLENGE).response()


@api.exception_handler(ValidationError)
def _invalid(_request: HttpRequest, error: ValidationError) -> HttpResponse:
    errors = [{"at": ".".join(map(str, one["loc"])), "message": str(one["msg"])} for one in error.errors]
    return Problem(problems.INVALID, f"{errors[0]['at']}: {errors[0]['message']}", errors=errors).response()


@api.exception_handler(HttpError)
def _http_error(_request: HttpRequest, error: HttpError) -> HttpResponse:
    if isinstance(error.__cause__, Problem):  # the parser raised it
        return error.__cause__.response()
    return Problem(problems.MALFORMED, str(error)).response()


@api.exception_handler(Http404)
def _not_found(_request: HttpRequest, error: Http404) -> HttpResponse:
    return Problem(problems.NOT_FOUND, str(error)).response()


@api.exception_handler(IntegrityError)
@api.exception_handler(DataError)
def _not_stored(_request: HttpRequest, error: DatabaseError) -> HttpResponse:
    log.warning("api_value_refused", error=str(error))
    refused = "PostgreSQL refuses a value, such as a user whom there is not: nothing was changed."
    return Problem(problems.INVALID, refused).response()


# Not every database error is an outage. A statement that can never be executed is an error in Weir: it is not handled
# here, but logged.
@api.exception_handler(OperationalError)
@api.exception_handler(InterfaceError)
@api.exception_handler(InternalError)  # for example from a standby, which refuses writes
@api.exception_handler(RedisUnreachable)
def _unavailable(_request: HttpRequest, error: Exception) -> HttpResponse:
    if isinstance(error.__cause__, InFailedSqlTransaction):
        raise error
    log.warning("api_unavailable", error=str(error))
    return Problem(problems.UNAVAILABLE, problems.UNAVAILABLE.meaning).response()
