"""The checker of recorded histories, on histories made by hand: it must tell the good from the bad."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.hammer.history import Operation, Verdict, check, operations

pytestmark = pytest.mark.service  # needs what only `make setup-tests` builds

LEASE = 10.0

Event = dict[str, Any]


def seconds(number: float) -> int:
    return round(number * 1e9)


def start(*, elsewhere: bool = True) -> Event:
    return {"what": "start", "at": 0, "elsewhere": elsewhere}


def acquired(txn: str, mode: str, call: float, back: float, resource: str = "r") -> list[Event]:
    attempt = {"what": "attempt", "at": seconds(call), "txn": txn, "resource": resource, "mode": mode}
    return [attempt, {"what": "acquired", "at": seconds(back), "txn": txn}]


def saw(what: str, at: float, txn: str = "", **more: float) -> list[Event]:
    """One line of a worker's history; ``more`` are times."""
    txns = {"txn": txn} if txn else {}
    return [{"what": what, "at": seconds(at), **txns, **{name: seconds(time) for name, time in more.items()}}]


def judge(*workers: list[Event]) -> Verdict:
    """The verdict on what some workers saw, who all run elsewhere unless they say otherwise."""
    return check(operations([[start(), *events] for events in workers], LEASE))


def result(*workers: list[Event]) -> str:
    return judge(*workers).result


def test_writers_one_after_the_other_are_right() -> None:
    one = acquired("a", "W", 1, 2) + saw("held", 3, "a") + saw("release", 4, "a")
    other = acquired("b", "W", 3.5, 5) + saw("held", 6, "b") + saw("release", 7, "b")
    assert result(one, other) == "Ok"


def test_two_writers_at_once_are_wrong() -> None:
    found = judge(acquired("a", "W", 1, 2) + saw("release", 5, "a"), acquired("b", "W", 3, 4) + saw("release", 6, "b"))
    assert found.result == "Illegal"
    assert "r: acquire by b (W) has no place in any order: a is inside" in found.words
    assert "a W end      +2.000000 to +2.000000" in found.words


def test_a_reader_inside_a_writer_is_wrong() -> None:
    assert result(acquired("a", "W", 1, 2), acquired("b", "R", 3, 4)) == "Illegal"


def test_a_writer_inside_readers_is_wrong() -> None:
    readers = [acquired(txn, "R", 1, 2) for txn in "abc"]
    assert result(*readers) == "Ok"
    assert result(*readers, acquired("d", "W", 3, 4)) == "Illegal"


def test_locks_of_two_resources_have_nothing_to_do_with_each_other() -> None:
    assert result(acquired("a", "W", 1, 2), acquired("b", "W", 1, 2, resource="s")) == "Ok"


def test_one_fault_among_many_resources_is_found_and_named() -> None:
    good = [acquired(f"a{number}", "W", 1, 2, resource=f"r{number}") for number in range(9)]
    found = judge(*good, acquired("b", "W", 3, 4, resource="r5"))
    assert (found.result, found.resources, found.words.partition(":")[0]) == ("Illegal", 9, "r5")


def test_acquisitions_at_the_same_time_may_have_come_in_any_order() -> None:
    """The first to be called may be the last to get in."""
    one = acquired("a", "W", 1, 9) + saw("held", 9.5, "a")
    other = acquired("b", "W", 2, 4) + saw("held", 5, "b") + saw("release", 6, "b")
    assert result(one, other) == "Ok"


def test_a_check_that_succeeds_after_another_got_the_lock_is_wrong() -> None:
    one = acquired("a", "W", 1, 2)
    other = acquired("b", "W", 12, 13)  # after the lease
    assert result(one, other) == "Ok"
    assert result(one + saw("held", 12.5, "a"), other) == "Ok"
    assert result(one + saw("held", 14, "a"), other) == "Illegal"


def test_what_was_released_may_be_taken_from_the_call_on() -> None:
    one = acquired("a", "W", 1, 2) + saw("release", 3, "a")
    assert result(one, acquired("b", "W", 3, 4)) == "Ok"
    assert result(one, acquired("b", "W", 2.5, 2.9)) == "Illegal"


def test_what_was_released_is_held_no_more() -> None:
    one = acquired("a", "W", 1, 2) + saw("release", 3, "a") + saw("held", 5, "a")
    assert result(one, acquired("b", "W", 3, 4)) == "Illegal"


def test_nobody_may_take_a_lock_before_its_lease_is_over() -> None:
    assert result(acquired("a", "W", 1, 2), acquired("b", "W", 3, 10.9)) == "Illegal"
    assert result(acquired("a", "W", 1, 2), acquired("b", "W", 3, 11.1)) == "Ok"


def test_nor_before_a_renewed_lease_is_over() -> None:
    one = acquired("a", "W", 1, 2) + saw("renewed", 6, "a")
    assert result(one, acquired("b", "W", 3, 15.9)) == "Illegal"
    assert result(one, acquired("b", "W", 3, 16.1)) == "Ok"


def test_a_lock_whose_process_was_seen_to_be_gone_is_free_at_once() -> None:
    killed = acquired("a", "W", 1, 2) + saw("gone", 3)
    before, after = acquired("b", "W", 2, 2.9), acquired("b", "W", 2, 3.1)
    here, there = ([start(elsewhere=elsewhere), *killed] for elsewhere in (False, True))
    assert check(operations([here, [start(), *after]], LEASE)).result == "Ok"
    assert check(operations([here, [start(), *before]], LEASE)).result == "Illegal"
    assert check(operations([there, [start(), *after]], LEASE)).result == "Illegal"


def test_who_was_killed_while_asking_may_have_got_in_or_not() -> None:
    asked = acquired("a", "W", 1, 2)[:1] + saw("gone", 1.5)
    assert result(asked, acquired("b", "W", 3, 4)) == "Ok"
    assert result(asked, acquired("b", "W", 30, 40)) == "Ok"


def test_an_attempt_that_failed_is_in_nobodys_way() -> None:
    twice = acquired("a", "W", 1, 2)[:1] + acquired("b", "W", 3, 4)
    assert result(twice, acquired("c", "W", 1, 2.5) + saw("release", 2.6, "c")) == "Ok"


def test_who_was_suspended_while_asking_got_in_at_some_time_until_it_went_on() -> None:
    slow = acquired("a", "W", 1, 30)
    assert result(slow, acquired("b", "W", 2, 3) + saw("release", 25, "b")) == "Ok"  # before it
    assert result(slow, acquired("b", "W", 12, 13) + saw("held", 31, "b")) == "Ok"  # after its lease
    assert result(slow, acquired("b", "W", 2, 3) + saw("held", 31, "b")) == "Illegal"


def test_a_lock_is_not_lost_before_its_lease_is_over() -> None:
    assert result(acquired("a", "W", 1, 2) + saw("lost", 10.9, "a", since=3)) == "Illegal"
    assert result(acquired("a", "W", 1, 2) + saw("lost", 11.1, "a", since=3)) == "Ok"
    assert result(acquired("a", "W", 1, 2) + saw("renewed", 5, "a") + saw("lost", 12, "a", since=3)) == "Illegal"


def test_what_was_lost_is_lost_for_ever() -> None:
    lost = acquired("a", "W", 1, 2) + saw("lost", 12, "a", since=11.5)
    assert result(lost) == "Ok"
    assert result(lost + saw("held", 13, "a")) == "Illegal"


def test_a_search_that_takes_too_long_is_no_pass() -> None:
    history = operations([[start(), *acquired("a", "W", 1, 2)]], LEASE)
    found = check(history, limit=0)
    assert (found.result, found.words) == ("Unknown", "The time was not enough to search the history of r.")


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ("acquire held end lost lost", "Ok"),
        ("held", "Illegal"),
        ("acquire end held", "Illegal"),
        ("acquire lost end", "Illegal"),
        ("end acquire held", "Illegal"),
        ("acquire end end", "Illegal"),
        ("acquire acquire", "Illegal"),
    ],
)
def test_one_transaction_comes_in_and_goes_once(kinds: str, expected: str) -> None:
    history = [
        Operation(resource="r", txn="a", mode="R", kind=kind, call=time, returned=time)
        for time, kind in enumerate(kinds.split())
    ]
    assert check(history).result == expected


def test_what_is_no_history_is_refused() -> None:
    backwards = Operation(resource="r", txn="a", mode="W", kind="held", call=2, returned=1)
    with pytest.raises(ValueError, match="this is no operation"):
        check([backwards])


@pytest.mark.parametrize("fault", [False, True])
def test_a_long_history_of_many_clients_takes_seconds_at_most(fault: bool) -> None:
    """Sixteen at a time ask for one lock, and the last to call is the first to get in."""
    workers = []
    for number in range(2000):
        call, back = number - number % 16, number + 15 - 2 * (number % 16)
        lock = acquired(str(number), "W", call, back + 0.1)
        workers.append([*lock, *saw("held", back + 0.2, str(number)), *saw("release", back + 0.9, str(number))])
    reader = acquired("reader", "R", 1990.3, 1990.4)
    found = judge(*workers, *([reader] if fault else []))
    assert found.result == ("Illegal" if fault else "Ok")
    assert found.seconds < 30
