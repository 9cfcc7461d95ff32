"""The present values of Weir's settings: the value in Django's settings, as its kind reads it, or the default.

A value is read when it is first used, and kept until Django's signal `setting_changed` says that a setting has changed
(`override_settings`, pytest-django's `settings`).
"""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, cast

from django.apps import apps
from django.conf import settings as djangos
from django.core.signals import setting_changed
from pydantic import ValidationError

from weir.conf.declared import GROUPS, OnlySettings, Settings
from weir.conf.groups import SettingsGroup
from weir.conf.kinds import plain
from weir.conf.mistakes import UnreadableSetting, sentences
from weir.conf.texts import redis_urls

_ALL: tuple[type[SettingsGroup], ...] = (*GROUPS, OnlySettings)
_GROUPS = {name: group for group in _ALL for name in group.model_fields}
_REDIS = "WEIR_REDIS_URL"


class Reading(NamedTuple):
    """The result of reading a setting."""

    value: Any
    sentence: str  # the reason why the setting cannot be read, and so has its default; otherwise empty


class Live:
    """Weir's settings, as attributes.

    Raises AttributeError for a name that is not one of Weir's settings, and UnreadableSetting for a setting that cannot
    be read. While Django loads its apps, such a setting has its default, so that Django's checks can report it.
    """

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  `Settings` has the types
        if name not in _GROUPS:
            raise AttributeError(f"Weir has no setting {name}.")
        value, sentence = read(name)
        if not sentence:
            vars(self)[name] = value  # next time, Python finds this value and does not call __getattr__
        elif apps.ready:
            raise UnreadableSetting(sentence)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        """Raise AttributeError, because Weir's settings are set in Django's settings."""
        raise AttributeError(f"Set {name} in Django's settings, or by override_settings.")


def read(name: str) -> Reading:
    """Return the setting's present value. Raises nothing, because a kind's error contains the value, maybe a secret."""
    default = _GROUPS[name].model_fields[name].default
    source, given = _given(name)
    if given is None or (isinstance(given, str) and not given.strip()):
        return Reading(default, "")
    try:
        return Reading(getattr(_GROUPS[name].model_validate({name: given}), name), "")
    except ValidationError as error:
        [sentence] = sentences(error, _GROUPS[name].model_fields)
    return Reading(default, sentence.replace(name, source))


def is_given(name: str) -> bool:
    """Return whether Django's settings have the setting, so that its default does not count."""
    return bool(_given(name)[1])


def names() -> Collection[str]:
    """Return the name of every setting, in the order of the reference."""
    return _GROUPS.keys()


def mistakes() -> Iterator[str]:
    """Yield a sentence for each setting that cannot be read, in the order of the reference."""
    yield from (sentence for name in _GROUPS if (sentence := read(name).sentence))


def _given(name: str) -> tuple[str, Any]:
    """Return under which name Django's settings have the setting, and its value there, which may be None."""
    if (given := getattr(djangos, name, None)) or name != _REDIS:
        return name, given
    if url := getattr(djangos, "REDIS_URL", None):
        return "REDIS_URL", url
    broker = plain(getattr(djangos, "CELERY_BROKER_URL", None))
    return "CELERY_BROKER_URL", broker if isinstance(broker, str) and redis_urls.is_one(broker) else None


def _forget(**_signal: object) -> None:
    vars(settings).clear()


settings = cast("Settings", Live())
setting_changed.connect(_forget, dispatch_uid="weir.conf")
