"""The types of the values in requests and answers. They are strict: a wrong value is refused, not converted."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from weir.conf.texts.rates import SLOWEST

LARGEST_ID: Final = 2**63 - 1
LONGEST_REASON: Final = 2_000
LONGEST_CURSOR: Final = 4_000
LONGEST_HOST: Final = 300


class Body(BaseModel):
    """What a request says: nothing but the declared fields."""

    model_config = ConfigDict(extra="forbid")


class Answer(BaseModel):  # not ninja's, which takes ten times as long for many rows
    """What is answered."""

    model_config = ConfigDict(extra="forbid")


def _is_text(value: Any) -> Any:  # noqa: ANN401  any value from a request
    if not isinstance(value, str):
        raise ValueError("write a time such as 2026-01-31T12:00:00Z")  # noqa: TRY004  pydantic takes ValueError
    return value


def _is_aware(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("a time needs a time zone, such as Z")
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("a time must be in the years 1 to 9999, in UTC") from error


def _is_digits(value: Any) -> Any:  # noqa: ANN401  as above
    if isinstance(value, str) and not (value.isascii() and value.isdecimal()):
        raise ValueError("write a whole number in plain digits")
    return value


def _is_without_blanks(value: str) -> str:
    if not value.isprintable() or " " in value:
        raise ValueError("a host has no blanks and no control characters")
    return value


Text = StrictStr
Count = StrictInt
Flag = StrictBool
Moment = Annotated[datetime, BeforeValidator(_is_text), AfterValidator(_is_aware)]
Why = Annotated[StrictStr, Field(max_length=LONGEST_REASON, description="the reason; the audit trail keeps it")]
Seconds = Annotated[StrictFloat | StrictInt, Field(gt=0, le=SLOWEST.total_seconds())]
Digits = BeforeValidator(_is_digits)  # for a number in a path or a query
Id = Annotated[int, Digits, Field(ge=1, le=LARGEST_ID)]
Host = Annotated[
    str,
    Field(max_length=LONGEST_HOST, description="a host, with :port where not the default"),
    AfterValidator(_is_without_blanks),
]
Cursor = Annotated[
    str, Field(max_length=LONGEST_CURSOR, description="`next` of the page before; without it, the first page")
]
Next = Annotated[str | None, Field(description="the cursor of the next page; null at the end")]
