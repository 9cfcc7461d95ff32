from django.contrib.auth import get_user_model
from django.http import JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_POST

from weir import Email, Fetch, Notification, notify, request_fetch, send_once, unread_count, unread_counts

from .models import Order


class CardRefused(Exception):
    pass


@require_POST
def place(request):
    """Place an order, in the one transaction that ATOMIC_REQUESTS makes."""
    customer = get_object_or_404(get_user_model(), username=request.POST["customer"])
    order = Order.objects.create(
        number=request.POST["number"], customer=customer, invoice_url=request.POST["invoice_url"]
    )
    request_fetch(order.invoice_url, on_done="orders.tasks.invoice_came")
    notify(customer.pk, "order.placed", f"Your order {order.number}")
    send_once("order.placed", order.number, to=customer.email, context={"number": order.number})
    unread = unread_count(customer.pk)
    if request.POST["card"] == "refused":
        raise CardRefused
    return JsonResponse({"unread": unread})


def totals(request):
    """Count what there is, for all customers."""
    customers = get_user_model().objects.values_list("pk", flat=True)
    return JsonResponse(
        {
            "orders": Order.objects.count(),
            "fetches": Fetch.objects.exclude(on_done="").count(),
            "notifications": Notification.objects.count(),
            "emails": Email.objects.count(),
            "unread": sum(unread_counts(customers).values()),
        }
    )
