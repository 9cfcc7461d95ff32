"""The peer: Scrapy, tuned for many sites, each with a delay.

Run as a script with three arguments: the delay a site in seconds, after how many seconds to end, and a file of URLs,
one a line.

Single process, as Scrapy is. Delays are per site and not randomised; caches, cookies, retries, robots.txt and logs are
off, and requests are taken from the site that is least busy, which is what its documentation advises for broad crawls.
"""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess


class Fetcher(scrapy.Spider):
    """Asks for every URL and keeps nothing: results that it would have to store would only slow it down."""

    name = "fetcher"

    async def start(self) -> AsyncIterator[Any]:
        """Yield one request a line."""
        with Path(sys.argv[3]).open() as urls:  # noqa: ASYNC230  read as it goes, which costs nothing here
            for line in urls:
                yield scrapy.Request(line.strip(), dont_filter=True)

    def parse(self, response: object) -> None:
        """Do nothing with it."""


if __name__ == "__main__":
    process = CrawlerProcess(
        {
            "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
            "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
            "DOWNLOAD_DELAY": float(sys.argv[1]),
            "RANDOMIZE_DOWNLOAD_DELAY": False,
            "CONCURRENT_REQUESTS": 2_000,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
            "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
            "REACTOR_THREADPOOL_MAXSIZE": 20,
            "COOKIES_ENABLED": False,
            "RETRY_ENABLED": False,
            "REDIRECT_ENABLED": False,
            "ROBOTSTXT_OBEY": False,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_ENABLED": False,
            "CLOSESPIDER_TIMEOUT": float(sys.argv[2]),
        }
    )
    process.crawl(Fetcher)
    process.start()
