"""Every setting of Django, Celery and Weir, made from environment variables (`project.environment` reads them).

Importing this module starts nothing and connects to nothing: if `DATABASE_URL` or `REDIS_URL` is unset, it only
computes the paths of the embedded servers' sockets (`project.embedded`). Variables that a running `manage.py up` of
this folder has decided apply to all other commands, too (`project.processes.folder`).
"""

from project import collect_rarely

collect_rarely()  # until `project.apps` calls `collect_as_ever`

import sys
from typing import Any

import weir
from project import embedded, environment
from project.checkout import CHECKOUT, LOCAL
from project.environment import transports, urls
from project.logs import formats
from project.processes import folder
from weir.postgres import sessions

env = environment.read(CHECKOUT / ".env", folder.decided)

# --- Django ---------------------------------------------------------------------------------------------------
DEBUG = env.DJANGO_DEBUG
SECRET_KEY = env.DJANGO_SECRET_KEY.get_secret_value()
ALLOWED_HOSTS = env.DJANGO_ALLOWED_HOSTS

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_structlog",
    "project",
    "project.logins",
    *weir.APPS,
    *weir.APPS_OPS,
    *weir.APPS_API,
    "weir.workers.orders",
    "demo",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "weir.notifications.web.polls.unchanged_polls",  # before all middleware that reads sessions
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "project.request_spans.request_spans",
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
AUTHENTICATION_BACKENDS = ["project.logins.gate.Gate", "django.contrib.auth.backends.ModelBackend"]
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "sign-in"
WEIR_LOGOUT_URL = "sign-out"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TEST_RUNNER = "project.testing.Runner"
USE_TZ = True
TIME_ZONE = "UTC"  # Celery, beat and PostgreSQL all run in UTC
STATIC_URL = "static/"
STATIC_ROOT = CHECKOUT / "staticfiles"
# A checkout without collected static files serves the admin's files from their packages.
WHITENOISE_USE_FINDERS = WHITENOISE_AUTOREFRESH = not STATIC_ROOT.is_dir()

# --- TLS: done by a proxy, if at all --------------------------------------------------------------------------------
WEIR_TLS_PROXIES = env.WEIR_TLS_PROXIES  # `project.asgi` takes a request's scheme and client from these proxies
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = bool(WEIR_TLS_PROXIES)
SECURE_REDIRECT_EXEMPT = ["^livez$", "^readyz$", "^healthz$", "^metrics$"]  # requested on the host itself, without TLS
WEIR_WEB_REQUESTS = env.WEIR_WEB_REQUESTS
WEIR_WEB_MAX_BODY = env.WEIR_WEB_MAX_BODY
SECURE_HSTS_SECONDS = int(env.WEIR_HSTS_MAX_AGE)
# The domain's owner, not this host, decides about HSTS for subdomains, and about the preload lists of browsers.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

# --- PostgreSQL: decides everything -----------------------------------------------------------------------------
EMBEDDED_HOME = embedded.home()


def _database() -> dict[str, Any]:
    if url := env.DATABASE_URL.get_secret_value():
        return urls.database(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": embedded.DATABASE_NAME,
        "USER": embedded.DATABASE_USER,
        "HOST": str(embedded.postgres_socket_dir(EMBEDDED_HOME)),
    }


DATABASES = {"default": _database()}
DATABASES["default"]["OPTIONS"] = {
    **sessions.CLIENT,
    "connect_timeout": 5,
    # Django switches prepared statements off; Weir uses them (weir.postgres.statements), unless a pooler is in between.
    "prepare_threshold": None if env.WEIR_TRANSACTION_POOLING else 5,
    "application_name": "weir",
    **DATABASES["default"].get("OPTIONS", {}),  # an option in DATABASE_URL wins
}
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = env.WEIR_TRANSACTION_POOLING

# --- Redis/Valkey: a broker, may vanish ---------------------------------------------------------------------------
REDIS_URL = env.REDIS_URL.get_secret_value() or f"unix://{embedded.valkey_socket(EMBEDDED_HOME)}"

# --- Celery ---------------------------------------------------------------------------------------------------------
CELERY_BROKER_URL = urls.verified(env.CELERY_BROKER_URL.get_secret_value(), REDIS_URL)
CELERY_BROKER_TRANSPORT_OPTIONS = {
    **transports.options(CELERY_BROKER_URL, env.WEIR_REDIS_PREFIX),
    **urls.broker_options(env.CELERY_BROKER_URL.get_secret_value(), REDIS_URL),
}
CELERY_BROKER_HEARTBEAT = transports.HEARTBEAT_S
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # with the default, 100, a long outage ends a worker
# If Redis refuses (READONLY after a fail-over, OOM if it is full), a worker waits as it does for a lost connection.
CELERY_BROKER_CHANNEL_ERROR_RETRY = True
CELERY_TASK_PUBLISH_RETRY = False
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_LOST_WAIT = 0.5  # no process waits for results of a killed child, so a worker that stops need not either
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TIMEZONE = "UTC"
CELERY_TASK_DEFAULT_QUEUE = "default"
# Routes of users' tasks; the others are in `default`. Weir's tasks have queues of their own (weir.celery), so that they
# never wait for a user's task.
CELERY_TASK_ROUTES: dict[str, dict[str, str]] = {}
CELERY_WORKER_ETA_TASK_LIMIT = 1000
CELERY_WORKER_PREFETCH_MULTIPLIER = 2
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_REDIRECT_STDOUTS = False  # `project.logs.printed` logs whole lines with the task's name instead
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
# After a lost connection, Celery would lower the prefetch count, and raise it again as tasks end. The thread whose task
# has ended would ask the broker for that: in a fetcher, at the same time as the main loop. With AMQP, one of the two
# would read the other's answer.
CELERY_WORKER_ENABLE_PREFETCH_COUNT_REDUCTION = False

# --- E-mail: Django's own settings ----------------------------------------------------------------------------------
EMAIL_BACKEND = env.EMAIL_BACKEND
EMAIL_HOST = env.EMAIL_HOST
EMAIL_PORT = env.EMAIL_PORT
EMAIL_HOST_USER = env.EMAIL_HOST_USER
EMAIL_HOST_PASSWORD = env.EMAIL_HOST_PASSWORD.get_secret_value()
EMAIL_USE_TLS = env.EMAIL_USE_TLS
EMAIL_USE_SSL = env.EMAIL_USE_SSL
EMAIL_SSL_CERTFILE = env.EMAIL_SSL_CERTFILE or None
EMAIL_SSL_KEYFILE = env.EMAIL_SSL_KEYFILE or None
EMAIL_FILE_PATH = env.EMAIL_FILE_PATH or None
EMAIL_TIMEOUT = env.EMAIL_TIMEOUT
DEFAULT_FROM_EMAIL = env.DEFAULT_FROM_EMAIL

# --- Weir: what the environment sets; all else has its default (weir.conf) ----------------------------------------
globals().update(env.of_weir())
WEIR_DEMO_PAGE = not env.DATABASE_URL.get_secret_value()  # /demo/, on the embedded servers only
WEIR_METRICS_FOR_LOOPBACK = not env.DATABASE_URL.get_secret_value()  # without a token, on the embedded servers only

# --- Logs -----------------------------------------------------------------------------------------------------------
LOGGING = formats.configure(formats.chosen(env.WEIR_LOG_FORMAT, debug=DEBUG), env.WEIR_LOG_LEVEL)
DJANGO_STRUCTLOG_IP_LOGGING_ENABLED = False  # `project.logs.requests` binds the believed address

# --- Yours: the apps in the folder `local`, and what its settings.py adds or changes ----------------------------------
sys.path.append(str(LOCAL))
if (LOCAL / "settings.py").is_file():
    from local.settings import *  # noqa: F403
