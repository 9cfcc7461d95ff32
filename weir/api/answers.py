"""What holds for each answer of the API: a refusal is a problem, and no browser keeps or runs the answer.

Each view of the API's URLs is wrapped. So this holds wherever a project includes them, without middleware, and for
none of the project's other answers. Every path below has a view (`weir.api.urls`): the last view refuses the paths
that have no operation.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, wraps
from typing import Any, Final

from django.core.handlers.exception import response_for_exception
from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, URLPattern, URLResolver, get_script_prefix, reverse
from django.views import defaults

from weir.api.http import problems
from weir.api.http.problems import MEDIA_TYPE, Problem

HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
PAGE: Final = "openapi-view"  # ninja's name for the URL of Swagger UI
# Swagger UI writes styles into its page, and the styles contain pictures.
OF_PAGE: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)

View = Callable[..., HttpResponse]


@cache
def prefix() -> str:
    """Return how the paths of the API begin in the project's URLs; "" if these do not include the API."""
    try:
        return reverse("weir_api:v1:api-root").removeprefix(get_script_prefix().rstrip("/"))
    except NoReverseMatch:
        return ""


def is_of_api(path: str) -> bool:
    """Return whether a path is the API's, even if no operation has it."""
    return prefix() != "" and path.startswith(prefix())


def wrap(patterns: Iterable[URLPattern | URLResolver]) -> None:
    """Wrap each view of a URLconf, and of those that it includes, so that its answers are what the API promises.

    Cookies give no access there. So none is set, no CSRF token is asked for, and no request is redirected to a login.
    """
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            wrap(pattern.url_patterns)
        else:
            of_page = {"Content-Security-Policy": OF_PAGE} if pattern.name == PAGE else {}
            pattern.callback = _answered(pattern.callback, of_page)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request that Django refuses before any view, such as one for a forbidden host: for `handler400`."""
    response = defaults.bad_request(request, exception)
    return _guarded(response, HEADERS) if is_of_api(request.path_info) else response


def _answered(view: View, headers: dict[str, str]) -> View:
    headers = HEADERS | headers

    @wraps(view)
    def answered(request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponse:
        request.COOKIES = {}  # so no session middleware sees a cookie that it would tell the browser to delete
        try:
            response = view(request, *arguments, **named)
        except Exception as error:  # noqa: BLE001  Django logs it, and sends its signal
            response = response_for_exception(request, error)
        return _guarded(response, headers)

    answered.csrf_exempt = True  # type: ignore[attr-defined]  # as Django's decorator sets it
    answered.login_required = False  # type: ignore[attr-defined]  # as above
    return answered


def _guarded(response: HttpResponse, headers: Mapping[str, str]) -> HttpResponse:
    response = _as_problem(response)
    response.cookies.clear()
    for name, value in headers.items():
        response.headers.setdefault(name, value)
    return response


def _as_problem(response: HttpResponse) -> HttpResponse:
    """Return a refusal of Django's as a problem, and any other response as it is."""
    kind = problems.BY_STATUS.get(response.status_code)
    if kind is None or response.headers.get("Content-Type") == MEDIA_TYPE:
        return response
    kept = {name: response.headers[name] for name in ("Allow", "X-Request-ID") if name in response.headers}
    problem = Problem(kind, kind.meaning, kept).response()
    vars(problem).update(
        {name: True for name in ("_has_been_logged",) if name in vars(response)}
    )  # Django's mark: so it does not log the response twice
    return problem
