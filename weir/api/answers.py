"""What applies to each answer of the API: a refusal is a problem, and no browser keeps or runs the answer.

Each view of the API's URLs is wrapped. So no middleware is needed wherever a project includes the URLs, and the
project's other answers are not affected. Every path below the API's prefix has a view (`weir.api.urls`): the last view
refuses the paths that have no operation.
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
    """Return the beginning of the API's paths in the project's URLs; "" if the project does not include the API."""
    try:
        return reverse("weir_api:v1:api-root").removeprefix(get_script_prefix().rstrip("/"))
    except NoReverseMatch:
        return ""


def is_of_api(path: str) -> bool:
    """Return whether a path belongs to the API, even if no operation has this path."""
    return prefix() != "" and path.startswith(prefix())


def wrap(patterns: Iterable[URLPattern | URLResolver]) -> None:
    """Wrap each view of a URLconf, and of the URLconfs that it includes, so that its answers keep the API's promises.

    Cookies give no access to the API. So no answer sets a cookie, no view asks for a CSRF token, and no request is
    redirected to a login.
    """
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            wrap(pattern.url_patterns)
        else:
            of_page = {"Content-Security-Policy": OF_PAGE} if pattern.name == PAGE else {}
            pattern.callback = _answered(pattern.callback, of_page)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request that Django refuses before any view, such as one for a forbidden host: for use as handler400."""
    response = defaults.bad_request(request, exception)
    return _guarded(response, HEADERS) if is_of_api(request.path_info) else response


def _answered(view: View, headers: dict[str, str]) -> View:
    headers = HEADERS | headers

    @wraps(view)
    def answered(request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponse:
        request.COOKIES = {}  # otherwise session middleware might tell the browser to delete a cookie
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
    """Return a refusal of Django's as a problem, and any other response unchanged."""
    kind = problems.BY_STATUS.get(response.status_code)
    if kind is None or response.headers.get("Content-Type") == MEDIA_TYPE:
        return response
    kept = {name: response.headers[name] for name in ("Allow", "X-Request-ID") if name in response.headers}
    problem = Problem(kind, kind.meaning, kept).response()
    vars(problem).update(
        {name: True for name in ("_has_been_logged",) if name in vars(response)}
    )  # Django's mark, without which it would log the response twice
    return problem
