"""The settings for effects."""

from pydantic import Field

from weir.conf.groups import SettingsGroup
from weir.conf.kinds import PositiveCount, PositiveSeconds


class Effects(SettingsGroup):
    """What must [happen once](../how-to/once-for-any-effect.md) outside of PostgreSQL."""

    title = "Effects"

    WEIR_EFFECT_LEASE: PositiveSeconds = Field(
        default=120.0,
        description="After this time a claimed effect that was not begun is taken back.",
    )
    WEIR_EFFECT_UNKNOWN_AFTER: PositiveSeconds = Field(
        default=900.0,
        description="After this time without a word of the process that has begun it, an effect is asked about, or is "
        "`unknown`.",
    )
    WEIR_EFFECT_MAX_ATTEMPTS: PositiveCount = Field(default=20, description="How often an effect is tried.")
