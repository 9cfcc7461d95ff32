"""The app `project.logins`: how often a password may be tried, whichever page or code asks Django to check one."""

from django.apps import AppConfig
from django.contrib import admin
from django.contrib.auth.signals import user_logged_in


class LoginsConfig(AppConfig):
    """Gives the admin a form that says how long to wait, and remembers from where users have logged in."""

    name = "project.logins"

    def ready(self) -> None:
        from project.logins import gate, throttle  # noqa: PLC0415  needs loaded apps

        admin.site.login_form = gate.LoginForm
        user_logged_in.connect(throttle.remember, dispatch_uid="weir")
