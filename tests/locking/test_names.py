"""Names: what is valid is taken apart into what it was made of, and nothing else is taken for one of ours."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from locking import InvalidLockName
from locking.names import MODES, check_resource, parse_name, split_target

NAMES = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=128).filter(
    lambda name: name[0] not in "._-"
)


@given(NAMES, st.sampled_from(sorted(MODES)))
def test_a_valid_target_is_taken_apart(resource: str, word: str) -> None:
    assert split_target(f"locks/{resource}/{word}") == ("locks", check_resource(resource), MODES[word])


@given(st.text(max_size=60) | st.text("/.\\\0 -_aé", max_size=1100))
def test_a_name_is_valid_or_refused_and_never_leads_elsewhere(name: str) -> None:
    try:
        check_resource(name)
    except InvalidLockName:
        return
    assert "/" not in name
    assert name.isascii()
    assert name not in {".", ".."}


@given(st.text("INTETDAWRIDE.0123456789abcdef", max_size=50))
def test_no_other_name_is_taken_for_one_of_ours(name: str) -> None:
    found = parse_name(name)
    assert found is None or name.endswith(found.txn)
