"""The forms of what operators can do from the pages."""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

from django import forms

from weir.conf.texts.rates import parse_duration
from weir.conf.texts.request_headers import parse_header, usable_headers, written_headers
from weir.conf.texts.request_query import parse_parameter, usable_query, written_query
from weir.conf.texts.share_weights import parse_weight, usable_weights, written_weights
from weir.conf.texts.site_network import parse_network, written_network
from weir.ratelimit.changing.declared import SETTINGS, Kind, SiteSetting
from weir.ratelimit.changing.statuses import parse_statuses, written
from weir.ratelimit.changing.values import allowed_network
from weir.workers.webhooks.endpoints import TYPES
from weir.workers.webhooks.models import LONGEST_NAME, LONGEST_SECRET, LONGEST_URL

LONGEST_REASON: Final = 2_000
KEPT: Final = "It stays in the audit trail."
OFFERED: Final = {"list": "reasons"}  # the list in act.html: the last reasons
LARGEST: Final = 2**31 - 1  # that PostgreSQL keeps


class Duration(forms.CharField):
    """30 (seconds), 10m, 2h, 1d."""

    def prepare_value(self, value: Any) -> Any:  # noqa: ANN401  Django's signature
        """Return the text of what is stored, in seconds."""
        return str(value.total_seconds()) if isinstance(value, timedelta) else value

    def clean(self, value: Any) -> timedelta | None:  # noqa: ANN401  Django's signature
        text = super().clean(value)
        try:
            return parse_duration(text) if text else None
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error


class Statuses(forms.CharField):
    """403, 999."""

    def prepare_value(self, value: Any) -> Any:  # noqa: ANN401  Django's signature
        """Return the text of what is stored."""
        return written(value) if isinstance(value, list) else value

    def clean(self, value: Any) -> list[int] | None:  # noqa: ANN401  Django's signature
        """Read them; nothing is the default."""
        text = super().clean(value)
        try:
            return parse_statuses(text) if text else None
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error


class Lines(forms.CharField):
    """Names with values, a line for each, such as Accept: application/json."""

    def __init__(
        self,
        usable: Callable[[Iterable[tuple[str, Any]]], dict[str, Any]],
        parse: Callable[[str], tuple[str, Any]],
        written: Callable[[Mapping[str, Any]], list[str]],
        **options: Any,
    ) -> None:
        super().__init__(widget=forms.Textarea(attrs={"rows": 3}), **options)
        self._usable, self._parse, self._written = usable, parse, written

    def prepare_value(self, value: Any) -> Any:  # noqa: ANN401  Django's signature
        """Return the text of what is stored."""
        return "\n".join(self._written(value)) if isinstance(value, dict) else value

    def clean(self, value: Any) -> dict[str, Any] | None:  # noqa: ANN401  Django's signature
        """Read them; nothing is the default."""
        lines = [line for line in super().clean(value).splitlines() if line.strip()]
        try:
            return self._usable(map(self._parse, lines)) or None
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error


class AsForAll(forms.NullBooleanSelect):
    """As set for all, yes, or no."""

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        super().__init__(attrs)
        self.choices = [("unknown", "as set for all"), ("true", "yes"), ("false", "no")]


FIELDS: Final[Mapping[Kind, Callable[..., forms.Field]]] = {
    Kind.COUNT: partial(forms.IntegerField, min_value=1, max_value=LARGEST),
    Kind.DURATION: Duration,
    Kind.FLAG: partial(forms.NullBooleanField, widget=AsForAll),
    Kind.STATUSES: Statuses,
    Kind.HEADERS: partial(Lines, usable_headers, parse_header, written_headers),
    Kind.QUERY: partial(Lines, usable_query, parse_parameter, written_query),
    Kind.NETWORK: partial(Lines, allowed_network, parse_network, written_network),
    Kind.WEIGHTS: partial(Lines, usable_weights, parse_weight, written_weights),
}


class Reason(forms.Form):
    """Why, where that may be left out."""

    why = forms.CharField(
        label="Why",
        required=False,
        max_length=LONGEST_REASON,
        widget=forms.TextInput(attrs=OFFERED),
        help_text=f"Your reason. {KEPT}",
    )


class Decision(forms.Form):
    """Why, where it is a decision about risk."""

    why = forms.CharField(
        label="Why",
        max_length=LONGEST_REASON,
        widget=forms.TextInput(attrs=OFFERED),
        help_text=f"Your reason, or what you found out, and where. {KEPT}",
    )


class _Seen(forms.Form):
    """The version that the operator has looked at."""

    seen = forms.CharField(
        widget=forms.HiddenInput,
        max_length=64,
        error_messages={"required": "Open this form anew: it does not say which version you have seen."},
    )


class SeenReason(Reason, _Seen):
    """Why, of what the operator has seen, where that may be left out."""


class SeenDecision(Decision, _Seen):
    """Why, of what the operator has seen, where it is a decision about risk."""


class PauseSite(SeenReason):
    """For how long."""

    duration = Duration(label="For", required=False, help_text="30 (seconds), 10m, 2h, 1d; empty: until it is resumed.")
    field_order = ("duration", "why", "seen")


class SetSite(SeenReason):
    """All settings of a site."""

    rate = forms.CharField(label="Rate", max_length=50, help_text="3/s, 1/10s, 100/h, 1/day")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields |= {setting.name: _field(setting) for setting in SETTINGS}
        self.order_fields(["rate", *(setting.name for setting in SETTINGS), "why", "seen"])


def _field(setting: SiteSetting) -> forms.Field:
    make = forms.BooleanField if setting.default is False else FIELDS[setting.kind]
    is_number = setting.kind is Kind.COUNT and setting.default is not None
    return make(label=setting.label, required=is_number, help_text=setting.form_help)


class RetryFailed(Reason):
    """At most how many."""

    expected = forms.IntegerField(
        label="At most",
        min_value=0,
        max_value=LARGEST,
        help_text="So many would be queued again now. If there are more, nothing is done.",
    )
    field_order = ("expected", "why")


class Reconcile(Reason):
    """Whose number."""

    user = forms.CharField(label="User", max_length=254, help_text="The key that notify() is called with.")
    field_order = ("user", "why")


class AddEndpoint(Reason):
    """Where to webhooks are sent, and of what."""

    name = forms.CharField(label="Name", max_length=LONGEST_NAME, help_text="Of one that there is: it is changed.")
    url = forms.CharField(label="URL", max_length=LONGEST_URL)
    secret = forms.CharField(
        label="Secret", max_length=LONGEST_SECRET, help_text="The name of the secret whose keys sign, as `NAME`."
    )
    types = forms.MultipleChoiceField(
        label="Types",
        required=False,
        choices=[(each, each) for each in TYPES],
        help_text="Only events of these types. None: all.",
    )
    field_order = ("name", "url", "secret", "types", "why")


class Redirect(SeenDecision):
    """To which address from now on."""

    to = forms.CharField(label="To", max_length=320, help_text="Its recipient from now on, who can read it.")
    field_order = ("to", "why", "seen")


class ListAddress(Decision):
    """Why, of the recipient that the operator has seen."""

    address = forms.CharField(
        label="Address",
        max_length=320,
        strip=False,
        widget=forms.TextInput(attrs={"readonly": True, "size": 40}),
        help_text="The e-mail's recipient. All kinds of e-mail are meant.",
    )
    field_order = ("address", "why")
