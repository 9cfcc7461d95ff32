-- Read the role's rights on the tables and sequences of its schema, and on Weir's views. Reads only.
--
-- `may_change` tells whether the role can create tables. `closed` is the number of tables, sequences and views that the
-- role cannot fully use. `first` is the first of their names.
SELECT
    current_user::text AS role,
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS may_change,
    count(*) AS closed,
    coalesce(min(relname), '') AS first
FROM pg_class
WHERE relnamespace = to_regnamespace(quote_ident(current_schema())) AND CASE relkind
    WHEN 'r' THEN NOT (
        has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
        AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')
    )
    WHEN 'v' THEN starts_with(relname, 'weir_') AND NOT (
        has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'UPDATE')
        AND (  -- PostgreSQL reads and writes a view's table with the rights of the view's owner
            SELECT bool_and(
                has_table_privilege(relowner, used.refobjid, 'SELECT')
                AND has_table_privilege(relowner, used.refobjid, 'UPDATE')
            )
            FROM pg_rewrite AS rule
            JOIN pg_depend AS used ON used.classid = 'pg_rewrite'::regclass AND used.objid = rule.oid
                AND used.refclassid = 'pg_class'::regclass AND used.refobjid <> rule.ev_class
            WHERE rule.ev_class = pg_class.oid
        )
    )
    WHEN 'S' THEN NOT (has_sequence_privilege(oid, 'USAGE') AND has_sequence_privilege(oid, 'UPDATE'))
    ELSE false
END
