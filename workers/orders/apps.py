"""The app `orders`: orders, and the e-mail that says that an order was shipped."""

from weir.postgres import weir_apps


class OrdersConfig(weir_apps.WeirApp):
    """Configures the app. It needs `weir.workers.mail`, which imports this app's kinds of e-mail."""

    name = "weir.workers.orders"
    label = "weir_orders"
    verbose_name = "Weir: orders"
