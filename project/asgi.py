"""The ASGI entry point: `uvicorn project.asgi:application --http h11 --no-proxy-headers`.

What the proxies of `WEIR_TLS_PROXIES` say of a request's client and scheme is believed: here, so that one setting says
all there is to say of them. Of the addresses in `X-Forwarded-For`, the last that is no such proxy is the client's.
Without the option, uvicorn believes whoever connects from 127.0.0.1, before this is asked: anybody on the host, and the
clients of any proxy there that hands their headers on, would choose the address whose logins are counted. `--http h11`
has uvicorn read requests by h11: by itself it takes httptools, which fetchers need, where that is installed.
"""

import os
from typing import cast

from django.conf import settings
from django.core.asgi import get_asgi_application
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from api.front import BoundedBodies
from ops.answers import Application, GivenAgain
from project.environment.unknown import log_unknown

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

_bounded = BoundedBodies(get_asgi_application())  # type: ignore[arg-type]  # asgiref's own types
_given_again = GivenAgain(cast("Application", _bounded))
application = ProxyHeadersMiddleware(_given_again, trusted_hosts=settings.WEIR_TLS_PROXIES)  # type: ignore[arg-type]  # typed closely
log_unknown()
