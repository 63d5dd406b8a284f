"""awa: a core in Rust, coroutines in Python; 256 at a time, COPY for what is published in calls."""

import asyncio
from dataclasses import dataclass


@dataclass
class Handle:
    text: str


def prepare(url):
    asyncio.run(_prepare(url))


async def _prepare(url):
    from awa import AsyncClient

    async with AsyncClient(url) as client:
        await client.migrate()
        await client.install_queue_storage()


def publish(url, calls, timing):
    asyncio.run(_publish(url, calls, timing))


async def _publish(url, calls, timing):
    from awa import AsyncClient

    async with AsyncClient(url) as client:
        with timing:
            for texts in calls:
                if len(texts) == 1:
                    await client.insert(Handle(text=texts[0]), queue="bench")
                else:
                    await client.enqueue_many_copy([Handle(text=text) for text in texts], queue="bench")


def work(url, handled, stop):
    asyncio.run(_work(url, handled, stop))


async def _work(url, handled, stop):
    from awa import AsyncClient

    async with AsyncClient(url, max_connections=20) as client:

        @client.task(Handle, queue="bench")
        async def _handle(found):
            handled(found.args.text)

        await client.start([("bench", 256)])
        while not stop.is_set():
            await asyncio.sleep(0.05)
        await client.shutdown()
