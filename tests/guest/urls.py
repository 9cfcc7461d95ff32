"""The foreign project's URLs: its own API is below /api/, and Weir's below /weir/."""

import json
from collections.abc import Callable

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import URLPattern, include, path
from django.views.decorators.csrf import csrf_exempt


def open_to_other_origins(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Let browsers hand answers on to scripts of other origins, as packages do for that."""

    def opened(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response.headers["Access-Control-Allow-Origin"] = "*"
        return response

    return opened


@login_not_required
@csrf_exempt
def checks(request: HttpRequest) -> HttpResponse:
    """Say 400 where the body is no JSON; 405 but for a POST; else set a cookie."""
    if request.method != "POST":
        return JsonResponse({"error": "post it"}, status=405)
    try:
        json.loads(request.body)
    except ValueError:
        return JsonResponse({"error": "could not parse request body"}, status=400)
    answer = JsonResponse({"ok": True})
    answer.set_cookie("seen", "1")
    return answer


def ours(*names: str) -> tuple[list[URLPattern], str]:
    """Return URLs in a namespace of the project's, which a package's might have as well."""
    namespace, name = names
    return [path("", checks, name=name)], namespace


urlpatterns = [
    path("ours/ops/", include(ours("ops", "overview"))),
    path("ours/bell/", include(ours("bell", "count"))),
    path("ours/api/", include(ours("api", "status"))),
    path("members/login/", LoginView.as_view(template_name="guest/login.html"), name="login"),
    path("api/v3/checks/", checks),
    path("weir/", include("weir.ops.urls")),
    path("weir/api/", include("weir.api.urls")),
    path("members/bell/", include("weir.notifications.web.urls")),
]
