"""The app `notifications.web`: what a web application shows its users of their notifications."""

from django.apps import AppConfig


class BellConfig(AppConfig):
    """Has views, a template tag and a script; its models are those of `notifications`."""

    name = "notifications.web"
    label = "bell"
