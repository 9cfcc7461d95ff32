"""Which fetches of a site with shares go next."""

from django.db import migrations

# The next `most` due fetches of a site, in the order in which they go:
#
# 1. What Weir itself asks for (robots.txt, access tokens), which has the highest priority and no share.
# 2. The shares take turns, in the order of their names; a share gets up to its weight in each turn. This is deficit
#    round robin (Shreedhar and Varghese, "Efficient fair queueing using deficit round-robin", 1995): the weight is the
#    quantum, and each fetch has the size 1, so that a turn leaves no deficit. `whose` is the share whose turn it was
#    last; it has had `had` of it. Fetches without a share are a share, too: that with the empty name.
# 3. Whatever else is due, by priority and age: no slot is left empty while anything is due.
#
# `share` and `in_turn` say whose turn it is after this fetch, and how much of it is used; NULL: as before it.
# Reads only, all in the order of indexes: each share once in each pass, and hardly more fetches than are returned. In
# the first pass, each share takes one turn; in the next passes, those that may have more take as many turns as are
# needed. After `looks` shares at which nothing is due yet, no further share is looked for; the next call goes on there.
# The statements are planned once (generic plans): that takes longer than to execute them. Those of a share name the
# condition of weir_fetch_shares, so that no other index serves them.
# A fetch without a share that was queued before its site had any has NULL: these are looked for among the first 100 of
# each priority, 1,000 in all, as they are older than what has a share. What is queued later, or again, has the empty
# name (weir_fetches_share_at).
IN_TURN = """
CREATE FUNCTION weir_fetches_in_turn(
    of_site bigint, most integer, now timestamptz, weights jsonb, whose text, had integer, looks integer DEFAULT 1000
) RETURNS TABLE (fetch_id bigint, place integer, share text, in_turn integer) LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    of_weir CONSTANT smallint := 32767;
    -- By share, in the order of their turns: its name, its weight, how many of its fetches were found, and whether it
    -- may have more.
    names text[] := '{}';
    quanta integer[] := '{}';
    taken integer[] := '{}';
    deep boolean[] := '{}';
    -- By fetch: its id, its turn, the place of its share, and its place among those of its share in this pass.
    ids bigint[] := '{}';
    turns integer[] := '{}';
    owners integer[] := '{}';
    nths integer[] := '{}';
    older bigint[];              -- those that were queued before the site had shares
    is_listed boolean := false;  -- all shares are in `names`
    is_cut boolean := false;     -- there may be more of them
    has_wrapped boolean := false;
    used integer := 0;           -- of the turn in which the first share is
    first_turn integer := 0;     -- of this pass
    turns_at_once integer := 1;  -- of this pass
    in_vain integer := 0;
    name text COLLATE "C";
    i integer;
    n integer;
    quota integer;
    job bigint;
BEGIN
    FOR job IN
        SELECT id FROM weir_fetches_fetch
        WHERE site_id = of_site AND state = 'queued' AND priority = of_weir AND not_before <= now
        ORDER BY priority DESC, not_before, id
        LIMIT most
    LOOP
        ids := ids || job; turns := turns || -1; owners := owners || 0; nths := nths || cardinality(ids);
    END LOOP;

    older := ARRAY(
        WITH RECURSIVE level AS (
            (
                SELECT any_job.priority FROM weir_fetches_fetch AS any_job
                WHERE any_job.site_id = of_site AND any_job.state = 'queued' AND any_job.priority < of_weir
                ORDER BY any_job.priority DESC, any_job.not_before, any_job.id
                LIMIT 1
            )
            UNION ALL
            SELECT next.priority
            FROM level
            CROSS JOIN LATERAL (
                SELECT any_job.priority FROM weir_fetches_fetch AS any_job
                WHERE any_job.site_id = of_site AND any_job.state = 'queued' AND any_job.priority < level.priority
                ORDER BY any_job.priority DESC, any_job.not_before, any_job.id
                LIMIT 1
            ) AS next
        )
        SELECT first.id
        FROM (
            SELECT first_job.*
            FROM level
            CROSS JOIN LATERAL (
                SELECT any_job.id, any_job.share FROM weir_fetches_fetch AS any_job
                WHERE any_job.site_id = of_site AND any_job.state = 'queued' AND any_job.priority = level.priority
                    AND any_job.not_before <= now
                ORDER BY any_job.not_before, any_job.id
                LIMIT 100
            ) AS first_job
            LIMIT 1000
        ) AS first
        WHERE first.share IS NULL
    );

    WHILE cardinality(ids) < most LOOP
        i := 0;
        LOOP
            i := i + 1;
            IF is_listed THEN
                EXIT WHEN i > cardinality(names);
                CONTINUE WHEN NOT deep[i];
                name := names[i];
                quota := quanta[i] * turns_at_once;
            ELSE
                EXIT WHEN cardinality(ids) >= most;
                is_cut := in_vain >= looks;
                EXIT WHEN is_cut;
                IF i = 1 THEN
                    name := whose;
                ELSE
                    name := (
                        SELECT next.share FROM weir_fetches_fetch AS next
                        WHERE next.site_id = of_site AND next.lease_until IS NULL AND next.finished_at IS NULL AND next.share > names[i - 1]
                        ORDER BY next.share, next.priority DESC, next.not_before, next.id
                        LIMIT 1
                    );
                    EXIT WHEN name IS NULL AND has_wrapped;
                    has_wrapped := has_wrapped OR name IS NULL;
                    name := coalesce(name, '');
                    EXIT WHEN has_wrapped AND name >= whose COLLATE "C";
                END IF;
                names := names || name;
                quanta := quanta || coalesce((weights ->> name)::integer, 1);
                taken := taken || 0;
                deep := deep || true;
                IF i = 1 THEN
                    used := least(had, quanta[1]);
                END IF;
                quota := quanta[i] - CASE WHEN i = 1 THEN used ELSE 0 END;
            END IF;

            n := 0;
            FOR job IN
                WITH RECURSIVE level AS (
                    (
                        SELECT own.priority FROM weir_fetches_fetch AS own
                        WHERE own.site_id = of_site AND own.lease_until IS NULL AND own.finished_at IS NULL AND own.share = name
                        ORDER BY own.priority DESC, own.not_before, own.id
                        LIMIT 1
                    )
                    UNION ALL
                    SELECT next.priority
                    FROM level
                    CROSS JOIN LATERAL (
                        SELECT own.priority FROM weir_fetches_fetch AS own
                        WHERE own.site_id = of_site AND own.lease_until IS NULL AND own.finished_at IS NULL AND own.share = name
                            AND own.priority < level.priority
                        ORDER BY own.priority DESC, own.not_before, own.id
                        LIMIT 1
                    ) AS next
                )
                SELECT due.id
                FROM (
                    (
                        SELECT due_job.*
                        FROM level
                        CROSS JOIN LATERAL (
                            SELECT own.priority, own.not_before, own.id FROM weir_fetches_fetch AS own
                            WHERE own.site_id = of_site AND own.lease_until IS NULL AND own.finished_at IS NULL AND own.share = name
                                AND own.priority = level.priority AND own.not_before <= now
                            ORDER BY own.not_before, own.id
                            LIMIT taken[i] + quota
                        ) AS due_job
                        LIMIT taken[i] + quota  -- the priorities below are not read
                    )
                    UNION ALL
                    SELECT old.priority, old.not_before, old.id
                    FROM unnest(older) AS old_id
                    CROSS JOIN LATERAL (SELECT priority, not_before, id FROM weir_fetches_fetch WHERE id = old_id OFFSET 0) AS old
                    WHERE name = ''
                ) AS due
                ORDER BY due.priority DESC, due.not_before, due.id
                OFFSET taken[i]
                LIMIT quota
            LOOP
                n := n + 1;
                ids := ids || job;
                turns := turns || first_turn + (n - 1) / quanta[i];
                owners := owners || i;
                nths := nths || n;
            END LOOP;
            taken[i] := taken[i] + n;
            deep[i] := n = quota;
            in_vain := in_vain + (NOT is_listed AND n = 0 AND quota > 0)::integer;
        END LOOP;
        is_listed := true;
        first_turn := first_turn + turns_at_once;
        n := (SELECT sum(each.quantum) FROM unnest(quanta, deep) AS each (quantum, is_deep) WHERE each.is_deep);
        EXIT WHEN n IS NULL;
        turns_at_once := greatest(1, ceil((most - cardinality(ids))::float8 / n));
    END LOOP;

    RETURN QUERY
    SELECT
        found.id, (row_number() OVER in_order)::integer,
        CASE
            WHEN is_cut AND row_number() OVER in_order = least(most, cardinality(ids)) THEN names[cardinality(names)]
            WHEN found.owner > 0 THEN names[found.owner]
        END,
        CASE
            WHEN is_cut AND row_number() OVER in_order = least(most, cardinality(ids)) THEN quanta[cardinality(names)]
            WHEN found.owner = 1 AND found.turn = 0 THEN used + found.nth
            WHEN found.owner > 0 THEN (found.nth - 1) % quanta[found.owner] + 1
        END
    FROM unnest(ids, turns, owners, nths) AS found (id, turn, owner, nth)
    WINDOW in_order AS (ORDER BY found.turn, found.owner, found.nth)
    ORDER BY found.turn, found.owner, found.nth
    LIMIT most;

    IF cardinality(ids) < most THEN
        RETURN QUERY
        WITH RECURSIVE level AS (
            (
                SELECT any_job.priority FROM weir_fetches_fetch AS any_job
                WHERE any_job.site_id = of_site AND any_job.state = 'queued' AND any_job.priority < of_weir
                ORDER BY any_job.priority DESC, any_job.not_before, any_job.id
                LIMIT 1
            )
            UNION ALL
            SELECT next.priority
            FROM level
            CROSS JOIN LATERAL (
                SELECT any_job.priority FROM weir_fetches_fetch AS any_job
                WHERE any_job.site_id = of_site AND any_job.state = 'queued' AND any_job.priority < level.priority
                ORDER BY any_job.priority DESC, any_job.not_before, any_job.id
                LIMIT 1
            ) AS next
        )
        SELECT
            due_job.id, most + 1,
            CASE WHEN is_cut THEN names[cardinality(names)] END, CASE WHEN is_cut THEN quanta[cardinality(names)] END
        FROM level
        CROSS JOIN LATERAL (
            SELECT any_job.id FROM weir_fetches_fetch AS any_job
            WHERE any_job.site_id = of_site AND any_job.state = 'queued' AND any_job.priority = level.priority
                AND any_job.not_before <= now AND any_job.id <> ALL (ids)
            ORDER BY any_job.not_before, any_job.id
            LIMIT most
        ) AS due_job
        LIMIT most - cardinality(ids);
    END IF;
END
$$
"""

# The share of a fetch that is queued at a site by another way than for the first time: after an attempt, a redirect, a
# split or a retry. Where the site has shares, one without a share is of that with the empty name, so that it takes turns.
SHARE_AT = """
CREATE FUNCTION weir_fetches_share_at(
    of_share text, of_priority smallint, of_site bigint
) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(of_share, (
        SELECT '' FROM weir_ratelimit_site
        WHERE (id, name) >= (of_site, '') AND id <= of_site AND turn_share IS NOT NULL
            AND of_priority < 32767  -- what Weir itself asks for is nobody's
        ORDER BY id DESC
        LIMIT 1
    ))
$$
"""


class Migration(migrations.Migration):
    dependencies = [("weir_fetches", "0018_shares_queue"), ("weir_ratelimit", "0008_shares")]

    operations = [
        migrations.RunSQL(IN_TURN, "DROP FUNCTION weir_fetches_in_turn"),
        migrations.RunSQL(SHARE_AT, "DROP FUNCTION weir_fetches_share_at"),
    ]
