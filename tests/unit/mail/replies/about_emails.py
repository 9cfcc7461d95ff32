"""Replies that servers in use give because of the recipient, the recipient's domain or the content.

As in about_us.py: each group has its verdict and the reason, each reply the step to which it was seen and who says so.
"""

from weir.workers.mail.transports.replies import ReplyVerdict, SmtpStep

ENTRY, MAIL, RCPT, DATA, CONTENT = SmtpStep
GO_ON, LATER, DOMAIN_LATER, NEVER, HELD, AWAY, UNCLEAR, DOUBTFUL = ReplyVerdict

ABOUT_EMAILS: tuple[tuple[ReplyVerdict, str, tuple[tuple[SmtpStep, str], ...]], ...] = (
    (
        NEVER,
        "RFC 3463, 3.2 (1.1 to 1.6, 1.10), RFC 5321, 4.2.2 (550): there is no such address",
        (
            (RCPT, "550 5.1.1 The email account that you tried to reach does not exist"),  # Gmail
            (RCPT, "550 5.1.1 <x@y.example>: Recipient address rejected: User unknown in local recipient table"),
            (RCPT, "550 5.1.1 <x@y.example>: Recipient address rejected: User unknown in relay recipient table"),
            (RCPT, "554 5.7.1 <x@y.example>: Recipient address rejected: User unknown"),  # Postfix, an access table
            (
                RCPT,
                (
                    "550 5.1.1 <x@y.example>: Recipient address rejected: undeliverable address: "
                    "host mx.y.example[192.0.2.7] said: 550 No such user (in reply to RCPT TO command)"
                ),
            ),  # Postfix
            (RCPT, "550 5.1.1 <x@y.example>... User unknown"),  # sendmail
            (RCPT, "550 Unrouteable address"),  # Exim
            (RCPT, "550 No Such User Here"),  # cPanel
            (RCPT, "550 restricted characters in address"),  # Exim
            (RCPT, "550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient x@y.example not found by SMTP address lookup"),
            (RCPT, "550 5.4.1 Recipient address rejected: Access denied"),  # Exchange Online
            (RCPT, "550 5.5.0 Requested action not taken: mailbox unavailable"),  # Outlook.com
            (
                RCPT,
                (
                    "550-Requested action not taken: mailbox unavailable\n"
                    "550 For explanation visit https://postmaster.gmx.net/en/error-messages?ip=192.0.2.1&c=hi"
                ),
            ),  # GMX
            (
                RCPT,
                "550 Message was not accepted -- invalid mailbox. Local mailbox is unavailable: user not found",
            ),  # Mail.ru
            (RCPT, "554 30 Sorry, your message to x@y.example cannot be delivered. This mailbox is disabled"),  # Yahoo
            (RCPT, "550 5.2.1 The email account that you tried to reach is inactive"),  # Gmail
            (CONTENT, "554 delivery error: dd This user doesn't have a yahoo.com account (x@y.example)"),  # Yahoo
            (CONTENT, "552 1 Requested mail action aborted, mailbox not found"),  # Yahoo
            (RCPT, "550 5.1.1 unknown or illegal alias: x@y.example"),  # Apple
            (RCPT, "550 5.1.6 recipient no longer on server: x@y.example"),  # Apple
            (RCPT, "511 sorry, no mailbox here by that name (#5.1.1 - chkuser)"),  # qmail
            (RCPT, "550 sorry, no mailbox here by that name. (#5.7.17)"),  # qmail
            (RCPT, "501 5.1.3 Bad recipient address syntax"),  # Postfix
            (RCPT, "501 Invalid RCPT TO address provided"),  # SES
            (RCPT, "501 5.1.5 Recipient address reserved by RFC 2606"),  # Exchange
            (RCPT, "550 Mailbox not found or access denied"),  # Tencent
            (RCPT, "553 5.1.3 The recipient address is not a valid RFC 5321 address"),  # Gmail
            (RCPT, "550 5.1.2 <x@y.example>: Recipient address rejected: Domain not found"),  # Postfix
            (RCPT, "553 5.1.2 We weren't able to find the recipient domain"),  # Gmail
            (
                RCPT,
                "556 5.1.10 <x@y.example>: Recipient address rejected: Domain y.example does not accept mail (nullMX)",
            ),
            (RCPT, "550 user is locked."),  # NetEase
            (RCPT, "550 User suspended"),  # Coremail
            (RCPT, "550 5.1.1 Mailbox is inactive"),
            (RCPT, "550 5.5.0 Le compte du destinataire est bloque. The recipient account isblocked. LPN007_426"),
            (RCPT, "550 kim (x@y.example) not listed in Domino Directory"),  # Domino
            (RCPT, "550 5.1.1 User unknown. [IP 192.0.2.1]"),
            (RCPT, "550 Invalid recipient: <x@y.example>"),  # OpenSMTPD
            (DATA, "554 5.5.1 Error: no valid recipients"),  # Postfix
            (RCPT, "553 5.6.7 Must declare SMTPUTF8 to permit unicode address"),  # Postfix
            (RCPT, "550 5.1.1 sales.sender.example: unknown user: kim"),  # a host whose name has a word of ours
            (RCPT, "550 5.7.17 Mailbox owner has changed"),  # RFC 7293
        ),
    ),
    (
        NEVER,
        "RFC 3463, 3.8 (7.1, filtering by recipient): this recipient's own will",
        (
            (RCPT, "550 5.7.507 Access denied, rejected by recipient"),  # Exchange Online
            (RCPT, "550 5.7.505 Access denied, banned recipient"),  # Exchange Online
            (RCPT, "550 5.7.504 Recipient address rejected: Access denied"),  # Exchange Online
            (RCPT, "554 5.7.1 <x@y.example>: Recipient address rejected: Access denied"),  # Postfix, an access table
            (CONTENT, "550 5.7.133 RESOLVER.RST.SenderNotAuthenticatedForGroup; authentication required"),  # Exchange
            (
                CONTENT,
                "550 5.7.124 RESOLVER.RST.SenderNotInAllowedList; Sender not in allowed-senders list",
            ),  # Exchange
            (CONTENT, "550 5.7.1 RESOLVER.RST.AuthRequired; authentication required"),  # Exchange
            (CONTENT, "550 5.7.1 RESOLVER.RST.NotAuthorized; not authorized"),  # Exchange
            (RCPT, "550 5.7.1 You have been blocked by the recipient"),
            (RCPT, "550 User refuses to receive this mail"),
            (CONTENT, "550 5.7.1 Refused due to recipient preferences"),  # Facebook
            (CONTENT, "550 Mail is rejected by recipients"),  # Tencent
            (RCPT, "550 5.7.1 You are not allowed to post to this mailing list"),
            (RCPT, "550 5.7.1 Policy rejection on the target address"),  # Yandex
            (RCPT, "553 sorry, your envelope recipient has been denied (#5.7.1)"),  # qmail
        ),
    ),
    (
        NEVER,
        "RFC 1870, 6.1, RFC 6531, 3.5, RFC 5321, 6.3: this e-mail's size, letters or way",
        (
            (MAIL, "552 5.3.4 Message size exceeds fixed limit"),  # Postfix
            (MAIL, "552 Message size exceeds maximum permitted"),  # Exim
            (MAIL, "553 5.6.7 Must declare SMTPUTF8 to permit unicode address"),  # Postfix
            (MAIL, "555 5.5.4 Unsupported option: SMTPUTF8"),  # Postfix
            (MAIL, "501 5.5.4 Bad message size syntax"),  # Postfix
            (CONTENT, "552 5.2.3 Your message exceeded Google's message size limits"),  # Gmail
            (CONTENT, "552 5.3.4 The number of attachments exceeds Google's limit of 500 attachments"),  # Gmail
            (CONTENT, "550 5.3.4 ROUTING.SizeLimit; message size exceeds fixed maximum size for route"),  # Exchange
            (CONTENT, "552 5.3.4 Error: message file too big"),  # Postfix
            (CONTENT, "554 5.4.6 Message exceeded 50 hops, this may indicate a mail loop"),  # Gmail
            (CONTENT, "554 5.4.0 Error: too many hops"),  # Postfix
            (CONTENT, "500 Line limit exceeded"),
            (CONTENT, '550 Too many "Received" headers - suspected mail loop'),  # Exim
            (CONTENT, "554 5.6.0 Mail message is malformed. Not accepted"),  # Gmail
            (CONTENT, "550 5.7.1 Messages missing a valid Message-ID: header are not accepted"),  # Gmail
        ),
    ),
    (
        NEVER,
        "RFC 5321, 4.2.1 and 7.8, RFC 3463, 3.7 and 3.8: this content",
        (
            (CONTENT, "550 5.7.1 [192.0.2.1] Our system has detected that this message is likely unsolicited mail"),
            (CONTENT, "554 5.7.1 Message rejected under suspicion of SPAM"),  # Yandex
            (CONTENT, "550 High probability of spam"),
            (CONTENT, "550 This message was classified as SPAM and may not be delivered"),
            (CONTENT, "571 5.7.1 message classified as spam"),
            (CONTENT, "552 Message rejected by anti-spam engine."),  # NetEase
            (CONTENT, "550 Your message may contain the spam contents"),
            (CONTENT, "550 Mail content denied"),  # Tencent
            (CONTENT, "550 5.7.1 This message has been rejected due to matching a prohibited domain in the body"),
            (CONTENT, "550 spam message rejected. Please visit http://help.mail.ru/notspam-support/"),  # Mail.ru
            (CONTENT, "554 5.7.1 The message matches a profile the Internet community may consider spam"),  # Apple
            (CONTENT, "552 This message has been rejected due to content judged to be spam by the community. IB212"),
            (CONTENT, "554 5.7.1 Blocked by SURBL: a URL in the body is listed on multi.surbl.org"),
            (CONTENT, "550 5.7.1 Message content rejected"),  # Postfix, header_checks
            (CONTENT, "554 5.7.9 Message not accepted for policy reasons"),  # Yahoo
            (CONTENT, "554 Message not allowed - [PH01] Email not accepted for policy reasons"),  # Yahoo
            (CONTENT, "552 5.7.1 virus Eicar detected by Zoho Mail"),  # Zoho
            (CONTENT, "550 5.7.1 virus Eicar-Test-Signature detected by ClamAV"),
            (CONTENT, "552 Virus infected message rejected. IB705"),  # GoDaddy
            (CONTENT, "552 5.7.0 This message was blocked because its content presents a potential security issue"),
            (CONTENT, "552 5.7.0 Our system detected an illegal attachment on your message"),  # Gmail
            (CONTENT, "550 Rejected by header based Anti-Spoofing policy"),  # Mimecast
        ),
    ),
    (
        NEVER,
        "RFC 7489, 10.3, RFC 7372, 3.1: DMARC and DKIM judge this content, after the dot",
        (
            (CONTENT, "550 5.7.26 Unauthenticated email from x.example is not accepted due to domain's DMARC policy"),
            (CONTENT, "550 5.7.26 This mail has been blocked because the sender is unauthenticated (SPF or DKIM)"),
            (CONTENT, "550 5.7.30 This mail has been blocked because DKIM does not pass"),  # Gmail
            (CONTENT, "554 5.7.1 Your message was rejected due to x.example's DMARC policy"),  # Apple
            (CONTENT, "554 5.7.1 [HME1] This message was blocked for failing both SPF and DKIM authentication checks"),
            (CONTENT, "550 5.7.1 Email rejected per DMARC policy for x.example"),  # Zoho
            (
                CONTENT,
                "550 5.7.509 Access denied, sending domain x.example does not pass DMARC verification",
            ),  # Exchange
            (CONTENT, "571 5.7.1 Message refused, DMARC verification Failed. OFR_517"),  # Orange
            (CONTENT, "550 5.7.9 The sender is unauthenticated: Yahoo requires to authenticate with SPF or DKIM"),
        ),
    ),
    (
        LATER,
        "RFC 5321, 4.5.3.1.10, RFC 3463, 3.3 (2.2): a full mailbox, which may be emptied",
        (
            (RCPT, "452 4.2.2 The email account that you tried to reach is over quota"),  # Gmail
            (RCPT, "552 5.2.2 <x@y.example>: user is over quota"),  # Apple
            (RCPT, "550 5.7.1 email quota exceeded"),  # Gmail
            (RCPT, "552 5.1.1 Boite du destinataire pleine. Recipient overquota. OFR_417"),  # Orange
            (RCPT, "550 user is over quota. (#5.1.1)"),  # qmail
            (RCPT, "550 <x@y.example>: Mailbox is full"),
            (RCPT, "422 4.2.2 Quota limit exceeded"),
            (RCPT, "554 5.7.1 The recipient mailbox has exceeded its disk space limit"),
            (CONTENT, "554 5.2.2 mailbox full"),  # Exchange
            (
                CONTENT,
                (
                    "552 5.2.2 This message is larger than the current system limit or the recipient's mailbox is full"
                    ". Create a shorter message body or remove attachments and try sending it again"
                ),
            ),  # Exchange
            (CONTENT, "552 Requested mail action aborted: exceeded storage allocation"),  # RFC 5321, 4.2.3
            (CONTENT, "550 mailbox is full (MTA-imposed quota exceeded while writing to file)"),  # Exim
        ),
    ),
    (
        LATER,
        "RFC 3463, 3.3 (2.1): this recipient is sent more than it takes for now",
        (
            (RCPT, "450 4.2.1 The user you are trying to contact is receiving mail too quickly"),  # Gmail
            (
                RCPT,
                "450 4.2.1 The user you are trying to contact is receiving mail at a rate that prevents more",
            ),  # Gmail
            (
                RCPT,
                "550 5.2.1 The user you are trying to contact is receiving mail at a rate that prevents more",
            ),  # Gmail
            (RCPT, "450 User is receiving mail too quickly"),  # Yahoo
            (RCPT, "450 4.2.1 The recipient has exceeded message rate limit. Try again later"),  # Yandex
            (
                CONTENT,
                "550 5.2.121 Recipient's per hour message receive limit from specific sender exceeded",
            ),  # Exchange
            (CONTENT, "550 5.2.122 Recipient's per hour message receive limit exceeded"),  # Exchange Online
            (CONTENT, "432 4.3.2 STOREDRV.Deliver; recipient thread limit exceeded"),  # Exchange
        ),
    ),
    (
        LATER,
        "RFC 6647, RFC 5321, 4.2.1: greylisting, and what passes by itself",
        (
            (
                RCPT,
                "450 4.2.0 <x@y.example>: Recipient address rejected: Greylisted, see http://postgrey.schweikert.ch",
            ),
            (RCPT, "451 4.7.1 Greylisting in action, please come back in 00:05:00"),  # milter-greylist
            (RCPT, "450 4.7.1 Client host rejected: Greylisting in action"),
            (RCPT, "451 Greylisted, please try again in 180 seconds"),
            (RCPT, "451 4.7.1 Sorry, the service is currently unavailable. Please come back later"),  # Yandex
            (RCPT, "451 Temporary local problem - please try later"),  # Exim
            (RCPT, "451 4.7.0 Temporary server error. Please try again later. PRX4"),  # Exchange Online
            (RCPT, "450 4.1.1 <x@y.example>: Recipient address rejected: unverified address: Connection timed out"),
            (RCPT, "450 Requested mail action not taken: mailbox unavailable"),  # RFC 5321, 4.2.2
            (RCPT, "452 <x@y.example> Mailbox delivery restricted by policy error"),  # Zoho
            (CONTENT, "451 4.3.0 Mail server temporarily rejected message"),  # Gmail
            (CONTENT, "451 4.7.1 Service unavailable - try again later"),  # Postfix, a milter
            (CONTENT, "451 4.3.0 Error: queue file write error"),  # Postfix
            (CONTENT, "451 Timeout - closing connection"),
            (CONTENT, "451 4.7.1 Greylisting in action, please come back later"),  # milters
        ),
    ),
    (
        DOMAIN_LATER,
        "RFC 3463, 3.5 (4.x), RFC 5248 (7.28), the large receivers' pages: the domain takes no more for now",
        (
            (CONTENT, "421 4.7.28 Gmail has detected an unusual rate of mail originating from your IP address"),
            (
                CONTENT,
                (
                    "421 4.7.0 Our system has detected an unusual rate of unsolicited mail originating from your IP "
                    "address. To protect our users from spam, mail has been temporarily rate limited. Review our Bulk "
                    "Email Senders Guidelines"
                ),
            ),  # Gmail
            (
                CONTENT,
                (
                    "421 4.7.26 This mail has been rate limited because it is unauthenticated. Gmail requires all "
                    "senders to authenticate with either SPF or DKIM"
                ),
            ),  # Gmail
            (CONTENT, "421 4.7.29 Your email has been rate limited because it was not sent over a TLS connection"),
            (
                CONTENT,
                "421 4.7.0 [TSS04] Messages from 192.0.2.1 temporarily deferred due to unexpected volume",
            ),  # Yahoo
            (CONTENT, "451 4.7.650 The mail server [192.0.2.1] has been temporarily rate limited due to IP reputation"),
            (RCPT, "451 4.7.650 The mail server [192.0.2.1] has been temporarily rate limited due to IP reputation"),
            (RCPT, "451 4.7.500 Server busy. Please try again later from [192.0.2.1]"),  # Exchange Online
            (CONTENT, "451 4.7.851 Access denied, please try again later"),  # Exchange Online
            (CONTENT, "421 4.7.1 Messages to x@y.example deferred due to excessive volume"),  # Apple
            (CONTENT, "450 4.7.1 <END-OF-MESSAGE>: End-of-data rejected: Sorry, too many requests per time unit"),
            (RCPT, "450 too frequent connects from 192.0.2.1, please try again later"),
            (RCPT, "450 4.1.2 <x@y.example>: Recipient address rejected: Domain not found"),  # Postfix
            (RCPT, "450 4.4.316 Connection refused"),  # Exchange Online
            (RCPT, "451 4.4.0 DNS resolving error"),
            (CONTENT, "451 4.4.4 Mail received as unauthenticated, incoming to a recipient domain in a hosted tenant"),
        ),
    ),
    (
        DOUBTFUL,
        "nothing says whether we are refused or the e-mail",
        (
            (RCPT, "550 #5.1.0 Address rejected."),  # IronPort
            (
                RCPT,
                "550-Requested action not taken: mailbox unavailable\n550 Failure sending mail. Try again later",
            ),  # GMX
            (CONTENT, "550 5.1.1 The recipient is temporarily unavailable"),
            (RCPT, "555 5.5.2 Syntax error"),  # Gmail
            (CONTENT, "550 5.7.1 [CS01] Message rejected due to local policy"),  # Apple
            (CONTENT, "550 5.7.1 Command rejected"),  # Postfix, a milter
            (
                CONTENT,
                "554 DT:SPM 126 smtp10,please see http://mail.163.com/help/help_spam_16.htm?ip=192.0.2.1",
            ),  # NetEase
        ),
    ),
    (
        UNCLEAR,
        "RFC 5321, 4.2.4: out of step",
        (
            (MAIL, "503 5.5.1 Error: send HELO/EHLO first"),  # Postfix
            (RCPT, "503 5.5.1 MAIL first."),  # Gmail
            (DATA, "503 valid RCPT command must precede DATA"),  # Exim
        ),
    ),
)
