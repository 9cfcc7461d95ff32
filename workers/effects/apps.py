"""The app `effects`: what must not happen twice outside of PostgreSQL, and the threads that do each once."""

import math

from django.utils.module_loading import autodiscover_modules

from weir.conf import hidden, settings
from weir.postgres import weir_apps


class EffectsConfig(weir_apps.WeirApp):
    """Registers the system checks and the kinds of effects."""

    name = "weir.workers.effects"
    label = "weir_effects"
    verbose_name = "Weir: effects"

    def ready(self) -> None:
        """Import the module `effects` of each installed app, which registers kinds of effects.

        Also connects the receivers of recovery's signals, and tells beat how to ask whether workers have work.
        """
        from weir.workers import task_names  # noqa: PLC0415  needs loaded apps, as the others
        from weir.workers.beat import work  # noqa: PLC0415
        from weir.workers.effects import checks  # noqa: F401, PLC0415  registering is the purpose
        from weir.workers.effects.maintenance import forgetting, recovering, stepping  # noqa: PLC0415
        from weir.workers.effects.names import NAMES  # noqa: PLC0415
        from weir.workers.effects.on_done import CALLS_DUE  # noqa: PLC0415
        from weir.workers.ledger.queueing import HAS_WORK  # noqa: PLC0415
        from weir.workers.recovery.signals import postgresql_clock_stepped, postgresql_went_back  # noqa: PLC0415

        postgresql_went_back.connect(recovering.make_unknown, dispatch_uid="weir.workers.effects")
        postgresql_clock_stepped.connect(stepping.put_right, dispatch_uid="weir.workers.effects")
        has_work, calls_due = work.answer_of(HAS_WORK.with_names(NAMES._asdict())), work.answer_of(CALLS_DUE)
        work.ask_before(task_names.PERFORM_EFFECTS, lambda: has_work() or calls_due(), sent_every_s=math.inf)
        is_to_forget = work.answer_of(forgetting.IS_TO_FORGET)
        work.ask_before(
            task_names.PURGE_EFFECTS,
            lambda: settings.WEIR_EFFECT_RETENTION > 0 or is_to_forget(),
            sent_every_s=math.inf,
        )

        autodiscover_modules("effects")
        hidden.hide()
