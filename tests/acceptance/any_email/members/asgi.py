"""The web process of the project."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.acceptance.any_email.members.settings")
application = get_asgi_application()
