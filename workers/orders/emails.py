"""The kinds of e-mail about orders."""

from weir.workers.mail import kinds
from weir.workers.mail.kinds import Content
from weir.workers.orders.models import SHIPPED, Order


@kinds.register(SHIPPED)
def order_shipped(*, order_id: int) -> Content:
    """Tell the customer that the order was shipped, with the templates `weir/orders/shipped*`."""
    return Content.from_templates("weir/orders/shipped", order=Order.objects.get(pk=order_id))
