"""The settings for operators, and for monitoring."""

from typing import Annotated

from pydantic import Field, SecretStr

from weir.conf.groups import SettingsGroup
from weir.conf.kinds import DocsURL, Flag, Path, Shown, Texts


class Monitoring(SettingsGroup):
    """See [how to monitor](../how-to/monitor.md)."""

    title = "Monitoring"

    WEIR_METRICS_TOKEN: Annotated[SecretStr, Shown("none")] = Field(
        default=SecretStr(""),
        description="`GET /metrics` wants it as `Authorization: Bearer TOKEN`: a long random text. Empty: no such "
        "page, but on the embedded servers for clients of the same host.",
    )
    WEIR_METRICS_SITES: Texts = Field(
        default=[],
        description="Up to 100 sites with metrics of their own: three series each.",
    )
    WEIR_LIVENESS_DIR: Path = Field(
        default="",
        description="A folder in which each worker, fetcher and beat touches a file of its name every two seconds "
        "while its loop turns.",
    )
    OTEL_EXPORTER_OTLP_ENDPOINT: str = Field(
        default="",
        description="The collector for spans, by OTLP over HTTP: `http://127.0.0.1:4318`. Needs the extra `otel` "
        "([how to](../how-to/trace-and-log.md)).",
    )


class Operators(SettingsGroup):
    """See [how to operate](../how-to/operate.md)."""

    title = "Operators"

    WEIR_OPS_READ_ONLY: Flag = Field(
        default=False,
        description="Operators change nothing, whatever their permissions. What web code asks for goes on.",
    )
    WEIR_OPERATORS: Texts = Field(
        default=[],
        description="The addresses to which Weir sends an e-mail when something begins to need somebody.",
    )
    WEIR_DOCS_URL: DocsURL = Field(
        default="",
        description="Your copy of Weir's documentation, for links to runbooks: such as `https://docs.example/*.html`.",
    )
