"""GET /metrics: the numbers of all parts of Weir, in Prometheus' text format or in OpenMetrics.

A client must send WEIR_METRICS_TOKEN. If no token is set, the page does not exist, unless WEIR_METRICS_FOR_LOOPBACK
lets clients of the same host in, as with the embedded servers: there are no other clients then. Otherwise Weir may be
behind a proxy on this host, from which all requests seem to come.
"""

from hmac import compare_digest

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, exposition
from prometheus_client.openmetrics import exposition as openmetrics

from weir.conf import settings
from weir.ops.clients import is_local
from weir.ops.metrics.scrape import Busy, Scraper

_scraper = Scraper()


@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer 200 with the parts that could be read; 401 without the token; 404 if no token is set; 503 if Busy."""
    answer = _refusal(request) or _answer(request.headers.get("Accept", ""))
    answer.headers["Cache-Control"] = "no-store"
    return answer


def _refusal(request: HttpRequest) -> HttpResponse | None:
    if wanted := settings.WEIR_METRICS_TOKEN.get_secret_value():
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and compare_digest(shown.strip().encode("latin-1", "replace"), wanted.encode()):
            return None
        return HttpResponse(status=401, headers={"WWW-Authenticate": "Bearer"})
    if settings.WEIR_METRICS_FOR_LOOPBACK and is_local(request):
        return None
    return HttpResponse(status=404)


def _answer(accept: str) -> HttpResponse:
    try:
        scrape = _scraper.scrape()
    except Busy:
        return HttpResponse("The last scrape has not ended.\n", status=503, content_type="text/plain")
    registry = CollectorRegistry()
    registry.register(scrape)
    if "application/openmetrics-text" in accept:
        body = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]  # the package lacks types
        return HttpResponse(body, content_type=openmetrics.CONTENT_TYPE_LATEST)
    return HttpResponse(exposition.generate_latest(registry), content_type=exposition.CONTENT_TYPE_PLAIN_0_0_4)
