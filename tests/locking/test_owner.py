from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from locking import Owner
from locking.owner import process_is_gone


def test_a_process_that_ended_is_gone_also_before_anybody_waited_for_it() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "print('ready', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    child.stdout.readline()
    start = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19])
    owner = replace(Owner().here(), pid=child.pid, process_start=start)
    assert not process_is_gone(owner)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
    assert process_is_gone(owner)
    child.communicate()
    assert process_is_gone(owner)


def test_of_a_number_that_no_process_can_have_nothing_is_known() -> None:
    assert not process_is_gone(replace(Owner().here(), pid=1 << 63))
