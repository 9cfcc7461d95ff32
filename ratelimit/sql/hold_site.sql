-- Lock the site of this name, and the sites `above` it that cover subdomains, in the order of their ids (lock order).
-- Returns these sites, that of this name first, and then the nearest ones first.
SELECT id, name
FROM (
    SELECT id, name
    FROM weir_ratelimit_site
    WHERE name = %(site)s OR covers_subdomains AND name = ANY(%(above)s::text[])
    ORDER BY id
    FOR NO KEY UPDATE
) AS held
ORDER BY length(name) DESC
