"""How often a test is tried on something that was drawn: the same few times each run, or many times anew."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

_COMMON = settings(
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


def tiered(few: int, every: int) -> int:
    """The number of examples in `make test`, and in `make test-all`."""
    return every if os.environ.get("HOLDFAST_TEST_TIER") == "all" else few


def same_few(examples: int) -> settings:
    """Try the same examples in each run, and tell one that fails as it was drawn."""
    return settings(_COMMON, max_examples=examples, derandomize=True, phases=[Phase.explicit, Phase.generate])


def many(examples: int) -> settings:
    """Try other examples in each run; `HOLDFAST_GENERATED` says another number of them."""
    return settings(_COMMON, max_examples=int(os.environ.get("HOLDFAST_GENERATED", examples)))
