"""What PostgreSQL plans for the statements of a transport while a test does something with it."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from towpath import connect
from towpath.context import Progress
from towpath.operating import Pace, Selection, Warrant
from towpath.ports import Extension
from towpath.settlement import (
    CancelAcknowledgement,
    Completion,
    DeadLettering,
    Delivery,
    Discard,
    Failure,
    Release,
    Retrial,
    Settled,
)

HOW = ("force_custom_plan", "force_generic_plan")
_FAILURE = Failure(type="E", message="m")
_LATER = timedelta(hours=1)


@contextmanager
def planned(url: str, how: str) -> Iterator[tuple[Any, list[str]]]:
    """A transport, and the plans of all that it runs, made for its values or, as a prepared statement may be, for any.

    ``how`` is one of ``HOW``.
    """
    plans: list[str] = []
    with connect(f"{url}?prepare_threshold=0") as transport:

        @sa.event.listens_for(transport._database.engine, "connect")
        def explain_everything(connection: Any, _entry: object) -> None:
            for statement in (
                "LOAD 'auto_explain'",
                "SET auto_explain.log_min_duration = 0",
                "SET auto_explain.log_level = notice",
                f"SET plan_cache_mode = {how}",
            ):
                connection.execute(statement)
            connection.commit()
            connection.add_notice_handler(lambda notice: plans.append(notice.message_primary))

        transport._database.engine.dispose()
        yield transport, plans


def entries_read(url: str) -> int:
    """How many index entries of deliveries and lanes were read so far.

    The server counts when a connection ends, so this waits until all others have.
    """
    others = """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""
    read = """SELECT sum(idx_tup_read) FROM pg_stat_user_indexes
              WHERE relname IN ('towpath_lane', 'towpath_delivery', 'towpath_touched_lane')"""
    deadline = time.monotonic() + 60
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        while connection.scalar(sa.text(others)):
            assert time.monotonic() < deadline, "another connection does not end"
            time.sleep(0.05)
        return int(connection.scalar(sa.text(read)) or 0)


def settle_in_every_way(transport: Any, subscription: str, url: str, count: int) -> None:
    """Claim ``count`` deliveries for each kind of settle, and settle them so; operators act by a transport apart."""
    consumer = transport.consumer(subscription)

    def settle(how: str, make: Callable[[Delivery], object]) -> None:
        held = consumer.receive(count, timedelta(0))
        assert len(held) == count
        if how == "acknowledge_cancel":
            _cancel(url, held)
        assert {type(answer) for answer in getattr(consumer, how)([make(one) for one in held])} == {Settled}

    settle("complete", lambda held: Completion(delivery=held))
    settle("retry", lambda held: Retrial(delivery=held, delay=_LATER, failure=_FAILURE))
    settle("dead_letter", lambda held: DeadLettering(delivery=held, reason="bad"))
    settle("discard", lambda held: Discard(delivery=held, reason="Expired"))
    settle("release", lambda held: Release(delivery=held))
    settle("extend", lambda held: Extension(delivery=held, progress=Progress(percent=1.0)))
    settle("acknowledge_cancel", lambda held: CancelAcknowledgement(delivery=held))


def _cancel(url: str, held: list[Delivery]) -> None:
    with connect(url) as other:
        chosen = Selection(delivery_ids=tuple(one.id for one in held))
        found = other.operator().discard(chosen, Warrant(actor="ada", reason="asked to"), Pace())
        assert found.requested == len(held)


def assert_none_reads_all_of(plans: list[str], *tables: str) -> None:
    """Tables without their prefix; to be asked of large ones, for a small one is read as fast as its index."""
    assert plans
    for plan in plans:
        assert not re.search(rf"Seq Scan on towpath_({'|'.join(tables)})( |$)", plan, re.MULTILINE), plan
