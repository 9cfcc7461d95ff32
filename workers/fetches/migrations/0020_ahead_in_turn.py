"""How many fetches go before another one at a site with shares, for reports."""

from django.db import migrations

# How many due fetches of other shares go before a fetch that has `own` others of its share before it, and how many
# shares these are. Counts up to `most` fetches of a share, of `most` shares.
BEFORE = """
CREATE FUNCTION weir_fetches_before_share(
    of_site bigint, of_share text, own bigint, now timestamptz, weights jsonb, whose text, had integer, most integer
) RETURNS TABLE (fetches bigint, shares bigint) LANGUAGE sql STABLE PARALLEL SAFE AS $$
    WITH RECURSIVE mine AS (
        SELECT
            of_share COLLATE "C" AS name,
            (own + CASE WHEN of_share = whose THEN least(had, weight) ELSE 0 END) / weight AS turn
        FROM (SELECT coalesce((weights ->> of_share)::integer, 1) AS weight) AS of_mine
    ), other AS (
        (
            SELECT job.share, 1 AS place FROM weir_fetches_fetch AS job
            WHERE job.site_id = of_site AND job.lease_until IS NULL AND job.finished_at IS NULL AND job.share IS NOT NULL
            ORDER BY job.share, job.priority DESC, job.not_before, job.id
            LIMIT 1
        )
        UNION ALL
        SELECT next.share, other.place + 1
        FROM other
        CROSS JOIN LATERAL (
            SELECT job.share FROM weir_fetches_fetch AS job
            WHERE job.site_id = of_site AND job.lease_until IS NULL AND job.finished_at IS NULL AND job.share > other.share
            ORDER BY job.share, job.priority DESC, job.not_before, job.id
            LIMIT 1
        ) AS next
        WHERE other.place <= most
    ), allowed AS (
        SELECT
            share,
            least(most, greatest(0,
                weight * (turn + ((share < whose, share) < (name < whose, name))::integer)
                    - CASE WHEN share = whose THEN least(had, weight) ELSE 0 END
            )) AS fetches
        FROM mine
        CROSS JOIN other
        CROSS JOIN LATERAL (SELECT coalesce((weights ->> share)::integer, 1) AS weight) AS of_other
        WHERE share <> name
    )
    SELECT coalesce(sum(first.due), 0)::bigint, count(*)
    FROM allowed
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE not_before <= now) AS due
        FROM (
            SELECT not_before FROM weir_fetches_fetch AS job
            WHERE job.site_id = of_site AND job.lease_until IS NULL AND job.finished_at IS NULL AND job.share = allowed.share
            ORDER BY job.priority DESC, job.not_before, job.id
            LIMIT allowed.fetches
        ) AS queue
    ) AS first
$$
"""

# How many due fetches go before this one, and how many other shares wait; no row for a site without shares, nor for
# what Weir itself asks for. Of its own share, the first `most` fetches are read, due or not.
AHEAD = """
CREATE FUNCTION weir_fetches_ahead_in_turn(
    of_site bigint, of_share text, of_priority smallint, of_not_before timestamptz, of_id bigint, now timestamptz,
    weights jsonb, whose text, had integer, most integer
) RETURNS TABLE (fetches bigint, shares bigint) LANGUAGE plpgsql STABLE AS $$
DECLARE
    of_weir CONSTANT smallint := 32767;
    own bigint;
BEGIN
    IF of_priority = of_weir OR (
        SELECT job.share FROM weir_fetches_fetch AS job
        WHERE job.site_id = of_site AND job.lease_until IS NULL AND job.finished_at IS NULL AND job.share IS NOT NULL
        ORDER BY job.share, job.priority DESC, job.not_before, job.id
        LIMIT 1
    ) IS NULL THEN
        RETURN;
    END IF;
    IF of_share IS NULL THEN  -- queued before the site had shares
        own := (
            SELECT count(*) FILTER (
                WHERE first.share IS NULL AND first.not_before <= now
                    AND (-first.priority, first.not_before, first.id) < (-of_priority, of_not_before, of_id)
            )
            FROM (
                SELECT job.share, job.priority, job.not_before, job.id FROM weir_fetches_fetch AS job
                WHERE job.site_id = of_site AND job.state = 'queued'
                ORDER BY job.priority DESC, job.not_before, job.id
                LIMIT most
            ) AS first
        );
    ELSE
        own := (
            SELECT count(*) FILTER (
                WHERE first.not_before <= now
                    AND (-first.priority, first.not_before, first.id) < (-of_priority, of_not_before, of_id)
            )
            FROM (
                SELECT job.priority, job.not_before, job.id FROM weir_fetches_fetch AS job
                WHERE job.site_id = of_site AND job.lease_until IS NULL AND job.finished_at IS NULL AND job.share = of_share
                ORDER BY job.priority DESC, job.not_before, job.id
                LIMIT most
            ) AS first
        );
    END IF;
    RETURN QUERY
    SELECT least(own + before.fetches, most), before.shares
    FROM weir_fetches_before_share(of_site, coalesce(of_share, ''), own, now, weights, whose, had, most) AS before;
END
$$
"""


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0019_in_turn")]

    operations = [
        migrations.RunSQL(BEFORE, "DROP FUNCTION weir_fetches_before_share"),
        migrations.RunSQL(AHEAD, "DROP FUNCTION weir_fetches_ahead_in_turn"),
    ]
