"""pgqueuer on asyncpg, its fastest documented setting, in batches of 500."""

import asyncio

BATCH = 500


def prepare(url):
    asyncio.run(_prepare(url))


async def _prepare(url):
    import asyncpg
    from pgqueuer import AsyncpgDriver, Queries

    connection = await asyncpg.connect(url)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


def publish(url, calls, timing):
    asyncio.run(_publish(url, calls, timing))


async def _publish(url, calls, timing):
    import asyncpg
    from pgqueuer import AsyncpgDriver, Queries

    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    with timing:
        for texts in calls:
            if len(texts) == 1:
                await queries.enqueue("bench", texts[0].encode())
            else:
                count = len(texts)
                await queries.enqueue(["bench"] * count, [text.encode() for text in texts], [0] * count)
    await connection.close()


def work(url, handled, stop):
    asyncio.run(_work(url, handled, stop))


async def _work(url, handled, stop):
    import asyncpg
    from pgqueuer import AsyncpgPoolDriver, Queries, QueueManager

    async with asyncpg.create_pool(url, min_size=2, max_size=5) as pool:
        manager = QueueManager(Queries(AsyncpgPoolDriver(pool)))

        @manager.entrypoint("bench")
        async def _handle(found):
            handled(found.payload.decode())

        serving = asyncio.create_task(manager.run(batch_size=BATCH))
        while not stop.is_set():
            await asyncio.sleep(0.05)
        manager.shutdown.set()
        await serving
