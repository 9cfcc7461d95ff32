"""The app `audit`: who changed what, through which door, and why."""

from weir.postgres import weir_apps


class AuditConfig(weir_apps.WeirApp):
    """Owns the audit trail, and the task that deletes old entries."""

    name = "weir.workers.audit"
    label = "weir_audit"
    verbose_name = "Weir: audit"
