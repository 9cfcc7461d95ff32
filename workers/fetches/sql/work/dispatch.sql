-- Whether dispatch has anything to do: a site has a backlog, or something becomes due at one.
SELECT EXISTS (SELECT FROM weir_ratelimit_site WHERE has_backlog)
    OR EXISTS (SELECT FROM weir_ratelimit_site WHERE due_at BETWEEN '-infinity' AND statement_timestamp()) AS has_work
