"""Every setting of Weir, in one file, read from environment variables (`.env.example` lists them).

Reading this module starts nothing and connects to nothing: where `DATABASE_URL` or `REDIS_URL` is unset it only
computes where the embedded servers' sockets are (`project.embedded`).
"""

import os
from typing import Any

import environ
import structlog
from django.core.exceptions import ImproperlyConfigured

from project import embedded
from project import environment as env
from project.checkout import CHECKOUT
from workers import task_names

environ.Env.read_env(CHECKOUT / ".env")  # variables of the real environment win

# --- Django ---------------------------------------------------------------------------------------------------
DEBUG: bool = env.boolean("DJANGO_DEBUG", default=False)
# Without a key of its own a checkout still starts (`make demo`); `manage.py check --deploy` complains (security.W009).
INSECURE_SECRET_KEY = "insecure-set-DJANGO_SECRET_KEY-in-production"  # noqa: S105  a placeholder, not a secret
# One that is set, and empty, is a secret that did not arrive: Django signs nothing with it.
SECRET_KEY: str = os.environ.get("DJANGO_SECRET_KEY", INSECURE_SECRET_KEY)
ALLOWED_HOSTS: list[str] = env.strings("DJANGO_ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_celery_beat",
    "django_structlog",
    "project",
    "ratelimit",
    "notifications",
    "workers",
    "workers.fetches",
    "workers.mail",
    "workers.orders",
    "workers.throttled",
    "workers.unread",
    "demo",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_structlog.middlewares.RequestMiddleware",
]
ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"  # Celery, beat and PostgreSQL all run in UTC
STATIC_URL = "static/"
STATIC_ROOT = CHECKOUT / "staticfiles"
# A checkout where nobody ran collectstatic serves the admin's files from where they are.
WHITENOISE_USE_FINDERS = WHITENOISE_AUTOREFRESH = not STATIC_ROOT.is_dir()

# --- PostgreSQL: decides everything -----------------------------------------------------------------------------
EMBEDDED_HOME = embedded.home()


def _database() -> dict[str, Any]:
    if not (url := env.string("DATABASE_URL")):
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": embedded.DATABASE_NAME,
            "USER": embedded.DATABASE_USER,
            "HOST": str(embedded.postgres_socket_dir(EMBEDDED_HOME)),
        }
    database: dict[str, Any] = environ.Env.db_url_config(url)
    if database.get("ENGINE") != "django.db.backends.postgresql":
        raise ImproperlyConfigured(
            "DATABASE_URL does not name a PostgreSQL database: write postgresql://USER:PASSWORD@HOST:5432/NAME, "
            "or unset it to use the embedded server."
        )
    return database


# 0 = none, for a migration of large tables. PostgreSQL knows none that is longer than 2**31 - 1 ms.
_STATEMENT_TIMEOUT = f"{min(env.seconds('WEIR_STATEMENT_TIMEOUT', default=60.0) * 1000, 2**31 - 1):.0f}ms"
DATABASES = {"default": _database()}
DATABASES["default"].setdefault("OPTIONS", {}).update(
    connect_timeout=5,
    prepare_threshold=5,  # Django turns prepared statements off; ours are prepared (postgres.statements)
    application_name="weir",
    # A statement that hangs must not hold a worker for good: threads cannot be interrupted.
    options=f"-c statement_timeout={_STATEMENT_TIMEOUT} -c idle_in_transaction_session_timeout={_STATEMENT_TIMEOUT}",
)
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True

# --- Redis/Valkey: a broker, may vanish ---------------------------------------------------------------------------
REDIS_URL: str = env.url("REDIS_URL") or f"unix://{embedded.valkey_socket(EMBEDDED_HOME)}"


def _broker_url() -> str:
    """CELERY_BROKER_URL, or REDIS_URL in Kombu's spelling (`redis+socket://` for a Unix socket)."""
    url = env.string("CELERY_BROKER_URL") or REDIS_URL
    if url.startswith("unix://"):
        path, _, query = url.removeprefix("unix://").partition("?")
        database = dict(pair.partition("=")[::2] for pair in query.split("&")).get("db", "0")
        return f"redis+socket://{path}?virtual_host={database}"
    return url


# --- Celery ---------------------------------------------------------------------------------------------------------
CELERY_BROKER_URL = _broker_url()
CELERY_BROKER_TRANSPORT_OPTIONS = {
    # Without socket_timeout a half-open connection hangs a pool or a publisher for good.
    "socket_timeout": 10,
    "socket_connect_timeout": 3,
    "socket_keepalive": True,
    "health_check_interval": 10,
    "max_connections": 100,
    "visibility_timeout": 3600,
    # A publisher tries twice, at once: web code does not wait for a dead broker, as the sweep finds what was not sent.
    # (Kombu's own default is 6 s of trying.) Workers reconnect by the settings below.
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0,
    "interval_max": 0,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # the default of 100 ends a worker in a long outage
CELERY_TASK_PUBLISH_RETRY = False
CELERY_TASK_IGNORE_RESULT = True
CELERY_RESULT_EXPIRES = None
CELERY_WORKER_LOST_WAIT = 0.5  # nobody waits for results of a killed child, and a worker that is to stop must not
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TIMEZONE = "UTC"
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_ROUTES = {
    task_names.FETCH_BATCH: {"queue": "fetch"},
    task_names.SEND_EMAILS: {"queue": "mail"},  # a mail server that hangs must hold up nothing else
}
CELERY_WORKER_ETA_TASK_LIMIT = 1000
CELERY_WORKER_PREFETCH_MULTIPLIER = 2
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_BEAT_SCHEDULER = "workers.beat:LockedScheduler"
CELERY_BEAT_SYNC_EVERY = 1
CELERY_BEAT_MAX_LOOP_INTERVAL = 1

# --- E-mail: Django's own settings ----------------------------------------------------------------------------------
EMAIL_BACKEND: str = env.string("EMAIL_BACKEND", default="workers.mail.smtp.EmailBackend")
EMAIL_HOST: str = env.string("EMAIL_HOST", default="localhost")
EMAIL_PORT: int = env.integer("EMAIL_PORT", default=25)
EMAIL_HOST_USER: str = env.string("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD: str = env.string("EMAIL_HOST_PASSWORD")
EMAIL_USE_TLS: bool = env.boolean("EMAIL_USE_TLS", default=False)  # STARTTLS
EMAIL_USE_SSL: bool = env.boolean("EMAIL_USE_SSL", default=False)  # TLS from the first byte
EMAIL_SSL_CERTFILE: str | None = env.string("EMAIL_SSL_CERTFILE") or None  # a client's certificate
EMAIL_SSL_KEYFILE: str | None = env.string("EMAIL_SSL_KEYFILE") or None
EMAIL_FILE_PATH: str | None = env.string("EMAIL_FILE_PATH") or None  # of Django's filebased backend
EMAIL_TIMEOUT: float = env.seconds("EMAIL_TIMEOUT", default=30.0)  # seconds, for each step of a conversation
DEFAULT_FROM_EMAIL: str = env.string("DEFAULT_FROM_EMAIL", default="webmaster@localhost")

# --- Weir -----------------------------------------------------------------------------------------------------------
WEIR_DEFAULT_RATE: str = env.string("WEIR_DEFAULT_RATE", default="1/s")  # a site nobody set a rate for
WEIR_LOOKAHEAD: float = env.seconds("WEIR_LOOKAHEAD", default=3.0)  # seconds: how far ahead dispatch books a site
WEIR_RETRY_AFTER_MAX: float = env.seconds("WEIR_RETRY_AFTER_MAX", default=86400.0)  # seconds: longer ones are cut to it
WEIR_SLOT_RETENTION: float = env.seconds("WEIR_SLOT_RETENTION", default=3600.0)  # seconds a past slot is kept
WEIR_FETCH_RETENTION: float = env.seconds("WEIR_FETCH_RETENTION", default=30 * 86400.0)  # seconds a result is kept
WEIR_NOTIFICATION_RETENTION: float = env.seconds(
    "WEIR_NOTIFICATION_RETENTION", default=90 * 86400.0
)  # seconds, of read
WEIR_FETCH_TIMEOUT: float = env.seconds("WEIR_FETCH_TIMEOUT", default=30.0)  # seconds, request written to body read
WEIR_FETCH_CONNECT_TIMEOUT: float = env.seconds("WEIR_FETCH_CONNECT_TIMEOUT", default=10.0)  # seconds, TCP and TLS
WEIR_FETCH_DNS_TIMEOUT: float = env.seconds("WEIR_FETCH_DNS_TIMEOUT", default=5.0)  # seconds
WEIR_FETCH_MAX_BODY: int = env.integer("WEIR_FETCH_MAX_BODY", default=5 * 2**20)  # bytes, after decompression
WEIR_FETCH_MAX_IN_FLIGHT: int = env.integer("WEIR_FETCH_MAX_IN_FLIGHT", default=5000)  # fetches a fetcher process holds
WEIR_FETCH_USER_AGENT: str = env.string("WEIR_FETCH_USER_AGENT", default="Weir/0.1")
WEIR_OBEY_ROBOTS: bool = env.boolean("WEIR_OBEY_ROBOTS", default=True)  # robots.txt, where a site says nothing else
WEIR_FETCH_ALLOW_NETS: list[str] = env.strings("WEIR_FETCH_ALLOW_NETS", default=[])  # networks the guard lets pass
WEIR_MAIL_RATE: str = env.string("WEIR_MAIL_RATE")  # of the mail server, such as 10/s; empty = unlimited
WEIR_MAIL_LEASE: float = env.seconds("WEIR_MAIL_LEASE", default=120.0)  # seconds until a claimed e-mail is taken back
WEIR_MAIL_REPLY_TIMEOUT: float = env.seconds("WEIR_MAIL_REPLY_TIMEOUT", default=600.0)  # seconds, to the final dot
WEIR_MAIL_UNKNOWN_AFTER: float = env.seconds("WEIR_MAIL_UNKNOWN_AFTER", default=900.0)  # seconds from its beginning on
WEIR_MAIL_MAX_ATTEMPTS: int = env.integer("WEIR_MAIL_MAX_ATTEMPTS", default=20)  # about six hours

# --- Logs: readable in DEBUG, JSON otherwise ------------------------------------------------------------------------
_PRE_CHAIN: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]
_LOG_LEVEL = env.choice("WEIR_LOG_LEVEL", among=["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], default="INFO")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "structured": {
            "()": structlog.stdlib.ProcessorFormatter,
            "processors": [
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *([] if DEBUG else [structlog.processors.format_exc_info]),
                structlog.dev.ConsoleRenderer() if DEBUG else structlog.processors.JSONRenderer(),
            ],
            "foreign_pre_chain": _PRE_CHAIN,
        },
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "structured"}},
    "root": {"handlers": ["console"], "level": _LOG_LEVEL},
    "loggers": {
        # One line a task would be thousands a minute: failures and warnings are enough.
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
        "celery.beat": {"level": "WARNING"},
        "django_celery_beat.schedulers": {"level": "WARNING"},
    },
}
structlog.configure(
    processors=[
        structlog.stdlib.filter_by_level,
        *_PRE_CHAIN,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    cache_logger_on_first_use=True,
)
