"""The import path of Weir's mail backend in settings: EMAIL_BACKEND=workers.mail.smtp.EmailBackend."""

from workers.mail.transports.smtp import EmailBackend

__all__ = ["EmailBackend"]
