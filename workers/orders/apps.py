"""The app `orders`: what was ordered, and the e-mail that says it was shipped."""

from postgres import weir_apps


class OrdersConfig(weir_apps.WeirApp):
    """Needs `workers.mail`, which imports this app's kinds of e-mail."""

    name = "workers.orders"
    label = "orders"
