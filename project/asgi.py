"""The ASGI entry point: `uvicorn project.asgi:application --http project.front.server:Protocol --no-proxy-headers`.

`project.front` limits requests before Django sees them. The option `--http` limits their heads, and makes uvicorn read
requests with h11. Without it, uvicorn would use httptools, which is installed because fetchers need it.

Without `--no-proxy-headers`, uvicorn believes the `X-Forwarded-For` of any client that connects from 127.0.0.1, before
`project.front.clients` checks it. Any user of the host could then choose the address for which attempts to log in are
counted, and so could the clients of any proxy on this host that passes their headers on.
"""

import os
from typing import TYPE_CHECKING, cast

from django.conf import settings
from django.core.asgi import get_asgi_application

from project.environment.unknown import log_unknown
from project.front.clients import KnownClients
from project.front.heads import CheckedHeads
from project.front.requests import BoundedRequests
from weir.api.answers import prefix
from weir.ops.answers import GivenAgain

if TYPE_CHECKING:
    from project.front.refusals import Application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

_django = cast("Application", get_asgi_application())
prefix()  # imports the URLs now, because the event loop would have to wait for the import later
_bounded = BoundedRequests(_django, at_once=settings.WEIR_WEB_REQUESTS, most_bytes=settings.WEIR_WEB_MAX_BODY)
application = KnownClients(CheckedHeads(GivenAgain(_bounded)), settings.WEIR_TLS_PROXIES)
log_unknown()
