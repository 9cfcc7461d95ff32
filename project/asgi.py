"""The ASGI entry point: `uvicorn project.asgi:application`.

What the proxies of `WEIR_TLS_PROXIES` say of a request's client and scheme is believed, here and not by an option of
uvicorn's, so that one setting says all there is to say of them.
"""

import os

from django.conf import settings
from django.core.asgi import get_asgi_application
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
application = ProxyHeadersMiddleware(get_asgi_application(), trusted_hosts=settings.WEIR_TLS_PROXIES)  # type: ignore[arg-type]  # Django's is typed loosely
