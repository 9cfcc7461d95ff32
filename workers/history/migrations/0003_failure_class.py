from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("history", "0002_failure_reason")]

    operations = [
        # Why a fetch failed, as one of a few classes, from its `error`: `history_failure_reason`, with the texts of the
        # wire. The version before counts by that one, which goes in the next release. What a stranger chose (the target of
        # a redirect, a host's name) stands behind words of ours, or in texts that are looked at last.
        # tests/integration/history/test_failure_classes.py has all texts that code writes.
        migrations.RunSQL(
            """
            CREATE FUNCTION history_failure_class(error text) RETURNS text LANGUAGE sql IMMUTABLE RETURN CASE
                WHEN error LIKE 'the site answered 4%' OR error LIKE 'the site answered 503%'
                    OR error LIKE 'the site answered ___, which refuses %' THEN 'refused'
                WHEN error LIKE 'the site answered %' THEN 'server error'
                WHEN error LIKE 'redirected to %' OR error LIKE 'more than % redirects, %' THEN 'redirect'
                WHEN error LIKE '%; WEIR\\_FETCH\\_ALLOW\\_%' THEN 'forbidden'
                WHEN error LIKE 'robots.txt of %' THEN 'robots.txt'
                WHEN error LIKE 'no complete answer within %' OR error LIKE 'no connection within %'
                    OR error LIKE 'the connection took %' THEN 'timeout'
                WHEN error LIKE 'gaierror: %' OR error LIKE 'LookupTimedOut: %' THEN 'dns'
                WHEN error LIKE 'the site''s certificate %' OR error LIKE 'TLS failed: %' THEN 'tls'
                WHEN error LIKE 'connection refused by %' THEN 'connection refused'
                WHEN error LIKE '% larger than % bytes%' OR error LIKE 'the answer has more than %' THEN 'too large'
                WHEN error LIKE 'not an answer in HTTP: %' OR error LIKE 'the body%' OR error LIKE 'the compressed body %'
                    OR error LIKE 'the site answers %' THEN 'bad answer'
                WHEN error LIKE 'unexpected: %' OR error LIKE 'the answer could not be judged: %'
                    OR error LIKE 'the database refused the result: %' THEN 'internal'
                WHEN error LIKE 'the site close%' OR error LIKE 'the connection %' OR error LIKE 'not connected to %'
                    OR error LIKE '%Error: %' THEN 'connection'
                WHEN error LIKE 'its fetcher died%' THEN 'fetcher lost'
                WHEN error LIKE 'the URL %' OR error LIKE 'not a URL: %' OR error LIKE 'the scheme %'
                    OR error LIKE 'the port must %' OR error LIKE 'the host has %' OR error LIKE '''%' OR error LIKE '"%'
                    THEN 'invalid URL'
                ELSE 'other'
            END
            """,
            "DROP FUNCTION history_failure_class",
        ),
    ]
