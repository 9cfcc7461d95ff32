"""The app `events`: a log of the ends of fetches, e-mails and effects, which misses none."""

from weir.postgres import weir_apps


class EventsConfig(weir_apps.WeirApp):
    """Owns the log, and the task that keeps it."""

    name = "weir.workers.events"
    label = "weir_events"
    verbose_name = "Weir: events"
