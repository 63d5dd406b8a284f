"""procrastinate with its psycopg connector, 30 coroutines at a time."""

import asyncio


def _app(url):
    import procrastinate

    return procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, max_size=10))


def prepare(url):
    asyncio.run(_prepare(url))


async def _prepare(url):
    async with _app(url).open_async() as app:
        await app.schema_manager.apply_schema_async()


def publish(url, calls, timing):
    asyncio.run(_publish(url, calls, timing))


async def _publish(url, calls, timing):
    async with _app(url).open_async() as app:
        deferrer = app.configure_task("handle", queue="bench")
        with timing:
            for texts in calls:
                if len(texts) == 1:
                    await deferrer.defer_async(text=texts[0])
                else:
                    await deferrer.batch_defer_async(*({"text": text} for text in texts))


def work(url, handled, stop):
    asyncio.run(_work(url, handled, stop))


async def _work(url, handled, stop):
    app = _app(url)

    @app.task(name="handle", queue="bench")
    async def _handle(text):
        handled(text)

    async with app.open_async():
        serving = asyncio.create_task(
            app.run_worker_async(
                queues=["bench"], concurrency=30, delete_jobs="always", install_signal_handlers=False, wait=True
            )
        )
        while not stop.is_set():
            await asyncio.sleep(0.05)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
