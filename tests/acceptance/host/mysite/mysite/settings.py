"""A project as it was before it had heard of Weir: begun with integer keys, and with names that everybody has."""

import os
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = "the site's own, of more than fifty letters, as Django wants it"
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "mysite.urls"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "users",
    "orders",
    "api",
    "mail",
    "notifications",
]
MIDDLEWARE = [
    "api.middleware.AnyOrigin",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
AUTH_USER_MODEL = "users.User"
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["MYSITE_DATABASE"],
        "HOST": os.environ["MYSITE_DATABASE_HOST"],
        "USER": "postgres",
        "ATOMIC_REQUESTS": True,
    }
}
EMAIL_HOST = "127.0.0.1"
EMAIL_PORT = int(os.environ["MYSITE_MAIL_PORT"])
DEFAULT_FROM_EMAIL = "shop@example.com"

CELERY_BROKER_URL = CELERY_RESULT_BACKEND = os.environ["MYSITE_REDIS"]
CELERY_RESULT_EXTENDED = True
CELERY_TASK_ROUTES = {"orders.tasks.*": {"queue": "orders"}}
CELERY_TASK_TIME_LIMIT = 60
CELERY_TASK_SOFT_TIME_LIMIT = 50
CELERY_BEAT_SCHEDULE = {"count": {"task": "orders.tasks.count", "schedule": 1.0}}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"site": {"format": "mysite|%(levelname)s|%(name)s|%(message)s"}},
    "handlers": {
        "file": {"class": "logging.FileHandler", "filename": BASE_DIR / "mysite.log", "formatter": "site"},
    },
    "root": {"handlers": ["file"], "level": "INFO"},
}
