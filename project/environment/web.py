"""The variables of what a web process takes on."""

from typing import Annotated

from pydantic import Field

from weir.conf.groups import Group
from weir.conf.kinds import PositiveCount, Unit


class Web(Group):
    """What each web process takes on at once, whoever asks ([how to](../how-to/use-real-servers.md#what-comes-in))."""

    title = "The web process"

    WEIR_WEB_REQUESTS: PositiveCount = Field(
        default=20,
        description="Requests that one web process answers at once, each with a thread and up to one connection to "
        "PostgreSQL. Others wait a second for their turn, and get 503 with `Retry-After` then. Health pages do not "
        "count.",
    )
    WEIR_WEB_MAX_BODY: Annotated[PositiveCount, Unit("bytes")] = Field(
        default=2 * 2**20,
        description="The largest body of a request, but for those to the API, which has its own limit: 2 MiB. Raise it "
        "where a page of yours takes larger files. A web process may hold four such bodies in memory.",
    )
