-- Find the sites of these names. Reads only.
SELECT site.id, site.name, site.turn_share IS NOT NULL AS takes_turns
FROM unnest(%(names)s::text[]) AS wanted (name)
CROSS JOIN LATERAL (  -- newest version (docs/explanation/sql.md)
    SELECT id, name, turn_share FROM weir_ratelimit_site
    WHERE (name, id) >= (wanted.name, 0) AND name <= wanted.name
    ORDER BY name DESC
    LIMIT 1
) AS site
