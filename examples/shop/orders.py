from django.contrib.auth.models import User
from django.db import transaction

from weir import notify
from weir.workers.orders import shipping
from weir.workers.orders.models import Order


@transaction.atomic
def parcel_is_gone(number: str) -> None:
    """Ship the order, and tell its customer by e-mail and by a notification: all of it or nothing, and once."""
    order = Order.objects.get(number=number)
    if shipping.ship(order.pk):
        for customer in User.objects.filter(email=order.customer_email):
            notify(customer.pk, "order.shipped", f"Order {number} is on its way", url="/shop/")
