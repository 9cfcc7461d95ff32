"""The kinds of e-mail about orders."""

from collections.abc import Collection, Iterable, Mapping
from typing import Self

from django.db.models import CharField
from django.db.models.functions import Cast
from django.template.loader import render_to_string

from workers.mail import kinds
from workers.orders.models import SHIPPED, Order


@kinds.register
class OrderShipped(kinds.Draft):
    """Tells the customer that the order is on its way. The key is the order's id."""

    kind = SHIPPED

    def __init__(self, order: Order) -> None:
        self.order = order
        self.label = order.number
        self.recipient = order.customer_email

    @classmethod
    def find(cls, keys: Collection[str]) -> Mapping[str, Self]:
        """Return the drafts by the ids of their orders."""
        return {str(order.pk): cls(order) for order in Order.objects.filter(pk__in=keys)}

    @classmethod
    def search(cls, beginning: str) -> Iterable[str]:
        """Return the ids of the orders whose number begins so."""
        found = Order.objects.filter(number__startswith=beginning)
        return found.values_list(Cast("pk", CharField()), flat=True)

    def content(self) -> kinds.Content:
        """Render the templates `orders/shipped*`."""
        values = {"order": self.order}
        return kinds.Content(
            subject=render_to_string("orders/shipped_subject.txt", values).rstrip("\n"),
            text=render_to_string("orders/shipped.txt", values),
            html=render_to_string("orders/shipped.html", values),
        )
