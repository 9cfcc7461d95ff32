-- Return a row if the account has logged in from the address lately.
SELECT 1 AS known FROM weir_logins_knownaddress WHERE key = %(key)s AND known_until > clock_timestamp()
