-- Ask the gate.
SELECT weir_timeline_is_known(%(known_generation)s::bigint, %(clock)s::tstzrange) AS is_known
