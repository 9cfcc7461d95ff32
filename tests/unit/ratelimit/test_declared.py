"""Each setting of a site is declared once: its column and the API's field say the same of it."""

from weir.api.schemas.sites import SiteSettings
from weir.ratelimit.changing.declared import SETTINGS
from weir.ratelimit.models import Site


def test_the_column_has_the_declared_default() -> None:
    """What is restored is what a new site has."""
    site = Site()
    defaults = {setting.name: setting.default for setting in SETTINGS}
    assert {name: getattr(site, name) for name in defaults} == defaults


def test_the_api_has_each_setting() -> None:
    """With the declared default, and beside the rate."""
    defaults = {name: field.default for name, field in SiteSettings.model_fields.items() if not field.is_required()}
    assert defaults == {setting.data_name: setting.default for setting in SETTINGS}
