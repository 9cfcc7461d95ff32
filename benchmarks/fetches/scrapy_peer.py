"""The peer: Scrapy, tuned for many sites, each with a delay.

A script with three arguments: the delay of a site in seconds, after how many seconds to end, and a file of URLs, one a
line.

Scrapy runs in one process. Delays are per site and not randomised. Caches, cookies, retries, robots.txt and logs are
off. Certificates are not verified, which is Scrapy's default. Requests are taken from the least busy site, as Scrapy's
documentation advises for broad crawls.
"""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import scrapy
from scrapy.crawler import CrawlerProcess


class Fetcher(scrapy.Spider):
    """Requests every URL and discards the answers: storing them would only slow it down."""

    name = "fetcher"

    async def start(self) -> AsyncIterator[Any]:
        """Yield one request for each line of the file."""
        with Path(sys.argv[3]).open() as urls:  # noqa: ASYNC230  is read line by line, which costs nothing here
            for line in urls:
                yield scrapy.Request(line.strip(), dont_filter=True)

    def parse(self, response: object) -> None:
        """Discard the answer."""


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
