"""The ASGI entry point: `uvicorn project.asgi:application --http project.front.server:Protocol --no-proxy-headers`.

`project.front` bounds what comes in, before Django sees it. The first option does so for heads, and makes uvicorn read
requests with h11: by itself it takes httptools, which fetchers need. Without the second, uvicorn believes any client
that connects from 127.0.0.1, before `project.front.clients` is asked: any user of the host, and the clients of any
proxy there that passes their headers on, would choose the address whose logins are counted.
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
prefix()  # reads the URLs now: later the event loop would have to wait for that
_bounded = BoundedRequests(_django, at_once=settings.WEIR_WEB_REQUESTS, most_bytes=settings.WEIR_WEB_MAX_BODY)
application = KnownClients(CheckedHeads(GivenAgain(_bounded)), settings.WEIR_TLS_PROXIES)
log_unknown()
