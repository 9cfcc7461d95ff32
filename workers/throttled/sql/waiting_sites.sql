-- Return the next `most` sites at which tasks wait, in the order of their names from `first` on, and whether each site
-- is missing, because it was deleted. Reads only: two index look-ups for each site.
--
-- waiting  the names of the sites (index jump, docs/explanation/sql.md)
WITH RECURSIVE waiting AS (
    (
        SELECT site, 1 AS place FROM weir_throttled_postponedtask
        WHERE published_at IS NULL AND site >= %(first)s
        ORDER BY site
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT task.site FROM weir_throttled_postponedtask AS task
        WHERE task.published_at IS NULL AND task.site > waiting.site
        ORDER BY task.site
        LIMIT 1
    ), place + 1
    FROM waiting
    WHERE waiting.site IS NOT NULL AND place < %(most)s
)
SELECT waiting.site AS name, known.id IS NULL AS is_missing
FROM waiting
LEFT JOIN LATERAL (  -- newest version (docs/explanation/sql.md)
    SELECT id FROM weir_ratelimit_site
    WHERE (name, id) >= (waiting.site, 0) AND name <= waiting.site
    ORDER BY name DESC
    LIMIT 1
) AS known ON true
WHERE waiting.site IS NOT NULL
ORDER BY waiting.place
