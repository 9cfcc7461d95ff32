"""The app `audit`: who changed what, from which door, and why."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    """Owns the audit trail, and the task that deletes what is old."""

    name = "workers.audit"
    verbose_name = "Audit"
