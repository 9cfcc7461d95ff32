"""The settings of what operators, and the machines that watch, can do."""

from typing import Annotated

from pydantic import Field, SecretStr

from weir.conf.groups import Group
from weir.conf.kinds import Flag, Path, Shown, Texts


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
    WEIR_LIVENESS_DIR: Path = Field(
        default="",
        description="A folder in which each worker, fetcher and beat touches a file of its name every two seconds, as "
        "long as its loop turns. It is created where it is missing; empty = no files.",
    )
    OTEL_EXPORTER_OTLP_ENDPOINT: str = Field(
        default="",
        description="The collector that spans are sent to, by OTLP over HTTP: `http://127.0.0.1:4318`. Needs the extra "
        "`otel`; the other variables of OpenTelemetry hold, too ([how to](../how-to/trace-and-log.md)).",
    )


class Operators(Group):
    """What operators may do, from pages, commands and the API ([how to](../how-to/operate.md))."""

    title = "Operators"

    WEIR_OPS_READ_ONLY: Flag = Field(
        default=False,
        description="Operators see everything and change nothing, whatever they have permission for: neither sites nor "
        "fetches, e-mails and unread numbers. What web code asks for goes on.",
    )
