"""A project's `beat_schedule`. Weir's scheduler makes rows of it, and runs it as Celery's own scheduler would.

A row has less information than the entry in the settings. So the options with which a task is sent are read from the
settings. django-celery-beat also keeps a row whose entry is no longer in the settings; this module marks rows, so that
they are deleted with their entries. Both hold for the apps in `of_celerys`. A schedule that no row can express is
refused.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from celery.schedules import crontab, maybe_schedule, schedule, solar
from kombu.utils.json import dumps

from weir.workers import broker_link

MARK: Final = "An entry of beat_schedule, in the settings: it goes when it is no longer there."
LONGEST_US: Final = 2**31 - 1  # the largest number that fits into a row
_FIELDS: Final = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")

of_celerys: list[Any] = []  # the apps whose schedule Celery's own scheduler would run, if Weir's did not


def options_of(name: str) -> Mapping[str, Any]:
    """Return the entry's options in the settings, with which its task is sent, such as when the message expires."""
    app = broker_link.app()
    entry = app.conf.beat_schedule.get(name) if app in of_celerys else None
    return (entry or {}).get("options") or {}


def microseconds(told: Any) -> int | None:  # noqa: ANN401  all that Celery makes a schedule of
    """Return an interval in microseconds if it has a fraction of a second, and fits into a row; None otherwise."""
    made: Any = maybe_schedule(told)
    every: Any = getattr(made, "run_every", None)
    if every is None or every.microseconds == 0:
        return None
    found = round(every.total_seconds() * 1e6)
    return found if found <= LONGEST_US else None


def in_texts(told: Any) -> Any:  # noqa: ANN401  as above
    """Return a crontab with its lists of numbers as texts, as rows have them; any other schedule unchanged."""
    if not isinstance(told, crontab):
        return told
    fields = {field: getattr(told, f"_orig_{field}") for field in _FIELDS}
    texts = {name: _text(value) for name, value in fields.items()}
    return told if texts == fields else crontab(app=told.app, **texts)


def faults(app: Any) -> Iterator[str]:  # noqa: ANN401  Celery's own have no types
    """Yield a sentence for each entry that Celery's own scheduler would run, but Weir's scheduler cannot."""
    for name, entry in app.conf.beat_schedule.items() if app in of_celerys else ():
        made = maybe_schedule(entry["schedule"])
        kind = type(made)
        if kind not in {schedule, crontab, solar}:
            yield (
                f"beat_schedule: {name} has a schedule of the class {kind.__module__}.{kind.__qualname__}, and Weir's "
                "beat knows those of Celery alone: write an interval or a crontab, and let the task look for the rest."
            )
        elif entry.get("relative") or getattr(made, "relative", False):
            yield f"beat_schedule: {name} is relative, which Weir's beat does not know: write a crontab."
        elif not _is_json([entry.get("args"), entry.get("kwargs")]):
            yield f"beat_schedule: {name} has arguments that JSON cannot have: hand on texts and numbers."


def _text(value: Any) -> str | int:  # noqa: ANN401  as crontab takes them
    return value if isinstance(value, str | int) else ",".join(map(str, sorted(value)))


def _is_json(value: object) -> bool:
    try:
        dumps(value)
    except TypeError:
        return False
    return True
