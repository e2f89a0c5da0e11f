"""Work of a task as it travels to workers on other machines."""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import holdfast
from holdfast.common.errors import HoldfastError, UsageError, sentence
from holdfast.common.remote_environment import collected
from holdfast.common.value_limit import MAX_VALUE_VARIABLE
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from locking.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import RDD, SparkContext

    from holdfast.common.remote_environment import RemoteEnvironment
    from holdfast.storage import ObjectStore

    TaskFunction = Callable[[Iterable[Any]], Iterable[Any]]

_SETTINGS = (MAX_VALUE_VARIABLE,)
"""Variables that tasks read beside those of what they open."""


@dataclass(frozen=True)
class Shipment:
    """Function of a Spark task, pickled, with the environment in which a worker can unpickle it.

    The environment holds credentials. It is part of the task's closure, so it goes where authenticated and encrypted
    connections of Spark lead, and is in no configuration.

    :param release: of the driver.
    """

    release: str
    environment: RemoteEnvironment
    function: bytes = field(repr=False)

    def __call__(self, items: Iterable[Any]) -> Iterator[Any]:
        """Run the function where this was sent to; the items are unpickled after the environment is in force.

        :raises UsageError: another release is installed here.
        """
        if self.release != holdfast.__version__:
            raise UsageError(
                f"a worker of Spark ({os.uname().nodename}) has Holdfast {holdfast.__version__} at {sys.prefix}, and "
                f"this driver has {self.release}: install one release on all machines of the cluster"
            )
        self.environment.put_in_force()
        yield from pickle.loads(self.function)(items)  # noqa: S301 - the driver's own, by an authenticated connection


def ship(context: SparkContext, items: Iterable[Any], function: TaskFunction) -> RDD[Any]:
    """Return the items, one a task, as the workers' function maps them."""
    wanted = list(items)
    with collected() as environment:
        tasks = context.parallelize(wanted, len(wanted))
        return tasks.mapPartitions(_packed(function, environment))


def needs(items: Iterable[Any], function: TaskFunction) -> RemoteEnvironment:
    """Return the environment that items and their function would travel with now."""
    with collected() as environment:
        pickle.dumps(list(items))
        _packed(function, environment)
    return environment


def pack(function: TaskFunction) -> bytes:
    """Return the shipment of a function, pickled itself, for a worker that may be unable to unpickle it."""
    with collected() as environment:
        return pickle.dumps(_packed(function, environment))


def _packed(function: TaskFunction, environment: RemoteEnvironment) -> Shipment:
    from pyspark.cloudpickle import dumps

    environment.add_own(_SETTINGS)
    function_bytes: bytes = dumps(function)  # type: ignore[no-untyped-call]
    return Shipment(holdfast.__version__, environment, function_bytes)


def out_of_reach(things: Sequence[ObjectStore | Address], items: Iterable[Any]) -> Iterator[str]:
    """Yield a sentence for each store or database that this worker cannot open; the items only make it run."""
    for _ in items:
        for thing in things:
            try:
                if isinstance(thing, Address):
                    connect(thing).close()
                else:
                    thing.first("archive.json", 1)
            except (HoldfastError, StoreError) as error:
                yield f"on {os.uname().nodename}, {sentence(error)}"
