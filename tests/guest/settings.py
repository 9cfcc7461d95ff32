"""The settings of the foreign project: none of them is read from `project`."""

import os

from pydantic import SecretStr

SECRET_KEY = "a key of the foreign project"  # noqa: S105  of tests
ALLOWED_HOSTS = ["testserver"]
ROOT_URLCONF = "tests.guest.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
STATIC_URL = "static/"
LOGIN_URL = "/members/login/"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "django_celery_beat",
    "tests.guest",
    "weir.postgres.timeline",
    "weir.ratelimit",
    "weir.notifications",
    "weir.notifications.web",
    "weir.workers",
    "weir.workers.audit",
    "weir.workers.fetches",
    "weir.workers.history",
    "weir.workers.mail",
    "weir.workers.overview",
    "weir.workers.processes",
    "weir.workers.recovery",
    "weir.workers.throttled",
    "weir.workers.unread",
    "weir.ops",
    "weir.api",
    "weir.api.tokens",
    "ninja",
]
MIDDLEWARE = [
    "tests.guest.urls.open_to_other_origins",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
            ]
        },
    }
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "guest",
        "HOST": os.environ.get("GUEST_DATABASE_HOST", ""),
        "USER": os.environ.get("GUEST_DATABASE_USER", ""),
        "ATOMIC_REQUESTS": True,
    }
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"kept": {"class": "tests.guest.logs.Kept"}},
    "root": {"handlers": ["kept"], "level": "INFO"},
}

# What Weir has no default for, as yet.
REDIS_URL = os.environ.get("GUEST_REDIS_URL", "redis://127.0.0.1:1/0")
CELERY_BROKER_URL = "memory://"
OTEL_EXPORTER_OTLP_ENDPOINT = ""
EMAIL_TIMEOUT = 30
WEIR_AUDIT_RETENTION = WEIR_SITE_RETENTION = WEIR_NOTIFICATION_RETENTION = WEIR_FETCH_RETENTION = 2592000.0
WEIR_DEFAULT_RATE = "1/s"
WEIR_FETCH_ALLOW_NETS: list[str] = []
WEIR_FETCH_ALLOW_PORTS = ["80", "443", "8080", "8443"]
WEIR_FETCH_CONNECT_TIMEOUT = 10.0
WEIR_FETCH_DNS_TIMEOUT = 5.0
WEIR_FETCH_KEEP_INCOMPLETE = False
WEIR_FETCH_MAX_BODY = 5242880
WEIR_FETCH_MAX_IN_FLIGHT = 5000
WEIR_FETCH_MAX_MEMORY = 268435456
WEIR_FETCH_MAX_PER_ADDRESS = 100
WEIR_FETCH_TIMEOUT = 30.0
WEIR_FETCH_USER_AGENT = "Weir/0.1"
WEIR_HISTORY_RETENTION = 604800.0
WEIR_LIVENESS_DIR = ""
WEIR_LOOKAHEAD = 3.0
WEIR_MAIL_CA_FILE = WEIR_MAIL_EHLO_NAME = WEIR_MAIL_ENVELOPE_SENDER = WEIR_MAIL_XOAUTH2_TOKEN = ""
WEIR_MAIL_COMMAND_TIMEOUT = 300.0
WEIR_MAIL_CONTENT_RETENTION = 2592000.0
WEIR_MAIL_DOMAIN_RATE = WEIR_MAIL_RATE = ""
WEIR_MAIL_LEASE = 120.0
WEIR_MAIL_MAX_ATTEMPTS = 20
WEIR_MAIL_RELAYS: list[SecretStr] = []
WEIR_MAIL_REPLY_TIMEOUT = 600.0
WEIR_MAIL_ROUTES: dict[str, str] = {}
WEIR_MAIL_UNKNOWN_AFTER = 1800.0
WEIR_METRICS_FOR_LOOPBACK = True
WEIR_METRICS_SITES: list[str] = []
WEIR_METRICS_TOKEN = SecretStr("")
WEIR_OBEY_ROBOTS = False
WEIR_OPS_READ_ONLY = False
WEIR_REDIS_PREFIX = "weir"
WEIR_RETRY_AFTER_MAX = 86400.0
WEIR_SLOT_RETENTION = 3600.0
WEIR_STATEMENT_TIMEOUT = 60.0
WEIR_TRANSACTION_POOLING = False
WEIR_UNREAD_CAP = 0
WEIR_USER_FOREIGN_KEY = False
WEIR_USER_KEY = ""
# (the end of what Weir has no default for)
