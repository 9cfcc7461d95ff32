"""The effect of a fetch whose request is made once; and what keeps such a fetch from versions that would make it twice."""

import django.db.models.deletion
from django.db import migrations, models

# A fetcher of the version before would not begin the effect. Claims of this version say that they do; from other claims,
# such a fetch is kept away: it stays reserved, and goes back to the queue.
KEEP_AWAY = """
    CREATE FUNCTION weir_fetches_claims_begin_effects() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF current_setting('weir.begins_effects', true) = 'on' THEN
            RETURN NEW;
        END IF;
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER weir_fetches_keep_once_away BEFORE UPDATE OF state ON weir_fetches_fetch FOR EACH ROW
    WHEN (NEW.effect_id IS NOT NULL AND NEW.state = 'running' AND OLD.state <> 'running')
    EXECUTE FUNCTION weir_fetches_claims_begin_effects()
"""
# Whoever cancels the fetch cancels its effect, unless that may have happened. A statement that ends a fetch sets
# `finished_at` (weir_fetch_final_has_finished_at).
CANCEL = """
    CREATE FUNCTION weir_fetches_cancel_effect() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE weir_effects_effect
        SET state = 'cancelled', ended_at = clock_timestamp(), claim_token = NULL, claimed_until = NULL,
            last_reply = 'Its fetch was cancelled.'
        WHERE id = NEW.effect_id AND state IN ('pending', 'claimed') AND ask_until IS NULL;
        RETURN NULL;
    END
    $$;
    CREATE TRIGGER weir_fetches_cancelled_once AFTER UPDATE OF finished_at ON weir_fetches_fetch FOR EACH ROW
    WHEN (NEW.effect_id IS NOT NULL AND NEW.state = 'cancelled' AND OLD.state <> 'cancelled')
    EXECUTE FUNCTION weir_fetches_cancel_effect()
"""


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0029_events"), ("weir_effects", "0001_initial")]

    operations = [
        migrations.AddField(
            "fetch",
            "effect",
            models.ForeignKey(
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="fetches",
                to="weir_effects.effect",
            ),
        ),
        migrations.RunSQL(KEEP_AWAY, "DROP FUNCTION weir_fetches_claims_begin_effects CASCADE"),
        migrations.RunSQL(CANCEL, "DROP FUNCTION weir_fetches_cancel_effect CASCADE"),
    ]
