"""The kinds of values that a variable may have: how each is written, and the words about a text that is not.

A kind is an annotated type. Its validator raises ValueError, and `Wanted` says what to write instead.
"""

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Annotated, Any, Literal, get_args

from annotated_types import Gt, Le
from pydantic import AfterValidator, BeforeValidator, SecretStr, ValidationInfo
from pydantic_core import PydanticCustomError

from project.environment.urls import malformed
from weir.conf.texts import kind_routes, relay_urls
from weir.conf.texts.networks import ports
from weir.conf.texts.rates import parse_duration, parse_rate

TRUE = {"true", "yes", "on", "1"}
FALSE = {"false", "no", "off", "0"}
MALFORMED = "malformed"  # the type of the error whose message is the whole sentence

Level = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
Format = Literal["", "json", "text", "colour"]
KeyName = Literal["", "integer", "uuid", "text"]

_REDIS_PREFIX = re.compile(r"[\w.-]{1,32}", re.ASCII)
_WHOLE_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True)
class Wanted:
    """What must be written: `NAME must be ..., but is 'text'.` `{default}` stands for the variable's default."""

    words: str


@dataclass(frozen=True)
class Unit:
    """What a number counts."""

    name: str


@dataclass(frozen=True)
class Shown:
    """What the settings reference calls the default, where the default itself says nothing."""

    words: str


def _one_of(words: Any) -> BeforeValidator:  # noqa: ANN401  a Literal
    """Take one of the words, in upper or lower case."""
    spelling: dict[str, str] = {word.lower(): word for word in get_args(words)}

    def read(text: str) -> str:
        if text.strip().lower() not in spelling:
            raise ValueError
        return spelling[text.strip().lower()]

    return BeforeValidator(read)


def _flag(text: str) -> bool:
    word = text.strip().lower()
    if word not in TRUE | FALSE:
        raise ValueError
    return word in TRUE


def _whole_number(text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text.strip()):
        raise ValueError
    return int(text)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (length_s := float(text)) < math.inf:  # which NaN is not
            return length_s
    return parse_duration(text).total_seconds()


def _rate(text: str) -> str:
    parse_rate(text)
    return text


def _redis_prefix(text: str) -> str:
    if not _REDIS_PREFIX.fullmatch(text.strip()):
        raise ValueError
    return text.strip()


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _networks(texts: list[str]) -> list[str]:
    for text in texts:
        ip_network(text)
    return texts


def _ports(texts: list[str]) -> list[str]:
    ports(texts)
    return texts


def _url(text: str, info: ValidationInfo) -> str:
    url = text.strip()
    if sentence := malformed(str(info.field_name), url):
        raise PydanticCustomError(MALFORMED, "{sentence}", {"sentence": sentence})
    return url


def _relays(text: str) -> str:
    if sentence := relay_urls.fault(relay_urls.split(text)):
        raise PydanticCustomError(MALFORMED, "{sentence}", {"sentence": sentence})
    return text


def _routes(text: str) -> str:
    try:
        kind_routes.read(text)
    except ValueError as error:
        sentence = f"WEIR_MAIL_ROUTES is malformed ({error}): write such as {kind_routes.EXAMPLE}."
        raise PydanticCustomError(MALFORMED, "{sentence}", {"sentence": sentence}) from error
    return text


Flag = Annotated[bool, BeforeValidator(_flag), Wanted("true or false")]
Count = Annotated[int, BeforeValidator(_whole_number), Wanted("a whole number, such as {default}")]
PositiveCount = Annotated[Count, Gt(0)]
Port = Annotated[Count, Le(65_535)]
Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    Unit("s"),
    Wanted("a number of seconds, such as 30 or 0.5, or a length of time up to 366d, such as 90s, 10m, 2h or 1d"),
]
PositiveSeconds = Annotated[Seconds, Gt(0)]
Rate = Annotated[str, AfterValidator(_rate), Wanted("a rate from 1/366d to 1000/s, such as 3/s, 1/10s, 100/h or 1/day")]
RedisPrefix = Annotated[
    str, BeforeValidator(_redis_prefix), Wanted("up to 32 letters, digits, _, - and ., such as weir")
]
Texts = Annotated[list[str], BeforeValidator(_parts), Wanted("texts with commas between them")]
Networks = Annotated[
    list[str],
    BeforeValidator(_parts),
    AfterValidator(_networks),
    Wanted("networks (no host bits set) with commas between them, such as 10.1.0.0/16,fd00::/8"),
]
Ports = Annotated[
    list[str],
    BeforeValidator(_parts),
    AfterValidator(_ports),
    Wanted("ports and ranges of ports with commas between them, such as 80,443,8000-8099"),
]
LogLevel = Annotated[Level, _one_of(Level), Wanted("DEBUG, INFO, WARNING, ERROR or CRITICAL")]
LogFormat = Annotated[Format, _one_of(Format), Wanted("json, text or colour")]
UserKeyName = Annotated[KeyName, _one_of(KeyName), Wanted("integer, uuid or text")]
ServerURL = Annotated[SecretStr, BeforeValidator(_url)]
RelayURLs = Annotated[SecretStr, BeforeValidator(_relays)]
Routes = Annotated[str, AfterValidator(_routes)]
