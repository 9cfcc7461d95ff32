"""The span of a web request, if spans are on. If the request has a `traceparent`, that span is the parent."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import cast

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from weir.workers.tracing import correlation, spans

Answer = HttpResponseBase | Awaitable[HttpResponseBase]


@sync_and_async_middleware
def request_spans(get_response: Callable[[HttpRequest], Answer]) -> Callable[[HttpRequest], Answer]:
    """Record the method and route of each request, not its path, which may be secret, as in a password reset link.

    Raises MiddlewareNotUsed if spans are off, so that requests do not pay for them.
    """
    if not spans.is_on():
        raise MiddlewareNotUsed
    if iscoroutinefunction(get_response):

        async def ask(request: HttpRequest) -> HttpResponseBase:
            with _recorded(request) as answer:
                answer.append(await cast("Awaitable[HttpResponseBase]", get_response(request)))
            return answer[0]

        return ask

    def ask_now(request: HttpRequest) -> HttpResponseBase:
        with _recorded(request) as answer:
            answer.append(cast("HttpResponseBase", get_response(request)))
        return answer[0]

    return ask_now


@contextmanager
def _recorded(request: HttpRequest) -> Iterator[list[HttpResponseBase]]:
    answer: list[HttpResponseBase] = []
    method = str(request.method)
    with spans.span(method, {"http.request.method": method}, parent=request.headers.get("traceparent", "")) as span:
        yield answer
        route = request.resolver_match.route if request.resolver_match else ""
        span.update_name(f"{method} /{route}".rstrip())
        span.set_attributes({"http.route": f"/{route}", "http.response.status_code": answer[0].status_code})
        if isinstance(answer[0], HttpResponse) and (name := answer[0].headers.get("X-Request-ID")):
            span.set_attributes({correlation.KEY: name})
