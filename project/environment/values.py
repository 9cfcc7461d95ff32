"""Types of values that only variables of the project have; `weir.conf.kinds` has all other types."""

from typing import Annotated, Literal

from annotated_types import Le
from pydantic import BeforeValidator, SecretStr, ValidationInfo

from project.environment import urls
from weir.conf.kinds import Count, Wanted, malformed, one_of

Level = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
Format = Literal["", "json", "text", "colour"]


def _url(text: str, info: ValidationInfo) -> str:
    url = text.strip()
    if sentence := urls.malformed(str(info.field_name), url):
        raise malformed(sentence)
    return url


Port = Annotated[Count, Le(65_535)]
LogLevel = Annotated[Level, one_of(Level), Wanted("DEBUG, INFO, WARNING, ERROR or CRITICAL")]
LogFormat = Annotated[Format, one_of(Format), Wanted("json, text or colour")]
ServerURL = Annotated[SecretStr, BeforeValidator(_url)]
