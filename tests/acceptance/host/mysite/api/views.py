from django.http import JsonResponse
from ratelimit import limits

from orders.models import Order


@limits(calls=1000, period=60)
def order(request, number):
    found = Order.objects.filter(number=number).first()
    if found is None:
        return JsonResponse({"error": "no such order"}, status=404)
    return JsonResponse({"number": found.number, "invoice": bytes(found.invoice or b"").decode()})
