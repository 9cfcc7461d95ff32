"""The app `orders`: what was ordered, and the e-mail that says it was shipped."""

from weir.postgres import weir_apps


class OrdersConfig(weir_apps.WeirApp):
    """Needs `weir.workers.mail`, which imports this app's kinds of e-mail."""

    name = "weir.workers.orders"
    label = "weir_orders"
    verbose_name = "Weir: orders"
