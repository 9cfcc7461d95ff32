"""What holds for each answer of the API: it is a problem where it is refused, and no browser keeps or runs it.

Each view of the API's URLs is wrapped. So it holds wherever a project includes them, without middleware, and for
nothing else that the project answers. All paths below have a view (`weir.api.urls`): the last one refuses what is no
operation's.
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
PAGE: Final = "openapi-view"  # as ninja names the URL of Swagger UI
# Swagger UI writes styles into its page, and has pictures in them.
OF_PAGE: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)

View = Callable[..., HttpResponse]


@cache
def prefix() -> str:
    """Return what the paths of the API begin with, as the project's URLs have it; "" where they have no API."""
    try:
        return reverse("weir_api:v1:api-root").removeprefix(get_script_prefix().rstrip("/"))
    except NoReverseMatch:
        return ""


def is_of_api(path: str) -> bool:
    """Tell whether a path is the API's, also one that no operation has."""
    return prefix() != "" and path.startswith(prefix())


def wrap(patterns: Iterable[URLPattern | URLResolver]) -> None:
    """Have what each view of a URLconf answers, also of those that it includes, be what the API promises.

    No cookie opens anything there, so none is set, no token against forgery is asked for, and nobody is led to a login.
    """
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            wrap(pattern.url_patterns)
        else:
            of_page = {"Content-Security-Policy": OF_PAGE} if pattern.name == PAGE else {}
            pattern.callback = _answered(pattern.callback, of_page)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer what Django refuses in front of all views, such as a host that is not allowed: for `handler400`."""
    response = defaults.bad_request(request, exception)
    return _guarded(response, HEADERS) if is_of_api(request.path_info) else response


def _answered(view: View, headers: dict[str, str]) -> View:
    headers = HEADERS | headers

    @wraps(view)
    def answered(request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponse:
        request.COOKIES = {}  # and no middleware of sessions sees one that it would have the browser delete
        try:
            response = view(request, *arguments, **named)
        except Exception as error:  # noqa: BLE001  which Django logs, and tells who listens
            response = response_for_exception(request, error)
        return _guarded(response, headers)

    answered.csrf_exempt = True  # type: ignore[attr-defined]  # as Django's decorator has it
    answered.login_required = False  # type: ignore[attr-defined]  # as above
    return answered


def _guarded(response: HttpResponse, headers: Mapping[str, str]) -> HttpResponse:
    response = _as_problem(response)
    response.cookies.clear()
    for name, value in headers.items():
        response.headers.setdefault(name, value)
    return response


def _as_problem(response: HttpResponse) -> HttpResponse:
    """Return the problem that a refusal of Django's is."""
    kind = problems.BY_STATUS.get(response.status_code)
    if kind is None or response.headers.get("Content-Type") == MEDIA_TYPE:
        return response
    kept = {name: response.headers[name] for name in ("Allow", "X-Request-ID") if name in response.headers}
    problem = Problem(kind, kind.meaning, kept).response()
    vars(problem).update(
        {name: True for name in ("_has_been_logged",) if name in vars(response)}
    )  # Django's: not twice
    return problem
