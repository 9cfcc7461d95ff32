"""The kinds of values that a setting may have: how each kind is written, and the message about a malformed value.

A kind is an annotated type. It reads the text of an environment variable, and the equivalent Python value: `30`,
`"30s"` and `timedelta(seconds=30)`; `"80,443"` and `[80, 443]`. A kind that reads its own result returns the same
value. The kind's validator raises ValueError, and its `Wanted` says what to write instead.
"""

import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_network
from typing import Annotated, Any, Literal, get_args

from annotated_types import Gt
from pydantic import AfterValidator, BeforeValidator, SecretStr
from pydantic_core import PydanticCustomError

from weir.conf.texts import kind_routes, redis_urls, relay_urls
from weir.conf.texts.networks import ports
from weir.conf.texts.rates import parse_duration, parse_rate
from weir.conf.texts.site_network import proxy_place

TRUE = {"true", "yes", "on", "1"}
FALSE = {"false", "no", "off", "0"}
MALFORMED = "malformed"  # the type of a pydantic error whose message is the whole sentence

KeyName = Literal["", "integer", "uuid", "text"]
FieldForm = Literal["string", "dictionary"]
MOST_SIGNATURE_KEYS = 10  # each of them signs the directory of keys

_REDIS_PREFIX = re.compile(r"[\w.-]{1,32}", re.ASCII)
_DOCS_URL = re.compile(r"https?://[^\s*]+\*[^\s*]*", re.ASCII)
_HTTPS_ORIGIN = re.compile(r"https://[a-z0-9.-]{1,253}(?::[0-9]{1,5})?", re.ASCII)
_SECRET_NAME = re.compile(r"[A-Za-z]\w{0,99}", re.ASCII)  # as in placeholders
_WHOLE_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True)
class Wanted:
    """What to write, in the sentence "NAME must be WORDS, but is 'text'".

    `{default}` stands for the default, and `{bounds}` for the least and the most that a number may be.
    """

    words: str


@dataclass(frozen=True)
class Bounds:
    """The least and the most that a number may be, where a check compares it, such as `from 1 to 60`."""

    words: str


@dataclass(frozen=True)
class Unit:
    """The unit of a number, such as bytes."""

    name: str


@dataclass(frozen=True)
class Shown:
    """The words for the default in the settings reference, if the default itself would say nothing."""

    words: str


def one_of(words: Any) -> BeforeValidator:  # noqa: ANN401  a Literal
    """Return a validator that accepts one of the words, in upper or lower case."""
    spelling: dict[str, str] = {word.lower(): word for word in get_args(words)}

    def read(value: object) -> str:
        word = str(value).strip().lower()
        if word not in spelling:
            raise ValueError
        return spelling[word]

    return BeforeValidator(read)


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in TRUE | FALSE:
        raise ValueError
    return word in TRUE


def _whole_number(value: object) -> int:
    if isinstance(value, bool) or not _WHOLE_NUMBER.fullmatch(str(value).strip()):
        raise ValueError
    return int(str(value))


def _seconds(value: object) -> float:
    if isinstance(value, bool):
        raise ValueError  # noqa: TRY004  as for any malformed value
    text = str(value.total_seconds() if isinstance(value, timedelta) else value)
    with suppress(ValueError):
        if 0 <= (length_s := float(text)) < math.inf:  # false for NaN
            return length_s
    return parse_duration(text).total_seconds()


def _rate(text: str) -> str:
    if text:  # a setting that may be empty has the empty text as its default
        parse_rate(text)
    return text


def _docs_url(value: object) -> str:
    text = str(value).strip()
    if text and not _DOCS_URL.fullmatch(text):
        raise ValueError
    return text


def _https_origin(value: object) -> str:
    text = str(value).strip().lower().removesuffix("/").removesuffix(":443")
    if text and not _HTTPS_ORIGIN.fullmatch(text):
        raise ValueError
    return text


def _proxies(texts: list[str]) -> list[str]:
    return list(map(proxy_place, texts))


def _secret_names(texts: list[str]) -> list[str]:
    if len(texts) > MOST_SIGNATURE_KEYS or not all(map(_SECRET_NAME.fullmatch, texts)):
        raise ValueError
    return texts


def _redis_prefix(value: object) -> str:
    text = str(value).strip()
    if text and not _REDIS_PREFIX.fullmatch(text):
        raise ValueError
    return text


def _parts(value: object) -> list[str]:
    if isinstance(value, Mapping) or not isinstance(value, str | list | tuple | set | frozenset):
        raise ValueError  # noqa: TRY004  as for any malformed value
    parts = value.split(",") if isinstance(value, str) else value
    return [text for part in parts if (text := str(part).strip())]


def _networks(texts: list[str]) -> list[str]:
    for text in texts:
        ip_network(text)
    return texts


def _ports(texts: list[str]) -> list[str]:
    ports(texts)
    return texts


def _path(value: object) -> object:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def malformed(sentence: str) -> PydanticCustomError:
    """Return an error with this sentence as its message. The sentence must not quote a text that may be secret."""
    return PydanticCustomError(MALFORMED, "{sentence}", {"sentence": sentence})


def _secrets(value: object) -> dict[str, str | Mapping[str, object]]:
    if isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(secret, str | Mapping) for name, secret in value.items()
    ):
        return dict(value)
    raise malformed("WEIR_SECRETS must be a dict of names and texts, or descriptions of OAuth clients.")


def _redis_url(value: object) -> str:
    url = plain(value)
    fault = redis_urls.fault(url.strip()) if isinstance(url, str) else "it must be a text"
    if fault:
        raise malformed(f"WEIR_REDIS_URL is malformed ({fault}): write redis://:PASSWORD@HOST:6379/0.")
    return str(url).strip()


def _relays(value: object) -> tuple[str, ...]:
    given = plain(value)
    urls = relay_urls.split(given) if isinstance(given, str) else _texts(given)
    if urls is None:
        raise malformed('WEIR_MAIL_RELAYS must be a list of URLs, such as ["smtps://USER:PASSWORD@HOST:465"].')
    if sentence := relay_urls.fault(urls):
        raise malformed(sentence)
    return tuple(urls)


def _texts(given: object) -> list[str] | None:
    """Return the strings in a list, some of which may be wrapped in SecretStr; None for anything else."""
    if not isinstance(given, list | tuple):
        return None
    texts = [text for each in given if isinstance(text := plain(each), str)]
    return texts if len(texts) == len(given) else None


def _routes(value: object) -> dict[str, list[str]]:
    try:
        if isinstance(value, Mapping):
            return _checked(
                {str(kinds): names if isinstance(names, str) else [*names] for kinds, names in value.items()}
            )
        return kind_routes.read(str(value))
    except (TypeError, ValueError) as error:
        raise malformed(f"WEIR_MAIL_ROUTES is malformed ({error}): write such as {kind_routes.EXAMPLE}.") from error


def _checked(routes: dict[str, Any]) -> dict[str, list[str]]:
    if clause := kind_routes.malformed(routes):
        raise ValueError(clause)
    return routes


def plain(value: object) -> object:
    """Return the content of a SecretStr, and any other value unchanged."""
    return value.get_secret_value() if isinstance(value, SecretStr) else value


Flag = Annotated[bool, BeforeValidator(_flag), Wanted("true or false")]
Count = Annotated[int, BeforeValidator(_whole_number), Wanted("a whole number {bounds}, such as {default}")]
PositiveCount = Annotated[Count, Gt(0)]
Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    Unit("s"),
    Wanted(
        "a number of seconds {bounds}, such as 30 or 0.5, or a length of time up to 366d, such as 90s, 10m, 2h or 1d"
    ),
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
Proxies = Annotated[
    list[str],
    BeforeValidator(_parts),
    AfterValidator(_proxies),
    Wanted("hosts with ports and commas between them, such as proxy.example.com:3128"),
]
DocsURL = Annotated[
    str,
    BeforeValidator(_docs_url),
    Wanted("a URL with * in place of a page's name, such as https://docs.example/*.html"),
]
HttpsOrigin = Annotated[
    str,
    BeforeValidator(_https_origin),
    Wanted("https:// and a host, without a path, such as https://bot.example.com"),
]
SecretNames = Annotated[
    list[str],
    BeforeValidator(_parts),
    AfterValidator(_secret_names),
    Wanted(f"at most {MOST_SIGNATURE_KEYS} names of secrets with commas between them, such as BOT_2026,BOT_2027"),
]
SignatureAgentForm = Annotated[FieldForm, one_of(FieldForm), Wanted("string or dictionary")]
UserKeyName = Annotated[KeyName, one_of(KeyName), Wanted("integer, uuid or text")]
Secrets = Annotated[dict[str, str | Mapping[str, object]], BeforeValidator(_secrets)]
Path = Annotated[str, BeforeValidator(_path)]
RedisURL = Annotated[SecretStr, BeforeValidator(_redis_url)]
RelayURLs = Annotated[tuple[SecretStr, ...], BeforeValidator(_relays)]
Routes = Annotated[dict[str, list[str]], BeforeValidator(_routes)]
