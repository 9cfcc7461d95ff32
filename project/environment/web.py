"""The variables that bound what a web process accepts."""

from typing import Annotated

from pydantic import Field

from weir.conf.groups import SettingsGroup
from weir.conf.kinds import PositiveCount, Unit


class Web(SettingsGroup):
    """Of each web process ([how to](../how-to/use-real-servers.md#what-comes-in))."""

    title = "The web process"

    WEIR_WEB_REQUESTS: PositiveCount = Field(
        default=20,
        description="Requests that it answers at the same time, each with a thread and up to one connection to "
        "PostgreSQL. Others wait for a second, and then get 503. Health pages do not count.",
    )
    WEIR_WEB_MAX_BODY: Annotated[PositiveCount, Unit("bytes")] = Field(
        default=2 * 2**20,
        description="The largest body of a request, but for the API, where it is 2 MiB. Four such bodies may be in "
        "memory.",
    )
