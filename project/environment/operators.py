"""The variables of what operators, and the machines that watch, can do."""

from typing import Annotated

from pydantic import Field, SecretStr

from project.environment.groups import Group
from project.environment.values import Flag, Shown, Texts


class Monitoring(Group):
    """What machines read ([how to](../how-to/monitor.md))."""

    title = "Monitoring"

    WEIR_METRICS_TOKEN: Annotated[SecretStr, Shown("none")] = Field(
        default=SecretStr(""),
        description="What `GET /metrics` wants as `Authorization: Bearer TOKEN`: a long random text. Where it is empty "
        "there is no such page; but on the embedded servers it answers clients of the same host.",
    )
    WEIR_METRICS_SITES: Texts = Field(
        default=[],
        description="Names of sites, 100 at most, that have metrics of their own: three series each.",
    )
    WEIR_LIVENESS_DIR: str = Field(
        default="",
        description="A folder in which each worker, fetcher and beat touches a file of its name every two seconds, as "
        "long as its loop turns. It is created where it is missing; empty = no files.",
    )


class Operators(Group):
    """What operators may do, from pages, the admin, commands and the API ([how to](../how-to/operate.md))."""

    title = "Operators"

    WEIR_OPS_READ_ONLY: Flag = Field(
        default=False,
        description="Operators see everything and change nothing, whatever they have permission for: neither sites nor "
        "fetches, e-mails and unread numbers. What web code asks for goes on.",
    )
