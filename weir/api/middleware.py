"""What holds for each answer below /api/: it is a problem where it is refused, and no browser keeps or runs it.

Stands first of all middleware, and so sees what Django itself refuses: a host that is not allowed, a method that is not
offered, and an error that nobody expected.
"""

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse

from weir.api.http import problems
from weir.api.http.problems import MEDIA_TYPE, Problem

BELOW: Final = "/api/"
PAGE: Final = f"{BELOW}docs"
HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
# Swagger UI writes styles into its page, and has pictures in them.
OF_PAGE: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)


def api_answers(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Have what is answered below /api/ be what the API promises."""

    def answered(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if not request.path_info.startswith(BELOW):
            return response
        response = _as_problem(response)
        response.cookies.clear()
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if request.path_info == PAGE:
            response.headers["Content-Security-Policy"] = OF_PAGE
        return response

    return answered


def _as_problem(response: HttpResponse) -> HttpResponse:
    """Return the problem that a refusal of Django's is."""
    kind = problems.BY_STATUS.get(response.status_code)
    if kind is None or response.headers.get("Content-Type") == MEDIA_TYPE:
        return response
    kept = {name: response.headers[name] for name in ("Allow", "X-Request-ID") if name in response.headers}
    return Problem(kind, kind.meaning, kept).response()
