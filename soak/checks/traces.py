"""What operations must not leave behind: secrets in what they said, and processes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from soak.checks.violation import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SECRETS = "no secret is in any log, output, temporary file or object of the store"
ARGUMENTS = "no secret is in the arguments of any process"
PROCESSES = "no operation leaves a process behind"

_BLOCK = 1 << 20


def check_secrets(folders: Iterable[Path], canaries: Mapping[str, str]) -> Verdict:
    """Look for each canary in each file.

    :param canaries: secrets, by what each is for.
    """
    verdict = Verdict(SECRETS)
    wanted = {name: value.encode() for name, value in canaries.items()}
    for folder in folders:
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            found = {name for name, value in wanted.items() if _has(path, value)}
            verdict.judge(not found, f"the secret of {', '.join(sorted(found))} is in {path}")
    return verdict


def _has(path: Path, value: bytes) -> bool:
    before = b""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            if value in before + block:
                return True
            before = block[-len(value) :]
    return False


def check_arguments(seen: Mapping[int, str], canaries: Mapping[str, str]) -> Verdict:
    """Look for each canary in the arguments of processes, by their ids."""
    verdict = Verdict(ARGUMENTS)
    for pid, words in seen.items():
        found = [name for name, value in canaries.items() if value in words]
        verdict.judge(not found, f"the secret of {found} is in the arguments of process {pid}")
    return verdict


def check_processes(left: Mapping[int, str]) -> Verdict:
    """Judge what still runs when all operations have ended: nothing may."""
    verdict = Verdict(PROCESSES)
    verdict.judge(not left, f"still running: {dict(left)}")
    return verdict


def arguments_of(pids: Iterable[int]) -> dict[int, str]:
    """Return the arguments of processes that still run."""
    found = {}
    for pid in pids:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue  # it has just ended
        if words:
            found[pid] = words.replace(b"\0", b" ").decode("utf-8", "replace")
    return found
