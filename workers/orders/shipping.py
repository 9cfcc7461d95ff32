"""The function with which web code ships an order.

from weir.workers.orders import shipping
shipping.ship(order.pk)
"""

from django.db import transaction
from django.db.models.functions import Now

from weir.workers.mail import outbox
from weir.workers.orders.models import SHIPPED, Order


def ship(order_id: int) -> bool:
    """Record that the order is shipped, and queue the e-mail that says so. Return False if it was shipped before.

    Both are part of the caller's transaction: after a rollback the order is not shipped, and no e-mail is sent. Two
    calls, even at the same time, have the effect of one. Workers learn of the e-mail when the transaction commits.
    Raises Order.DoesNotExist.
    """
    with transaction.atomic():
        if not Order.objects.unshipped().filter(pk=order_id).update(shipped_at=Now()):
            if not Order.objects.filter(pk=order_id).exists():
                raise Order.DoesNotExist(f"There is no order {order_id}.")
            return False
        order = Order.objects.get(pk=order_id)
        context = {"order_id": order_id}
        outbox.send_once(SHIPPED, str(order_id), to=order.customer_email, context=context, raises=False)
    return True
