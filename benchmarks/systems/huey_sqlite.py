"""huey on its SQLite storage, default durability, one consumer thread: more are slower there."""

import threading


def _huey(url):
    from huey import SqliteHuey

    return SqliteHuey("bench", filename=url.removeprefix("sqlite:///"), results=False)


def _handling(url, handled):
    huey = _huey(url)

    @huey.task()
    def handle(text):
        handled(text)

    return huey, handle


def prepare(url):
    _huey(url)


def publish(url, calls, timing):
    _, handle = _handling(url, str)
    with timing:
        for texts in calls:
            for text in texts:
                handle(text)


def work(url, handled, stop):
    huey, _ = _handling(url, handled)
    # Consumer threads without signal handlers; huey itself blocks in run(), which wants the main thread's signals.
    consumer = huey.create_consumer(workers=1, periodic=False, initial_delay=0.001, max_delay=0.005, backoff=1.0)
    consumer.start()
    threading.Event.wait(stop)
    consumer.stop(graceful=True)
