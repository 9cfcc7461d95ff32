"""Replies that servers in use give because of us: what an operator of a relay wants is that all e-mails wait.

Each group has its verdict and the reason; each reply the step that it answers and who says so, where that is known.
Hosts, addresses and names are examples; texts are cut.
"""

from weir.workers.mail.transports.replies import ReplyVerdict, SmtpStep

ENTRY, MAIL, RCPT, DATA, CONTENT = SmtpStep
GO_ON, LATER, DOMAIN_LATER, NEVER, HELD, AWAY, UNCLEAR, DOUBTFUL = ReplyVerdict

ABOUT_US: tuple[tuple[ReplyVerdict, str, tuple[tuple[SmtpStep, str], ...]], ...] = (
    (
        HELD,
        "RFC 5321, 3.6.2: the server does not relay for us",
        (
            (RCPT, "554 5.7.1 <x@y.example>: Relay access denied"),  # Postfix
            (RCPT, "454 4.7.1 <x@y.example>: Relay access denied"),  # Postfix, defer_unauth_destination
            (RCPT, "554 <x@y.example>: Recipient address rejected: Relay access denied"),  # Postfix, a policy service
            (RCPT, "550 relay not permitted"),  # Exim
            (RCPT, "550 5.7.1 <x@y.example>... Relaying denied. Proper authentication required."),  # sendmail
            (RCPT, "550 5.7.1 <x@y.example>... Relaying denied. IP name lookup failed [192.0.2.1]"),  # sendmail
            (RCPT, "450 4.4.0 <x@y.example>... Relaying temporarily denied. Cannot resolve PTR record for 192.0.2.1"),
            (RCPT, "553 sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)"),  # qmail
            (RCPT, "553 sorry, you don't authenticate or the domain isn't in my list of allowed rcpthosts (#5.7.1)"),
            (RCPT, "550 5.7.1 Unable to relay for x@y.example"),  # Exchange
            (RCPT, "550 5.7.54 SMTP; Unable to relay recipient in non-accepted domain"),  # Exchange
            (RCPT, "550 5.7.64 TenantAttribution; Relay Access Denied"),  # Exchange Online
            (RCPT, "550 5.7.0 Mail relay denied [192.0.2.1]. Invalid credentials for relay"),  # Google's relay
            (
                CONTENT,
                "550 5.7.1 Invalid credentials for relay [192.0.2.1]. The IP address is not registered",
            ),  # Google
            (CONTENT, "550 5.7.1 The IP you're using to send mail is not authorized to send email directly"),  # Gmail
            (RCPT, "553 Relaying disallowed as shop@x.example"),  # Zoho
            (
                RCPT,
                (
                    "550-Please turn on SMTP Authentication in your mail client.\n"
                    "550-x.example [192.0.2.1] is not permitted to relay through this server without\n"
                    "550 authentication."
                ),
            ),  # cPanel
            (RCPT, "503 This mail server requires authentication when attempting to send to a non-local address"),
            (RCPT, "550 not local host y.example, not a gateway"),  # IMail
            (RCPT, "550 we don't handle mail for y.example"),
            (RCPT, "550 I cannot deliver mail for <x@y.example>"),  # Haraka
            (RCPT, "530 Relaying not allowed for policy reasons"),
            (RCPT, "550 #5.7.1 Relaying denied"),  # IronPort
            (RCPT, "553 host denies relay."),  # NetEase
            (RCPT, "451 open relay not allowed"),  # Mimecast
            (RCPT, "550 Relay access denied - please authenticate"),  # SMTP2GO
        ),
    ),
    (
        HELD,
        "RFC 4954, 6, RFC 5248: our login, or our account with the provider",
        (
            (MAIL, "530 5.7.0 Authentication Required"),  # Gmail
            (MAIL, "530 5.5.1 Authentication Required"),  # Gmail
            (MAIL, "530 Authentication required"),  # SES
            (MAIL, "530 5.7.0 Must issue a STARTTLS command first"),  # Postfix
            (MAIL, "530 5.7.57 SMTP; Client was not authenticated to send anonymous mail during MAIL FROM"),  # Exchange
            (MAIL, "503 5.7.0 Error: access denied for unknown[192.0.2.1]"),  # Postfix
            (MAIL, "503 5.5.4 Error: send AUTH command first."),  # Yandex
            (RCPT, "550 authentication required"),  # Exim
            (RCPT, "550 5.5.0 Authentification requise. Authentication Required. LPN105_402"),  # La Poste
            (RCPT, "550 SMTP AUTH is required for message submission on port 587"),  # cPanel
            (RCPT, "553 5.7.1 <shop@x.example>: Sender address rejected: not logged in"),  # Postfix
            (RCPT, "550 5.7.0 Code d'authentification invalide OFR_305"),  # Orange
            (RCPT, "550 Submitter failed to authenticate"),  # Mimecast
            (CONTENT, "530 From/Sender name is not valid"),  # Postal
            (CONTENT, "502 5.7.0 Your SMTP account is not yet activated"),  # Brevo
            (CONTENT, "421 Domain x.example is not allowed to send: Please activate your Mailgun account"),  # Mailgun
            (CONTENT, "554 Message rejected: Sending paused for this account"),  # SES
            (CONTENT, "554 Message rejected: Sending suspended for this account"),  # SES
            (RCPT, "550 Your account has an outgoing mail suspension. Message discarded."),  # cPanel
            (CONTENT, "550 5.7.0, Mail Sending denied"),  # Gmail
            (CONTENT, "554 Sandbox subdomains are for test purposes only. Please add your own domain"),  # Mailgun
            (CONTENT, "550 5.7.1 Unconfigured Sending Domain <x.example>"),  # SparkPost
            (CONTENT, "550 5.7.705 Access denied, tenant has exceeded threshold"),  # Exchange Online
            (CONTENT, "550 5.7.501 Access denied, spam abuse detected"),  # Exchange Online: the account is banned
            (RCPT, "553 5.7.1 This route requires encryption (TLS)"),  # Mimecast
        ),
    ),
    (
        HELD,
        "RFC 5321, 4.1.1.2, RFC 3463, 3.2: our sender's address, which all e-mails have",
        (
            (MAIL, "501 Invalid MAIL FROM address provided"),  # SES
            (MAIL, "501 5.1.7 Bad sender address syntax"),  # Postfix
            (MAIL, "501 5.1.0 Emetteur invalide. Invalid Sender. OFR004_405"),  # Orange
            (MAIL, "501 <shop>: sender address must contain a domain"),  # Exim
            (MAIL, "501 Syntax error in parameters or arguments"),  # GMX: the sending server's configuration
            (MAIL, "552 mail from invalid."),  # NetEase
            (MAIL, "555 5.5.2 Syntax error, cannot decode response"),  # Gmail
            (MAIL, "501 mail from address must be same as authorization user"),  # Tencent
            (MAIL, "550 5.1.0 Invalid Sender[515]"),
            (CONTENT, "550 5.7.0 From address is not one of your addresses"),  # Fastmail
            (RCPT, "554 5.7.1 Recipient address rejected: Username shop and sender doesn't match"),  # Postfix, policyd
            (
                RCPT,
                (
                    "550-Verification failed for <shop@x.example>\n550-Unrouteable address\n"
                    "550 unable to verify sender address"
                ),
            ),
            (MAIL, "554 sender is unvalidated."),  # NetEase
            (MAIL, "553 5.1.7 The sender address is not a valid RFC 5321 address"),  # Gmail
            (MAIL, "451 4.1.8 Domain of sender address shop@x.example does not resolve"),  # sendmail
            (MAIL, "553 5.7.1 Sender address rejected: not owned by auth user."),  # Yandex
            (MAIL, "553 sorry, your envelope sender is in my badmailfrom list (#5.7.1)"),  # qmail
            (RCPT, "550 Sender verify failed"),  # Exim
            (RCPT, "550-Verification failed for <shop@x.example>\n550-No Such User Here\n550 Sender verify failed"),
            (RCPT, "451 Could not complete sender verify callout"),  # Exim
            (RCPT, "553 5.1.8 <x@y.example>... Domain of sender address shop@x.example does not exist"),  # sendmail
            (RCPT, "450 4.1.8 <shop@x.example>: Sender address rejected: Domain not found"),  # Postfix
            (RCPT, "554 5.7.1 <shop@x.example>: Sender address rejected: Access denied"),  # Postfix
            (RCPT, "550 5.1.7 <shop@x.example>: Sender address rejected: undeliverable address: 550 User unknown"),
            (RCPT, "450 4.1.7 <shop@x.example>: Sender address rejected: unverified address: Connection refused"),
            (RCPT, "504 5.5.2 <shop@web-1>: Sender address rejected: need fully-qualified address"),  # Postfix
            (RCPT, "553 5.7.1 <shop@x.example>: Sender address rejected: not owned by user kim"),  # Postfix
            (RCPT, "550 5.1.0 <shop@x.example> sender rejected. See AUP"),  # Charter, Cox
            (RCPT, "553 host denies the sender."),  # NetEase
            (RCPT, "550 Requested mail action not taken: Fake sender"),  # Coremail
            (RCPT, "550 x.example From: Domain is invalid. Provide a valid From: IB506"),  # GoDaddy
            (
                CONTENT,
                "554 Message rejected: Email address is not verified. Identities that failed: shop@x.example",
            ),  # SES
            (CONTENT, "550 The from address does not match a verified Sender Identity"),  # SendGrid
            (CONTENT, "403 You are not authorized to send from that email address"),  # SendGrid
            (CONTENT, "550 From header sender domain not verified"),  # SMTP2GO
            (CONTENT, "554 5.2.252 SendAsDenied; a@x.example not allowed to send as b@x.example"),  # Exchange Online
            (CONTENT, "554 5.2.0 STOREDRV.Submission.Exception:SendAsDeniedException.MapiExceptionSendAsDenied"),
            (CONTENT, "550 5.7.60 SMTP; Client does not have permissions to send as this sender"),  # Exchange
            (CONTENT, "550 5.7.1 Client does not have permissions to send as this sender"),  # Exchange
            (CONTENT, "554 5.1.8 Sender Address Blocked"),  # Zoho
            (CONTENT, "550 5.1.8 Access denied, bad outbound sender"),  # Exchange Online
            (CONTENT, "550 5.7.750 Service unavailable. Client blocked from sending from unregistered domains"),
            (RCPT, "550 5.7.511 Access denied, banned sender"),  # Exchange Online
        ),
    ),
    (
        HELD,
        "RFC 5321, 4.1.4, RFC 7372, 3.3: our host's name",
        (
            (RCPT, "504 5.5.2 <web-1>: Helo command rejected: need fully-qualified hostname"),  # Postfix
            (RCPT, "450 4.7.1 <web-1>: Helo command rejected: Host not found"),  # Postfix
            (RCPT, "554 5.7.1 <x.example>: Helo command rejected: Access denied"),  # Postfix
            (RCPT, "501 5.5.2 <web_1>: Helo command rejected: Invalid name"),  # Postfix
            (RCPT, "550 Access denied - Invalid HELO name (See RFC2821 4.1.1.1)"),  # cPanel
            (RCPT, "550 5.7.506 Access Denied, Bad HELO"),  # Exchange Online
            (RCPT, "555 helohost error."),  # NetEase
            (RCPT, "450 4.7.25 Client host rejected: cannot find your hostname, [192.0.2.1]"),  # Postfix
            (RCPT, "450 4.7.1 Client host rejected: cannot find your reverse hostname, [192.0.2.1]"),  # Postfix
            (RCPT, "550 5.7.1 <x@y.example>... Fix reverse DNS for 192.0.2.1"),  # sendmail
            (RCPT, "550 reverse DNS lookup for host [192.0.2.1] failed permanently"),
            (RCPT, "550 We do not accept mail from hosts with dynamic IP or generic DNS PTR-records"),  # Mail.ru
            (CONTENT, "550 5.7.25 The IP address sending this message does not have a PTR record"),  # Gmail
            (CONTENT, "550 5.7.1 This message does not meet IPv6 sending guidelines regarding PTR records"),  # Gmail
            (RCPT, "550 Sender IP reverse lookup rejected"),  # IceWarp
        ),
    ),
    (
        HELD,
        "RFC 3463, 3.8 (7.1, filtering by host): our address, on a list or with a bad name",
        (
            (RCPT, "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org"),  # Postfix
            (RCPT, "454 4.7.1 Service unavailable; Client host [192.0.2.1] blocked using rbl.example"),  # Postfix
            (RCPT, "550 5.7.1 Service unavailable; client [192.0.2.1] blocked using rbl.example"),  # postscreen
            (CONTENT, "554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using rbl.example"),
            (RCPT, "550 5.7.1 <x@y.example>... Rejected: 192.0.2.1 listed at sbl-xbl.spamhaus.org"),  # sendmail
            (RCPT, "550 5.7.1 <x@y.example>... Rejected: IP in SpamCop blacklist, see: http://spamcop.net/bl.shtml"),
            (RCPT, "550 JunkMail rejected - x.example [192.0.2.1] is in an RBL on rbl.example"),  # cPanel
            (RCPT, "550 rejected because 192.0.2.1 is in a black list at zen.spamhaus.org"),  # Exim
            (RCPT, "553 5.7.1 [BL21] Connections not accepted from 192.0.2.1, because the ip is in Spamhaus's list"),
            (RCPT, "553 5.7.2 [TSS09] All messages from 192.0.2.1 will be permanently deferred"),  # Yahoo
            (
                RCPT,
                (
                    "550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent. Please contact your Internet "
                    "service provider since part of their network is on our block list (S3140)"
                ),
            ),  # Outlook.com
            (RCPT, "550 5.7.606 Access denied, banned sending IP [192.0.2.1]"),  # Exchange Online
            (CONTENT, "550 5.7.708 Access denied, traffic not accepted from this IP"),  # Exchange Online
            (RCPT, "550 5.7.510 Access denied, y.example does not accept email over IPv6"),  # Exchange Online
            (CONTENT, "550 5.7.1 This message is suspicious due to the very low reputation of the sending IP address"),
            (CONTENT, "550 5.7.1 This message is suspicious due to the very low reputation of the sending domain"),
            (CONTENT, "550 5.7.28 There is an unusual rate of unsolicited mail originating from your IP address"),
            (RCPT, "553 5.3.0 DNSBL:RBL 521< 192.0.2.1 >_is_blocked"),  # AT&T
            (RCPT, "550 5.7.0 Blocked - see https://support.proofpoint.com/dnsbl-lookup.cgi?ip=192.0.2.1"),  # Apple
            (RCPT, "550 5.7.1 Mail from IP 192.0.2.1 was rejected due to listing in Spamhaus SBL"),  # Apple
            (RCPT, "550 Email blocked by SPAMHAUS - to unblock see http://www.spamhaus.org/lookup"),
            (RCPT, "550 local CT IP Reputation - (reject)"),  # Mimecast
            (RCPT, "554 Host network not allowed"),  # Mimecast
            (RCPT, "550 https://www.spamhaus.org/query/ip/192.0.2.1"),
            (RCPT, "550 Rejected 192.0.2.1 found in dnsbl.sorbs.net"),
            (RCPT, "554 192.0.2.1 found on one or more DNSBLs, see http://postmaster.comcast.net/smtp-error-codes.php"),
            (RCPT, "550 Email blocked by cbl.abuseat.org"),
            (RCPT, "554 Blocklisting in effect"),
            (
                RCPT,
                "554 5.7.1 <x@y.example>: Recipient address rejected: Denied by policy",
            ),  # Postfix, a policy service
            (RCPT, "550 5.2.1 Mailbox unavailable. Your IP address 192.0.2.1 is blacklisted using SPAMHAUS-XBL"),
            (RCPT, "550 Dynamic/zombied/spam IPs blocked"),
            (RCPT, "550 mwinf5c04 ME Adresse IP source bloquee pour incident de spam"),  # Orange
            (RCPT, "550 5.1.1 IP blacklisted"),
            (
                RCPT,
                "554 This IP has been temporarily blocked for attempting to mail too many invalid recipients. IB112",
            ),
            (RCPT, "550 5.7.1 Our system has detected an unusual amount of unsolicited email from your address"),
            (RCPT, "550 black ip."),  # NetEase
            (RCPT, "554 rbl deny."),  # NetEase
            (RCPT, "556 remote ip check error."),  # NetEase
            (RCPT, "550 Requested mail action not taken: Invalid IP"),  # Coremail
            (RCPT, "550 IP is rejected"),  # Coremail
            (RCPT, "554 5.7.1 ACL dns_rbl; Client host [192.0.2.1] blocked using rbl.example"),  # mailcow and others
            (RCPT, "550 5.7.1 Sorry, your remotehost looks suspiciously like spammer"),
            (RCPT, "550 Your network is temporary blacklisted"),
            (RCPT, "550 You are not allowed to connect"),
            (RCPT, "550 5.7.0 Your server IP address is in the SORBS database"),
            (RCPT, "554 5.7.1 rejected due to poor reputation of the sending MTA"),
            (ENTRY, "554 IP=192.0.2.1 - None/bad reputation. Ask your postmaster for help"),  # T-Online
            (ENTRY, "554-No SMTP service\n554 Bad DNS PTR resource record"),  # GMX
        ),
    ),
    (
        HELD,
        "RFC 7208, 8.4, RFC 7372, 3.2: SPF judges our host and our sender's domain, not the content",
        (
            (RCPT, "550 5.7.23 <x@y.example>: Recipient address rejected: Message rejected due to: SPF fail"),
            (
                RCPT,
                "550 5.7.1 <x@y.example>: Recipient address rejected: Please see http://www.openspf.org/Why?s=mfrom",
            ),
            (RCPT, "550 <shop@x.example>: Reject due to SPF policy. The originating IP is not permitted"),  # GMX
            (RCPT, "550 5.5.0 SPF: x.example is not allowed to send mail. LPN004_401"),  # La Poste
            (RCPT, "550 SPF check failed"),  # Tencent
            (CONTENT, "550 5.7.23 The message was rejected because of Sender Policy Framework violation"),  # Exchange
            (RCPT, "550 SPF Sender Invalid - envelope rejected"),  # Mimecast
            (RCPT, "550 5.7.1 Please inspect your SPF settings, and try again. IB508"),  # GoDaddy
        ),
    ),
    (
        HELD,
        "RFC 3463, 3.5 (4.5), 3.6 (5.3): how much we may send",
        (
            (MAIL, "550 5.4.5 Daily user sending limit exceeded"),  # Gmail
            (CONTENT, "550 5.4.5 Daily SMTP relay limit exceeded for user"),  # Google's relay
            (CONTENT, "550 5.7.1 Daily SMTP relay sending limit exceeded for customer"),  # Google's relay
            (RCPT, "450 4.2.1 Peak SMTP relay limit exceeded for customer"),  # Google's relay
            (MAIL, "454 Throttling failure: Maximum sending rate exceeded"),  # SES
            (CONTENT, "454 Throttling failure: Daily message quota exceeded"),  # SES
            (CONTENT, "550 5.4.6 Unusual sending activity detected. Please try after sometime"),  # Zoho
            (RCPT, "550 5.4.6 mail rate exceeded limit"),  # Zoho
            (RCPT, "554 5.7.1 <x@y.example>: Recipient address rejected: sender quota reached"),  # Postfix, policyd
            (
                RCPT,
                "450 4.7.1 <x@y.example>: Recipient address rejected: Sender rate limit exceeded",
            ),  # Postfix, policyd
            (RCPT, "550 Domain x.example has exceeded the max emails per hour (500/500 (100%)) allowed"),  # cPanel
            (CONTENT, "550 Domain x.example has exceeded the max defers and failures per hour (5/5 (100%)) allowed"),
            (CONTENT, '451 4.7.1 Ratelimit "user" exceeded'),  # Rspamd, of the login
            (CONTENT, '451 4.7.1 Ratelimit "hostinger_out_ratelimit" exceeded'),  # Rspamd, a rule of Hostinger's
            (
                CONTENT,
                "450 4.7.1 <END-OF-MESSAGE>: End-of-data rejected: Number messages per hour exceeded. Error:RATE_MSG",
            ),  # Postfix, a policy service
            (RCPT, "452 Too many recipients received this hour"),  # SendGrid
            (RCPT, "452 4.5.3 Error: too many recipients"),  # Postfix
            (RCPT, "450 4.7.1 Error: too many recipients from 192.0.2.1"),  # Postfix
            (RCPT, "550 5.1.1 <x@y.example> You have sent to too many recipients this hour"),
            (RCPT, "550 This IP has sent too many messages this hour. IB504"),  # GoDaddy
            (RCPT, "550 This message has exceeded the max number of messages per session. IB510"),  # GoDaddy
            (MAIL, "450 4.7.1 Error: too much mail from 192.0.2.1"),  # Postfix
            (CONTENT, "550 5.2.2 Submission quota exceeded"),  # Exchange Online
            (CONTENT, "550 5.1.90 Your message can't be sent because you've reached your daily limit for recipients"),
            (CONTENT, "550 5.7.508 Access denied, [2001:db8::1] has exceeded permitted limits within /64 range"),
            (CONTENT, "550 5.7.232 Your message can't be sent because your trial tenant has exceeded its daily limit"),
            (CONTENT, "432 4.3.2 STOREDRV.ClientSubmit; sender thread limit exceeded"),  # Exchange Online
            (RCPT, "550 Exceeding outbound thread limit"),  # Mimecast
            (RCPT, "554 sorry, too many emails (#5.7.1)"),  # OVH
            (DATA, "554 5.7.1 <DATA>: Data command rejected: only 10 messages per day"),  # Postfix, policyd
            (CONTENT, "552 Message would take you over your relay quota of 500 Current quota used: 487"),  # GoDaddy
            (RCPT, "550 User has exceeded outgoing email quota"),
            (RCPT, "451-Requested action aborted\n451 Mails per session limit"),  # IONOS
            (RCPT, "550 IP frequency limited"),  # Tencent
            (RCPT, "550 Sender frequency limited"),  # Tencent
            (
                RCPT,
                "550 5.7.1 User 'shop' has exceeded its 24-hour sending limit. Relay quota will reset in 10.6 hours",
            ),
            (RCPT, "450-Requested mail action not taken: mailbox unavailable\n450 Mail send limit exceeded"),  # GMX
        ),
    ),
    (
        HELD,
        "RFC 5321, 4.3.5, RFC 3463, 3.4: the server is not fit for any e-mail now",
        (
            (MAIL, "452 4.3.1 Insufficient system resources"),  # Exchange
            (MAIL, "451 Temporary local problem - please try later"),  # Exim
            (RCPT, "451 4.3.5 Server configuration error"),  # Postfix
            (RCPT, "452 4.3.1 Insufficient system storage"),  # Postfix
            (RCPT, "452 Requested action not taken: insufficient system storage"),  # RFC 5321, 4.2.3
            (RCPT, "451 4.3.2 Please try again later"),
            (RCPT, "521 5.3.2 y.example does not accept mail"),  # RFC 7504
        ),
    ),
    (
        AWAY,
        "RFC 5321, 3.8: the server leaves before it knows the e-mail",
        (
            (MAIL, "421 4.7.0 mx.y.example Error: too many connections from 192.0.2.1"),  # Postfix
            (MAIL, "421 4.3.2 Connection rate limit exceeded."),  # sendmail
            (MAIL, "421 Max message per connection reached, closing transmission channel"),  # Yahoo
            (ENTRY, "421 4.3.2 Too many open connections."),  # sendmail
            (ENTRY, "451 Authentication failed: Maximum credits exceeded"),  # SendGrid
        ),
    ),
)
