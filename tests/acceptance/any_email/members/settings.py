"""The settings of the project."""

import os

import weir

SECRET_KEY = "the members' own, of more than fifty letters, as Django wants it"  # noqa: S105  of tests
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "tests.acceptance.any_email.members.urls"
INSTALLED_APPS = [
    "django.contrib.admin",  # it has the templates of Django's own password reset
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "allauth",
    "allauth.account",
    *weir.APPS_MAIL,
]
MIDDLEWARE = [
    "tests.acceptance.any_email.members.urls.from_anywhere",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # nobody's; it takes no time
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
STATIC_URL = "static/"
USE_TZ = True
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["MEMBERS_DATABASE"],
        "HOST": os.environ["MEMBERS_DATABASE_HOST"],
        "USER": os.environ["MEMBERS_DATABASE_USER"],
        "ATOMIC_REQUESTS": True,
    }
}
EMAIL_BACKEND = "weir.OutboxBackend"
EMAIL_HOST = "127.0.0.1"
EMAIL_PORT = int(os.environ["MEMBERS_MAIL_PORT"])
DEFAULT_FROM_EMAIL = SERVER_EMAIL = "club@example.com"

ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "mandatory"
ACCOUNT_RATE_LIMITS = False

CELERY_BROKER_URL = os.environ["MEMBERS_REDIS"]
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": float(os.environ["MEMBERS_VISIBLE_S"]),
    # A worker gives out again what is not acknowledged while it holds a lock: one that is killed then leaves the lock.
    "unacked_mutex_expire": float(os.environ["MEMBERS_VISIBLE_S"]),
    # It looks for such every second: interval times throttle. The default is 100.
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
}
CELERY_TASK_IGNORE_RESULT = True

# A mailer that was killed is noticed soon.
WEIR_MAIL_LEASE = 3.0
WEIR_MAIL_COMMAND_TIMEOUT = 1.5
WEIR_MAIL_REPLY_TIMEOUT = 4.0
WEIR_MAIL_UNKNOWN_AFTER = 8.0
