from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("history", "0001_initial"),
        ("fetches", "0004_claimed_by"),
        ("ratelimit", "0010_slot_fate"),
        ("mail", "0013_email_by_end"),
        ("notifications", "0014_forgotten_until"),
    ]

    operations = [
        # Why a fetch failed, as one of a few classes, from its `error`. What a stranger chose (the target of a redirect, a
        # host's name) stands behind words of ours, or in texts that are looked at last.
        # tests/integration/history/test_failure_reasons.py has all texts that code writes.
        migrations.RunSQL(
            """
            CREATE FUNCTION history_failure_reason(error text) RETURNS text LANGUAGE sql IMMUTABLE RETURN CASE
                WHEN error LIKE 'the site answered 429%' OR error LIKE 'the site answered 503%' THEN 'refused'
                WHEN error LIKE 'the site answered %' THEN 'server error'
                WHEN error LIKE 'redirected to %' OR error LIKE 'more than % redirects, %' THEN 'redirect'
                WHEN error LIKE '%; WEIR\\_FETCH\\_ALLOW\\_%' THEN 'forbidden'
                WHEN error LIKE 'robots.txt of %' THEN 'robots.txt'
                WHEN error LIKE 'no complete answer within %' OR error LIKE 'no connection within %'
                    OR error LIKE 'the connection took %' OR error LIKE '%Timeout%: %' THEN 'timeout'
                WHEN error LIKE 'gaierror: %' OR error LIKE 'LookupTimedOut: %' THEN 'dns'
                WHEN error LIKE 'ClientConnectorCertificateError: %' OR error LIKE 'ClientConnectorSSLError: %'
                    OR error LIKE 'ClientSSLError: %' OR error LIKE 'SSL%: %' THEN 'tls'
                WHEN error LIKE 'connection refused by %' THEN 'connection refused'
                WHEN error LIKE '% larger than % bytes%' THEN 'too large'
                WHEN error LIKE 'ClientPayloadError: %' OR error LIKE 'ClientResponseError: %' OR error LIKE 'the body%'
                    OR error LIKE 'the compressed body %' THEN 'bad answer'
                WHEN error LIKE 'the site close%' OR error LIKE 'Client%Error: %' OR error LIKE 'Server%Error: %'
                    OR error LIKE 'Connection%Error: %' OR error LIKE 'OSError: %' OR error LIKE 'BrokenPipeError: %'
                    THEN 'connection'
                WHEN error LIKE 'its fetcher died%' THEN 'fetcher lost'
                WHEN error LIKE 'unexpected: %' OR error LIKE 'the answer could not be judged: %'
                    OR error LIKE 'the database refused the result: %' OR error LIKE 'the request was not paced%'
                    THEN 'internal'
                WHEN error LIKE 'the URL %' OR error LIKE 'not a URL: %' OR error LIKE 'the scheme %'
                    OR error LIKE 'the port must %' OR error LIKE 'the host has %' OR error LIKE '''%' OR error LIKE '"%'
                    THEN 'invalid URL'
                ELSE 'other'
            END
            """,
            "DROP FUNCTION history_failure_reason",
        ),
    ]
