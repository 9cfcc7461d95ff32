"""The app `weir.notifications.web`: the bell, with which a web application shows its users their notifications."""

from weir.postgres import weir_apps


class BellConfig(weir_apps.WeirApp):
    """Has views, a template tag and a script; its models are those of `notifications`."""

    name = "weir.notifications.web"
    label = "weir_bell"
    verbose_name = "Weir: bell"
