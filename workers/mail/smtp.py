"""The import path of Weir's mail backend in settings: EMAIL_BACKEND=weir.workers.mail.smtp.EmailBackend."""

from weir.workers.mail.transports.smtp import EmailBackend

__all__ = ["EmailBackend"]
