"""The settings of the foreign project: none of them is read from `project`."""

import os

import weir

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
    "django.contrib.staticfiles",
    "tests.guest",
    *weir.APPS,
    *weir.APPS_OPS,
    *weir.APPS_API,
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

REDIS_URL = os.environ.get("GUEST_REDIS_URL", "redis://127.0.0.1:1/0")
CELERY_BROKER_URL = "memory://"
