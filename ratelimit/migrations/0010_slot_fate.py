from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("ratelimit", "0009_written_rate")]

    operations = [
        # What became of a slot: docs/glossary.md, "Fate". A function, as the history counts by it and the timeline shows
        # it, and the site's row, or the lack of one, comes from another table. PostgreSQL inlines it.
        # 500 ms: weir.ratelimit.pacing.CONFIRMED_FOR_S. 10 ms: weir.ratelimit.pacing.HAND_OVER_MARGIN_S.
        migrations.RunSQL(
            """
            CREATE FUNCTION ratelimit_slot_fate(
                slot ratelimit_slot, recalled_slot bigint, recalled_at timestamptz, reported_by timestamptz, now timestamptz
            ) RETURNS text LANGUAGE sql IMMUTABLE RETURN CASE
                WHEN slot.finished_at IS NOT NULL THEN 'used'
                WHEN slot.id <= recalled_slot AND slot.use_until > recalled_at AND CASE
                    WHEN slot.released_at IS NULL THEN slot.start_time - recalled_at > interval '500 ms'
                    ELSE slot.released_at >= recalled_at
                END THEN 'void'
                WHEN slot.use_until - slot.released_at >= interval '10 ms' THEN 'given back'
                WHEN slot.released_at IS NOT NULL THEN 'missed'
                WHEN now <= reported_by THEN 'reserved'
                WHEN slot.passed_on_at IS NOT NULL THEN 'given back'
                ELSE 'unreported'
            END
            """,
            "DROP FUNCTION ratelimit_slot_fate",
        ),
    ]
