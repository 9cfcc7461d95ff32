-- Counts the effects of each state but `done`, each number up to `most`. The query only reads, and uses partial
-- indexes: its cost does not grow with the table. Run it with planner.by_indexes.
SELECT
    (SELECT count(*) FROM (SELECT FROM weir_effects_effect WHERE state = 'pending' LIMIT %(most)s) AS e) AS pending,
    (SELECT count(*) FROM (SELECT FROM weir_effects_effect WHERE state = 'claimed' LIMIT %(most)s) AS e) AS claimed,
    (SELECT count(*) FROM (SELECT FROM weir_effects_effect WHERE state = 'begun' LIMIT %(most)s) AS e) AS begun,
    (SELECT count(*) FROM (SELECT FROM weir_effects_effect WHERE state = 'failed' LIMIT %(most)s) AS e) AS failed,
    (SELECT count(*) FROM (SELECT FROM weir_effects_effect WHERE state = 'unknown' LIMIT %(most)s) AS e) AS unknown,
    (SELECT count(*) FROM (SELECT FROM weir_effects_effect WHERE state = 'cancelled' LIMIT %(most)s) AS e) AS cancelled,
    (SELECT count(*) FROM (SELECT FROM weir_effects_effect WHERE state = 'expired' LIMIT %(most)s) AS e) AS expired
