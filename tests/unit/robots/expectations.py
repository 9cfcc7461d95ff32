"""What robots.txt files mean, by RFC 9309, by Google's parser and by Protego: a file, and who may fetch what.

The facts are those of the RFC's examples and of both projects' published tests, in words of our own. Where they differ
from each other, the RFC decides, and DIFFERING says so.
"""

from typing import NamedTuple


class Case(NamedTuple):
    """One file, and for each crawler the paths that it may fetch and those that it may not."""

    name: str
    text: str
    allowed: dict[str, list[str]]
    refused: dict[str, list[str]]


def case(name: str, text: str, allowed: dict[str, str], refused: dict[str, str]) -> Case:
    """Return a case; crawlers and paths are divided by blanks, and the lines of the file by a bar."""

    def by_crawler(paths: dict[str, str]) -> dict[str, list[str]]:
        return {crawler: said.split() for crawlers, said in paths.items() for crawler in crawlers.split()}

    return Case(name, "\n".join(line.strip(" ") for line in text.split("|")), by_crawler(allowed), by_crawler(refused))


PUBLIC = "User-Agent: * | Disallow: *.gif$ | Disallow: /example/ | Allow: /publications/"
RFC = [
    case(
        "5.1",
        PUBLIC + " | | User-Agent: heron | Disallow:/ | Allow:/example/page.html | Allow:/example/allowed.gif"
        " | | User-Agent: finch | User-Agent: wren | Disallow: /example/page.html | | User-Agent: owl | ",
        {
            "stork": "/ /publications/x /publications/gif /a.gif?x",
            "heron": "/example/page.html /example/allowed.gif",
            "finch wren": "/ /a.gif /example/ /publications/",
            "owl": "/ /example/ /a.gif /example/page.html",
        },
        {
            "stork": "/a.gif /x/y.gif /example/page.html /example/",
            "heron": "/ /example/ /publications/",
            "finch wren": "/example/page.html /example/page.html?x",
        },
    ),
    case(
        "5.2: the longest match",
        "User-Agent: heron | Allow: /example/page/ | Disallow: /example/page/disallowed.gif",
        {"heron": "/example/page/ /example/page/allowed.gif"},
        {"heron": "/example/page/disallowed.gif"},
    ),
    case(
        "2.2.1: groups of one name are one",
        "user-agent: heron | disallow: /foo | disallow: /bar | | user-agent: heron | disallow: /baz",
        {"heron": "/"},
        {"heron": "/foo /bar /baz"},
    ),
    case(
        "2.2.1: those that no group names",
        "user-agent: * | disallow: /foo | disallow: /bar | | user-agent: finch | disallow: /baz",
        {"heron": "/baz", "finch": "/foo /bar"},
        {"heron": "/foo /bar", "finch": "/baz"},
    ),
    case(
        "2.2.3: special characters",
        "user-agent: * | allow: / # comment | # comment | disallow: /this/path/exactly$ | disallow: /that/*/exactly",
        {"heron": "/this/path/exactly/ /that/exactly /comment"},
        {"heron": "/this/path/exactly /that/a/b/exactly /that/path/exactly/so"},
    ),
    case(
        "2.2.3: special characters that stand for themselves",
        "user-agent: * | disallow: /path/file-with-a-%2A.html | disallow: /path/foo-%24",
        {"heron": "/path/file-with-a-b.html /path/foo- /path/foo-%2524"},
        {"heron": "/path/file-with-a-*.html /path/file-with-a-%2a.html /path/foo-$ /path/foo-$bar /path/foo-%24"},
    ),
    case(
        "2.2.4: other records end no group",
        "user-agent: heron | sitemap: https://a.example/s | noindex: /old | user-agent: finch | disallow: /private",
        {"heron finch": "/", "wren": "/private"},
        {"heron finch": "/private"},
    ),
]

# Two groups, two of one name, a group that is continued, and rules before any group.
GROUPED = (
    "allow: /early/ | | user-agent: heron | disallow: / | allow: /h/ | user-agent: finch | disallow: / | allow: /f/ | "
    " |  | allow: /g/ | user-agent: wren |  | user-agent: heron | allow: /z/ | disallow: /"
)
GOOGLE = [
    case("an empty file", "", {"heron": "/ /x"}, {}),
    case("a path that is missing", "user-agent: heron | disallow: /", {}, {"heron": "/"}),
    case("a line has a colon", "user-agent: heron | disallow: /", {}, {"heron": "/x/y"}),
    case("other words say nothing", "foo: heron | bar: /", {"heron": "/x/y"}, {}),
    case("a colon may be missing", "user-agent heron | disallow /", {}, {"heron": "/x/y"}),
    case(
        "groups",
        GROUPED,
        {"heron": "/h/b /z/d", "finch": "/f/c /g/a", "wren": "/z/d"},
        {"heron": "/f/c /early/", "finch": "/z/d /early/", "wren": "/early/"},
    ),
    case(
        "other lines in a group: a known one",
        "user-agent: heron | sitemap: https://a.example/s | user-agent: * | disallow: /",
        {},
        {"heron finch": "/"},
    ),
    case(
        "other lines in a group: an unknown one",
        "user-agent: heron | unheard-of: x | user-agent: * | disallow: /",
        {},
        {"heron finch": "/"},
    ),
    *(
        case(f"the case of {key}", f"{key}: heron | {allow}: /x/ | {disallow}: /", {"heron": "/x/y"}, {"heron": "/a/b"})
        for key, allow, disallow in (
            ("USER-AGENT", "ALLOW", "DISALLOW"),
            ("user-agent", "allow", "disallow"),
            ("uSeR-aGeNt", "AlLoW", "dIsAlLoW"),
        )
    ),
    *(
        case(f"{name}: up to the first blank", f"User-Agent: {name} | Allow: /x/ | Disallow: /", said, refused)
        for name in ("HERON GREY", "heron grey", "HeRoN gReY")
        for said, refused in [({"heron HERON": "/x/y"}, {"heron HERON": "/a/b"})]
    ),
    case(
        "up to the first blank, and others",
        "User-Agent: * | Disallow: / | User-Agent: Heron Grey | Allow: /x/ | Disallow: /",
        {"Heron": "/x/y"},
        {"Heron": "/a", "Grey": "/x/y"},
    ),
    case("* in front", "user-agent: * | allow: / | user-agent: heron | disallow: /", {"finch": "/x"}, {"heron": "/x"}),
    case(
        "no group at all",
        "user-agent: heron | allow: / | user-agent: finch | disallow: / | user-agent: wren | disallow: /",
        {"owl heron": "/x/y"},
        {"finch wren": "/x/y"},
    ),
    case("the case of paths", "user-agent: heron | disallow: /x/", {"heron": "/X/y"}, {"heron": "/x/y"}),
    case("longest: refused", "user-agent: a | disallow: /x/page.html | allow: /x/", {}, {"a": "/x/page.html"}),
    case(
        "longest: allowed",
        "user-agent: a | allow: /x/page.html | disallow: /x/",
        {"a": "/x/page.html"},
        {"a": "/x/"},
    ),
    case("equal: nothing", "user-agent: a | disallow: | allow: ", {"a": "/x"}, {}),
    case("equal: all", "user-agent: a | disallow: / | allow: /", {"a": "/x"}, {}),
    case("equal: one", "user-agent: a | disallow: /x | allow: /x | disallow: /x", {"a": "/x"}, {}),
    case("with a slash", "user-agent: a | disallow: /x | allow: /x/", {"a": "/x/"}, {"a": "/x"}),
    case("longest: *", "user-agent: a | allow: /page | disallow: /*.html", {"a": "/page"}, {"a": "/page.html"}),
    case(
        "longest: not *",
        "user-agent: a | allow: /x/page. | disallow: /*.html",
        {"a": "/x/page.html"},
        {"a": "/x/y.html"},
    ),
    case(
        "what is not said in one's own group",
        "User-agent: * | Disallow: /x/ | User-agent: a | Disallow: /y/",
        {"a": "/x/page", "b": "/y/page"},
        {"a": "/y/page", "b": "/x/page"},
    ),
    case(
        "a URL in a query",
        "User-agent: a | Disallow: / | Allow: /foo?qux=taz&baz=http://foo.example?tar&par",
        {"a": "/foo?qux=taz&baz=http://foo.example?tar&par"},
        {"a": "/foo?qux=taz"},
    ),
    case("beyond ASCII", "User-agent: a | Disallow: / | Allow: /x/ツ", {"a": "/x/%E3%83%84"}, {"a": "/x/%E3%83"}),
    case("escaped", "User-agent: a | Disallow: / | Allow: /x/%E3%83%84", {"a": "/x/%E3%83%84"}, {"a": "/x/"}),
    case("without need", "User-agent: a | Disallow: / | Allow: /x/%62%61%7A", {"a": "/x/%62%61%7A"}, {"a": "/x/ba"}),
    case(
        "* in the middle",
        "User-agent: a | Disallow: /foo/bar/quz | Allow: /foo/*/qux",
        {"a": "/foo/quz /foo//quz /foo/bax/quz"},
        {"a": "/foo/bar/quz"},
    ),
    case(
        "$ at the end",
        "User-agent: a | Disallow: /foo/bar$ | Allow: /foo/bar/qux",
        {"a": "/foo/bar/qux /foo/bar/ /foo/bar/baz"},
        {"a": "/foo/bar"},
    ),
    case(
        "comments",
        "User-agent: a | # Disallow: / | Disallow: /foo/quz#qux | Allow: /",
        {"a": "/foo/bar"},
        {"a": "/foo/quz"},
    ),
    case(
        "the page of a folder",
        "User-Agent: * | Allow: /open/index.html | Disallow: /",
        {"a": "/open/ /open/index.html"},
        {"a": "/open/index.htm /other /open/x"},
    ),
    case(
        "a long line",
        "user-agent: a | disallow: /x/" + "a" * 9_000 + "/qux",
        {"a": "/fux /x/" + "a" * 7_000},
        {"a": "/x/" + "a" * 9_000 + "/qux"},
    ),
    *(
        case(
            rule,
            f"user-agent: a | disallow: / | allow: {rule}",
            {"a": "/fish /fish.html /fish/salmon.html /fishheads /fishheads/y.html /fish.html?id=any"},
            {"a": "/bar /Fish.asp /catfish /?id=fish"},
        )
        for rule in ("/fish", "/fish*")
    ),
    case(
        "/fish/",
        "user-agent: a | disallow: / | allow: /fish/",
        {"a": "/fish/ /fish/salmon /fish/?salmon /fish/salmon.html /fish/?id=any"},
        {"a": "/bar /fish /fish.html /Fish/Salmon.html"},
    ),
    case(
        "/*.php",
        "user-agent: a | disallow: / | allow: /*.php",
        {"a": "/f.php /d/f.php /d/f.php?x //d/any.php.f.html /f.php/ /index?f=f.php/"},
        {"a": "/bar /php/ /index?php /windows.PHP"},
    ),
    case(
        "/*.php$",
        "user-agent: a | disallow: / | allow: /*.php$",
        {"a": "/f.php /d/f.php"},
        {"a": "/bar /f.php?x /f.php/ /f.php5 /php/ /f?php /aaaphpaaa //windows.PHP"},
    ),
    case(
        "/fish*.php",
        "user-agent: a | disallow: / | allow: /fish*.php",
        {"a": "/fish.php /fishheads/catfish.php?x"},
        {"a": "/bar /Fish.PHP"},
    ),
    case("order: p", "user-agent: a | allow: /p | disallow: /", {"a": "/page"}, {"a": "/x"}),
    case("order: equal", "user-agent: a | allow: /folder | disallow: /folder", {"a": "/folder/page"}, {}),
    case("order: *", "user-agent: a | allow: /page | disallow: /*.htm", {}, {"a": "/page.htm"}),
    case("order: $", "user-agent: a | allow: /$ | disallow: /", {"a": "/"}, {"a": "/page.html"}),
    *(
        case(
            f"lines that end with {ends!r}",
            ends.join(["User-Agent: a", "Allow: /some/path", "User-Agent: b", "", "", f"Disallow: /{last}"]),
            {"a": "/some/path /x"},
            {"b": "/x"},
        )
        for ends, last in (("\n", "\n"), ("\r\n", "\r\n"), ("\r", "\r"), ("\n", ""), ("\r\n", ""))
    ),
    case(
        "lines that end in several ways",
        "User-Agent: a\nAllow: /p\r\nUser-Agent: b\n\r\n\nDisallow: /",
        {"a": "/x"},
        {"b": "/x"},
    ),
    case("a byte order mark", "\ufeffUser-Agent: a\nDisallow: /", {}, {"a": "/x"}),
    case("a mark in the middle", "User-Agent: a\n\ufeffDisallow: /x\nDisallow: /y", {"a": "/x"}, {"a": "/y"}),
]

STARRED = (
    "User-agent: a1 | Disallow:  /foo* | User-agent: a2 | Disallow:  /foo*/bar.html | User-agent: a3 | Disallow:  *m | "
    "User-agent: a4 | Allow:  /foo/bar.html | Disallow: * | User-agent: a5 | Disallow:  /foo*/*bar.html | "
    "User-agent: a6 | Allow:  /foo$ | Disallow:  /foo | User-agent: a7 | Allow: *****************/****.js"
)
DRAFT = (
    "User-agent: unhip | Disallow: / | | User-agent: crawler | User-agent: excite | Disallow: | | User-agent: * | "
    "Disallow: /org/plans.html | Allow: /org/ | Allow: /serv | Allow: /~mak | Disallow: /"
)
SPELT = " | ".join(
    f"User-agent: bot{letter} | Allow: {rule} | Disallow: /"
    for letter, rule in zip(
        "abcdefgh",
        ["/tap", "/tap/", "/a%3cd.html", "/a%3Cd.html", "/a%2fb.html", "/a/b.html", "/%7ejoe/index.html", "/~joe/i"],
        strict=True,
    )
)
PROTEGO = [
    case(
        "with other lines",
        "User-agent: *  | Disallow: /disallowed  | Allow: /allowed  | Crawl-delay: 10 | Disallow: /d$",
        {"x": "/allowed /abc/d"},
        {"x": "/disallowed /d"},
    ),
    case(
        "misspelt",
        "User-agent: * | Disallow: /one | Dissallow: /two | Dissalow: /three | Disalow: /four | Diasllow: /five | "
        "Disallaw: /six",
        {"x": "/seven"},
        {"x": "/one /two /three /four /five /six"},
    ),
    *(
        case(f"escapes of {rule}", f"User-agent: * | Disallow: / | Allow: {rule}", {"x": "/a<d.html /a%3cd.html"}, {})
        for rule in ("/a%3cd.html", "/a%3c*", "/a<d.html", "/a<*")
    ),
    case("parameters", "User-agent: * | Disallow: /path;params?query", {"x": "/path"}, {"x": "/path;params?query"}),
    case("a bare ?", "User-agent: * | Disallow: /?", {"x": "/"}, {"x": "/?query"}),
    case("a bare ;", "User-agent: * | Disallow: /;", {"x": "/"}, {"x": "/;params"}),
    case(
        "* and $",
        "User-agent: first | Disallow: /disallowed/*/end$ | Disallow: /one*work | | User-agent: second | "
        "Allow: /*allowed | Disallow: /",
        {
            "first": "/disallowed /disallowed/xyz/endinglater /ne_does_work /one_does_wor",
            "second": "/allowed /is_still_allowed /is_allowed_too",
        },
        {"first": "/disallowed/xyz/end /disallowed/abc/end /oneworks /one_works /one/works /one_does_work"},
    ),
    case(
        "many *",
        STARRED,
        {
            "a1 a2 a4x": "/fo.html",
            "a2": "/food/xyz.html",
            "a3": "/foo /foo/bar.txt",
            "a4": "/foo/bar.html",
            "a5": "/food/rebarf.html",
            "a6": "/foo",
            "a7": "/xyz/foo.js /inlife/daily/",
        },
        {
            "a1": "/foo.html /food /foo/bar.html",
            "a2": "/foo/bar.html /food/bar.html /foo/a/b/c/x/y/z/bar.html",
            "a3": "/foo.htm /foo.html /foom /moo /foo/bar.html",
            "a4": "/fo.html /foo.html /foo /foo/bar.txt",
            "a5": "/foo/bar.html /food/rebar.html /foo/a/b/c/rebar.html /foo/a/b/c/bar.html",
            "a6": "/foo/ /foo/bar.html /fooey",
        },
    ),
    case(
        "beyond ASCII in rules",
        "User-Agent: * | Disallow: /wiki/K%C3%A4ytt%C3%A4j%C3%A4: | Disallow: /wiki/Keskustelu_käyttäjästä:",
        {"x": "/wiki/K"},
        {"x": "/wiki/K%C3%A4ytt%C3%A4j%C3%A4: /wiki/Käyttäjä: /wiki/Keskustelu_k%c3%a4ytt%c3%a4j%c3%a4st%c3%a4:"},
    ),
    case(
        "without a name",
        "Disallow: /early | Allow: /early/exception | Crawl-delay: 5.2 | User-Agent: a | Disallow: /late",
        {"a b": "/early", "b": "/late"},
        {"a": "/late"},
    ),
    case(
        "* in the middle of the file",
        "User-Agent: robot | Disallow: /ro | | User-Agent: * | Disallow: /all | | User-Agent: a | Disallow: /own",
        {"a robot": "/all"},
        {"b": "/all", "robot": "/ro", "a": "/own"},
    ),
    case(
        "any case of names",
        "User-Agent: heron | Disallow: /heron | | User-Agent: * | Disallow: /all",
        {"HERon heron hErOn": "/all"},
        {"HERon heron hErOn": "/heron"},
    ),
    case(
        "two names",
        "User-Agent: one | User-Agent: two | Disallow: /both | User-Agent: * | Disallow: /others",
        {"one two": "/others"},
        {"one two": "/both", "three": "/others"},
    ),
    case(
        "comments anywhere",
        "# 1 | User-Agent: one # 2 | # 3 | User-Agent: two | Disallow: /x | # Disallow: /y | # 4 | User-Agent: * | "
        "Disallow: /all",
        {"one two": "/y /all"},
        {"one two": "/x", "three": "/all"},
    ),
    *(
        case(
            line,
            f"User-Agent: one | Disallow: /one | {line} | User-Agent: two | Disallow: /two",
            {"one": "/two", "two": "/one"},
            {"one": "/one", "two": "/two"},
        )
        for line in ("Harry: Potter", "Harry Potter")
    ),
    case("empty rules", "User-Agent: one | Disallow: | | User-Agent: two | Allow:", {"one two": "/x"}, {}),
    case("an empty group", "User-Agent: a | Disallow: / | User-Agent: b", {"b": "/x"}, {"a": "/x"}),
    case(
        "1994",
        "User-agent: * | Disallow: /cyberworld/map/ # infinite | Disallow: /tap/ # soon | Disallow: /foo.html",
        {"x": "/ /foo.htm /foo.shtml /cyberworld/index.html"},
        {"x": "/foo.html /foo.htmlx /tap/foo.html /cyberworld/map/1"},
    ),
    case(
        "1996: spellings",
        SPELT,
        {
            "bota": "/tap.html /tap /tap/a.html",
            "botb": "/tap/ /tap/a.html",
            "botc botd": "/a%3cd.html /a%3Cd.html",
            "bote": "/a%2fb.html",
            "botf": "/a/b.html",
            "botg": "/~joe/index.html",
            "both": "/%7Ejoe/index.html",
        },
        {"botb": "/tap", "bote": "/a/b.html", "botf": "/a%2fb.html"},
    ),
    case(
        "1996: the example",
        DRAFT,
        {
            "crawler excite": "/ /index.html /org/plans.html /%7Ejim/j.html /x.gif",
            "x": "/server.html /services/fast.html /org/about.html /%7Emak/mak.html",
        },
        {
            "unhip": "/ /index.html /server.html /org/about.html /%7Emak/mak.html",
            "x": "/ /index.html /x.gif /org/plans.html /%7Ejim/j.html",
        },
    ),
    case("an empty rule", "User-agent: * | Disallow:  / | | User-agent: a | Disallow:", {"a": "/ /b"}, {"x": "/ /b"}),
    case("* in a name", "user-agent: heron* | disallow: /mine", {"x": "/mine"}, {"heron": "/mine"}),
    case(
        "$ in the middle",
        "user-agent: a | disallow: /x$/abc | disallow: /y/abc$ | disallow: /x*x$/abc | disallow: /y*y/abc$",
        {"a": "/y/abcdef /yabcy/abcdef"},
        {"a": "/x$/abcdef /x%24/abcdef /y/abc /xabcx$/abcdef /xabcx%24/abcdef /yabcy/abc"},
    ),
    case(
        "escaped * and $",
        "user-agent: a | disallow: /x/abc%24 | disallow: /x%2Ax/abc",
        {"a": "/x/abc /xabcx/abc"},
        {"a": "/x/abc$abc /x/abc$ /x*x/abc /x*x/abcdef"},
    ),
    case("* for itself", "user-agent: a | disallow: /x*x/abc", {}, {"a": "/x*x/abc /xx/abc"}),
    case("a whole URL", "user-agent: * | disallow: http://a.example/", {"x": "/"}, {}),
    case(
        "two slashes",
        "User-Agent: * | Disallow: //folder/*",
        {"x": "/ /folder /folder/ /folder/page //folder"},
        {"x": "//folder/page"},
    ),
    case("* in a query", "User-agent: * | Disallow: /*s=", {"x": "/ /s/"}, {"x": "/?s=asd"}),
    case("* in front, allowed", "User-Agent: * | allow: */p | disallow: /", {"x": "/page"}, {"x": "/x"}),
    case("* in front, refused", "User-Agent: * | allow: /page | disallow: */*.htm", {}, {"x": "/page.htm"}),
    *(
        case(
            f"precedence: {allowed}",
            "user-agent: hedwig-news | disallow: / | allow: /g1 | user-agent: * | disallow: / | allow: /g2 | "
            "user-agent: hedwig | disallow: / | allow: /g3",
            {crawlers: allowed},
            {crawlers: " ".join({"/g1", "/g2", "/g3"} - {allowed})},
        )
        for crawlers, allowed in (("hedwig-news", "/g1"), ("hedwi a", "/g2"), ("hedwig", "/g3"))
    ),
]

# Where Google's parser or Protego has it otherwise: a rule, a path that it is about all the same, and what decides.
DIFFERING = [
    ("Google", "/x/%62%61%7A", "/x/baz", "RFC 9309, 2.2.2: escapes of unreserved characters are decoded"),
    ("Google", "/x?u=https%3A%2F%2Fa", "/x?u=https://a", "RFC 9309, 2.2.2: reserved characters are compared escaped"),
    ("Google", "/x(1)", "/x%281%29", "the same, in a path"),
    ("Protego", "/x?u=https%3A%2F%2Fa", "/x?u=https://a", "the same"),
]
# And paths that a rule is not about. To Protego, a `$` at the end is also a plain one.
DIFFERING_ALLOWED = [("Protego", "/a$", "/a$b", "RFC 9309, 2.2.3"), ("Protego", "http://a/", "/http://a/", "2.2.2")]
