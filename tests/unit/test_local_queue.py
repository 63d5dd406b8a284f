"""The queue in memory: visibility, receive counts, message groups, deduplication, redrive, as SQS documents them."""

import pytest

from lambda_runtime.local import LocalClock, LocalQueue, Sent


@pytest.fixture
def clock():
    return LocalClock()


def message(name, group=None, **rest):
    return Sent(body=name, id=name, group_id=group, **rest)


def bodies(received):
    return [one.sent.body for one in received]


def test_a_received_message_hides_until_its_visibility_time_out_ends_and_comes_with_its_count(clock):
    queue = LocalQueue(clock, visibility_seconds=30)
    queue.send(message("a"))
    (first,) = queue.receive(10)
    assert queue.receive(10) == []
    clock.advance(30)
    (second,) = queue.receive(10)
    assert (first.receives, second.receives) == (1, 2)
    assert second.first_received_at == first.first_received_at
    assert second.receipt != first.receipt


def test_hiding_moves_the_time_at_which_it_comes_again(clock):
    queue = LocalQueue(clock, visibility_seconds=30)
    queue.send(message("a"), message("b"))
    a, b = queue.receive(10)
    assert (queue.hide(a.receipt, 0), queue.hide(b.receipt, 90)) == (None, None)
    assert bodies(queue.receive(10)) == ["a"]
    clock.advance(60)
    assert bodies(queue.receive(10)) == ["a"]
    clock.advance(30)
    assert bodies(queue.receive(10)) == ["a", "b"]


def test_what_is_not_in_flight_cannot_be_hidden(clock):
    queue = LocalQueue(clock, visibility_seconds=30)
    queue.send(message("a"))
    (first,) = queue.receive(1)
    clock.advance(30)
    assert queue.hide(first.receipt, 10) == "MessageNotInflight"
    (second,) = queue.receive(1)
    assert queue.hide(first.receipt, 10) == "MessageNotInflight"
    assert queue.hide(second.receipt, 43_201) == "InvalidParameterValue"
    assert queue.delete(second.receipt) is None
    assert queue.hide(second.receipt, 10) == "MessageNotInflight"


def test_an_old_receipt_of_a_standard_queue_is_taken_and_deletes_nothing(clock):
    queue = LocalQueue(clock, visibility_seconds=30)
    queue.send(message("a"))
    (first,) = queue.receive(1)
    clock.advance(30)
    queue.receive(1)
    assert queue.delete(first.receipt) is None
    assert bodies_of(queue) == ["a"]


def bodies_of(queue):
    return [sent.body for sent in queue.messages]


def test_a_receipt_of_a_fifo_queue_ends_with_its_visibility(clock):
    queue = LocalQueue(clock, fifo=True, visibility_seconds=30)
    queue.send(message("a", "g"))
    (first,) = queue.receive(1)
    clock.advance(30)
    assert queue.delete(first.receipt) == "ReceiptHandleIsInvalid"
    assert bodies_of(queue) == ["a"]


def test_while_one_of_a_group_is_in_flight_none_of_the_group_is_received(clock):
    queue = LocalQueue(clock, fifo=True, visibility_seconds=30)
    queue.send(message("a1", "a"), message("a2", "a"), message("b1", "b"), message("a3", "a"))
    first = queue.receive(2)
    assert bodies(first) == ["a1", "a2"]  # one receive may have several of a group, in order
    assert bodies(queue.receive(10)) == ["b1"]
    queue.delete(first[0].receipt)
    assert queue.receive(10) == []
    queue.hide(first[1].receipt, 0)
    assert bodies(queue.receive(10)) == ["a2", "a3"]


def test_a_fifo_queue_takes_a_deduplication_id_once_in_five_minutes(clock):
    queue = LocalQueue(clock, fifo=True)
    queue.send(message("a", "g", deduplication_id="d"), Sent(body="b", group_id="g", deduplication_id="d"))
    assert bodies_of(queue) == ["a"]
    clock.advance(301)
    queue.send(Sent(body="c", group_id="g", deduplication_id="d"))
    assert bodies_of(queue) == ["a", "c"]


def test_a_fifo_queue_wants_a_group(clock):
    with pytest.raises(ValueError, match="group_id"):
        LocalQueue(clock, fifo=True).send(message("a"))


def test_a_message_that_was_received_too_often_is_moved_at_the_next_receive_and_frees_its_group(clock):
    dead = LocalQueue(clock, fifo=True)
    queue = LocalQueue(clock, fifo=True, visibility_seconds=30, max_receive_count=2, redrive=dead.send)
    queue.send(message("a1", "a"), message("a2", "a"))
    for _ in range(2):
        assert bodies(queue.receive(1)) == ["a1"]
        clock.advance(30)
    assert bodies(queue.receive(1)) == ["a2"]
    assert [sent.id for sent in dead.messages] == ["a1"]


def test_it_says_when_there_is_something_to_receive(clock):
    queue = LocalQueue(clock, visibility_seconds=30)
    assert queue.seconds_until_visible() is None
    queue.send(message("a"))
    assert queue.seconds_until_visible() == 0
    queue.receive(1)
    assert 29 < queue.seconds_until_visible() <= 30
