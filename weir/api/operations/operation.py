"""The declaration of an operation of the API: the scope that it requires, its answers, and its possible refusals.

@operation(router, "GET", "/fetches/{fetch_id}", scope=scopes.SEE_FETCHES, answers={200: FetchDetails})
def get_fetch(request: HttpRequest, fetch_id: Id) -> FetchDetails: ...
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, TypeVar

from django.http import HttpRequest
from ninja import Router
from ninja.params.functions import Header
from ninja.signature import ViewSignature

from weir.api.access import Bearer
from weir.api.http import bodies, etags, problems
from weir.api.http.problems import INVALID, MEDIA_TYPE, Problem, ProblemKind
from weir.api.models import LONGEST_KEY
from weir.workers.audit import acting

View = TypeVar("View", bound=Callable[..., Any])
# Views declare headers through these defaults: `if_match: str = IF_MATCH`.
IF_MATCH: Final[Any] = Header("", alias="If-Match", max_length=2_000, description="the ETag of what is to be changed")
# Only said in the document: ninja would refuse what does not fit as an invalid value, and not as a malformed request.
IF_MATCH.json_schema_extra = {"pattern": etags.PATTERN}
IDEMPOTENCY_KEY: Final[Any] = Header(
    "",
    alias="Idempotency-Key",
    max_length=LONGEST_KEY,
    pattern=r"^[!-~]*$",
    description="a text of your choice, such as a UUID: the request is done once, however often it is sent",
)
# The problems that every operation may have.
ALWAYS: Final = (
    problems.MALFORMED,
    problems.UNAUTHENTICATED,
    problems.NOT_PERMITTED,
    problems.INVALID,
    problems.TOO_MANY_REQUESTS,
    problems.UNAVAILABLE,
)
WITH_BODY: Final = (problems.SLOW_BODY, problems.TOO_LARGE, problems.UNSUPPORTED_MEDIA_TYPE)


def operation(
    router: Router,
    method: str,
    path: str,
    *,
    scope: str,
    answers: Mapping[int, Any],
    refusals: Iterable[ProblemKind] = (),
    media_type: str = "",
) -> Callable[[View], View]:
    """Register the view for this method and path; only tokens that have the scope may call it.

    `answers` maps each status to its schema. `refusals` are the problems of this operation in addition to ALWAYS.
    `media_type` is the type of an answer with status 200 that is not JSON.
    """

    def register(view: View) -> View:
        models = ViewSignature(path, view).models
        of_query = [model for model in models if model.__ninja_param_source__ == "query"]
        names = {name for model in of_query for name in model.__ninja_flatten_map__}
        has_body = any(model.__ninja_param_source__ == "body" for model in models)
        kinds = (*ALWAYS, *(WITH_BODY if has_body else ()), *refusals)
        router.add_api_operation(
            path,
            [method],
            _checked(view, names),
            auth=Bearer(scope),
            response=dict(answers),
            operation_id=view.__name__,
            summary=(view.__doc__ or "").partition("\n")[0].rstrip("."),
            openapi_extra={
                "x-scope": scope,
                "responses": {**_refused(kinds), **(_raw(media_type) if media_type else {})},
            },
        )
        return view

    return register


@contextmanager
def refused(kind: ProblemKind, *errors: type[Exception]) -> Iterator[None]:
    """Refuse the request with this problem if the block raises one of the errors; the error's text is the detail."""
    try:
        yield
    except acting.ActRefused:  # each class of these errors has a problem of its own
        raise
    except errors as error:
        raise Problem(kind, str(error)) from error


def _checked(view: View, names: Collection[str]) -> View:
    """Return the view with checks that ninja lacks: of the names in the query, and of the strings in the URL."""

    @wraps(view)
    def checked(request: HttpRequest, **values: Any) -> Any:  # noqa: ANN401  what the view returns
        if unknown := sorted(set(request.GET) - set(names)):
            known = f"There are {', '.join(sorted(names))}." if names else "There are none here."
            raise Problem(INVALID, f"There is no query parameter {unknown[0]!r}. {known}")
        bodies.refuse_unstorable([*request.GET.values(), *(text for text in values.values() if isinstance(text, str))])
        return view(request, **values)

    return checked  # type: ignore[return-value]  # has the view's signature


def _refused(kinds: Iterable[ProblemKind]) -> dict[int, Any]:
    """Return the OpenAPI document's description of the answers with these problems."""
    by_status: dict[int, list[ProblemKind]] = {}
    for kind in kinds:
        by_status.setdefault(kind.status, []).append(kind)
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": "; ".join(f"{kind.title} ({kind.name})" for kind in of_status), "content": content}
        for status, of_status in sorted(by_status.items())
    }


def _raw(media_type: str) -> dict[int, Any]:
    return {200: {"content": {media_type: {"schema": {"type": "string", "format": "binary"}}}}}
