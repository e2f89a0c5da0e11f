"""Mistakes of archives.yaml are one import error, and cost no other archive its DAGs."""

from __future__ import annotations

import pytest

from tests.support.airflow.dag_files import Read

pytestmark = pytest.mark.slow

MISTAKES = {
    "an unknown key": ("{urll: x}", "line 3: archives.broken: unknown key 'urll'; did you mean 'url'?"),
    "a notifier": (
        "{url: x, alerts: [{notifier: nobody.has.This}]}",
        "line 3: archives.broken.alerts: there is no nobody.has.This here (ModuleNotFoundError: No module named "
        "'nobody'): install the provider that has it, or correct it",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_one_archive_is_one_import_error_and_leaves_the_others_their_dags(
    read: Read, mistake: str
) -> None:
    text, sentence = MISTAKES[mistake]
    bag = read(f"archives:\n  good: {{url: y, sources: {{db: {{connection: c}}}}}}\n  broken: {text}")
    ((file, said),) = bag.import_errors.items()
    assert file.endswith("configuration_mistakes.py")
    assert said.rstrip().endswith(sentence)
    assert {"backup_good", "restore_good", "lock_reaper_good", "holdfast_configuration"} <= set(bag.dags)
    assert not any(name.endswith("_broken") for name in bag.dags)


@pytest.mark.parametrize("text", ["archives: [", "archives: []", "archive: {}"])
def test_a_file_of_which_nothing_can_be_read_is_one_import_error(read: Read, text: str) -> None:
    bag = read(text)
    ((file, said),) = bag.import_errors.items()
    assert file.endswith("configuration_mistakes.py")
    assert "archives.yaml" in said
    assert list(bag.dags) == ["holdfast_configuration"]
