"""The columns of a row about the request or task that asked for it, to which later work is linked."""

from django.db import models

from weir.workers.tracing import correlation, spans


class Traced(models.Model):
    """A row that a web request, a task or a command asked for."""

    correlation_id = models.CharField(
        max_length=correlation.LONGEST,
        blank=True,
        default="",
        db_default="",
        help_text="the web request, or the task, that asked for it, as in log lines; empty: a command did",
    )
    traceparent = models.CharField(
        max_length=spans.LONGEST,
        blank=True,
        default="",
        db_default="",
        help_text="the span in which it was asked for (W3C Trace Context), where spans are on",
    )

    class Meta:
        abstract = True
