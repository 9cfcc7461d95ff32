-- Two roles with no more rights than they need: weir_owner owns the tables and migrates; weir_app, as which all
-- processes run, reads and writes rows, and can change no table.
--
-- Execute it by psql (14 or newer) as a superuser, connected to Weir's database, before the first `migrate` or at any
-- time after it. Both passwords come from the environment:
--
--     POSTGRES_OWNER_PASSWORD=... POSTGRES_APP_PASSWORD=... psql --dbname weir --file roles.sql
--
-- Executed again, it brings rights, owners and passwords back to what it says. It is one transaction: where it fails,
-- nothing was changed. A role that is no superuser may execute it, if it may create roles and databases, and owns the
-- database and all that is in it.

\set ON_ERROR_STOP on
\set QUIET on
SET client_min_messages = warning;
\set owner weir_owner
\set app weir_app
\set owner_password ''
\set app_password ''
\getenv owner_password POSTGRES_OWNER_PASSWORD
\getenv app_password POSTGRES_APP_PASSWORD
SELECT :'owner_password' = '' OR :'app_password' = '' AS lacks_password, current_database() AS database \gset
\if :lacks_password
DO $$ BEGIN
    RAISE 'Set POSTGRES_OWNER_PASSWORD and POSTGRES_APP_PASSWORD, the passwords that the two roles are to have.';
END $$;
\endif

BEGIN;

SELECT format('CREATE ROLE %I', role)
FROM (VALUES (:'owner'), (:'app')) AS wanted (role)
WHERE role NOT IN (SELECT rolname FROM pg_roles) \gexec
ALTER ROLE :"owner" LOGIN NOCREATEDB NOCREATEROLE PASSWORD :'owner_password';
ALTER ROLE :"app" LOGIN NOCREATEDB NOCREATEROLE PASSWORD :'app_password';

-- To give something away, a role that is no superuser must be a member of the one that gets it.
SELECT format('GRANT %I TO CURRENT_USER', :'owner')
WHERE NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) \gexec

ALTER DATABASE :"database" OWNER TO :"owner";
ALTER SCHEMA public OWNER TO :"owner";
REVOKE TEMPORARY ON DATABASE :"database" FROM PUBLIC;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;

-- What a database has that is older than the roles. A sequence goes with its column, an extension's parts with it.
SELECT format('ALTER TABLE public.%I OWNER TO %I', relname, :'owner')
FROM pg_class AS relation
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
    AND relowner <> :'owner'::regrole
    AND NOT EXISTS (
        SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = relation.oid AND deptype IN ('a', 'i', 'e')
    ) \gexec
SELECT format('ALTER ROUTINE %s OWNER TO %I', routine.oid::regprocedure, :'owner')
FROM pg_proc AS routine
WHERE pronamespace = 'public'::regnamespace AND proowner <> :'owner'::regrole
    AND NOT EXISTS (
        SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = routine.oid AND deptype = 'e'
    ) \gexec

-- A recovery sets sequences forward, which takes UPDATE.
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM :"app";
GRANT USAGE ON SCHEMA public TO :"app";
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO :"app";
GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA public TO :"app";

-- What migrations of weir_owner will create.
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO :"app";
ALTER DEFAULT PRIVILEGES FOR ROLE :"owner" IN SCHEMA public GRANT USAGE, SELECT, UPDATE ON SEQUENCES TO :"app";

COMMIT;
