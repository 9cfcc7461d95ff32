from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from weir import notifications_page, unread_count

from .models import Price


def overview(request: HttpRequest) -> HttpResponse:
    """Show what each shop asks now, and what the user has not read yet."""
    latest = Price.objects.order_by("shop", "-fetch_id").distinct("shop")
    context: dict[str, object] = {"prices": latest}
    if request.user.is_authenticated:
        context["unread"] = unread_count(request.user.pk)
        context["notifications"] = notifications_page(request.user.pk)
    return render(request, "shop/overview.html", context)
