"""The app `orders`: what was ordered, and the e-mail that says it was shipped."""

from django.apps import AppConfig


class OrdersConfig(AppConfig):
    """Needs `workers.mail`, which imports this app's kinds of e-mail."""

    name = "workers.orders"
    label = "orders"
