"""Jobs import no pandas, and everything else as before."""

from __future__ import annotations

import pytest

from tests.support.jobs.fresh_python import run

pytestmark = pytest.mark.slow


def test_pyarrow_makes_arrays_without_pandas_in_a_worker() -> None:
    program = (
        "import sys; from sparkjobs.executors.without_pandas import hide_pandas; hide_pandas(); "
        "import pyarrow as pa; print(pa.array(['a', None]).null_count, 'pandas' in sys.modules)"
    )
    assert run(program) == ["1", "False"]


def test_what_asks_for_pandas_is_told_that_it_is_not_there_and_others_are_found() -> None:
    program = (
        "from sparkjobs.executors.without_pandas import hide_pandas; hide_pandas()\n"
        "try: import pandas\n"
        "except ModuleNotFoundError as error: print(error.name, error.msg.replace(' ', '_'))\n"
        "import colorsys; print(colorsys.__name__)"
    )
    assert run(program) == ["pandas", "no_job_needs_pandas", "colorsys"]
