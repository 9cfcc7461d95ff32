"""The app `project.logins`: limits how often a password may be tried, whatever page or code asks Django to check it."""

from django.contrib import admin
from django.contrib.auth.signals import user_logged_in

from weir.postgres import weir_apps
from weir.workers.recovery.signals import postgresql_went_back


class LoginsConfig(weir_apps.WeirApp):
    """Gives the admin a form that says how long to wait, and records the addresses from which users have logged in."""

    name = "project.logins"
    label = "weir_logins"
    verbose_name = "Weir: logins"

    def ready(self) -> None:
        from project.logins import gate, links, throttle  # noqa: PLC0415  needs loaded apps

        admin.site.login_form = gate.LoginForm
        user_logged_in.connect(throttle.remember, dispatch_uid="weir")
        postgresql_went_back.connect(links.forget_all, dispatch_uid="project.logins")
