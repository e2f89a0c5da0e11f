"""Which rules of a bucket do harm to an archive, and what a read says of objects that they have moved."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.storage import ObjectArchived, StoreDenied, open_store
from holdfast.storage.s3.store import S3Store
from tests.support.stores.fake_s3 import BUCKET, FakeS3, Fault


def rule(scope: str, action: str, status: str = "Enabled") -> str:
    return f"<Rule><ID>old</ID>{scope}<Status>{status}</Status>{action}</Rule>"


def below(prefix: str) -> str:
    return f"<Filter><Prefix>{prefix}</Prefix></Filter>"


def to(storage_class: str) -> str:
    return f"<Transition><Days>30</Days><StorageClass>{storage_class}</StorageClass></Transition>"


EXPIRES = "<Expiration><Days>90</Days></Expiration>"
TAGGED = "<Filter><Tag><Key>k</Key><Value>v</Value></Tag></Filter>"


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ("", ()),
        (rule(below(""), to("GLACIER")), ("rule 'old' moves all objects to GLACIER after 30 days",)),
        (
            rule(below("shop/data/"), to("DEEP_ARCHIVE")),
            ("rule 'old' moves objects below 'shop/data/' to DEEP_ARCHIVE after 30 days",),
        ),
        (rule("<Prefix>sh</Prefix>", EXPIRES), ("rule 'old' deletes objects below 'sh' after 90 days",)),
        (rule(below("shop/"), to("GLACIER_IR")), ()),
        (rule(below("shop/"), to("GLACIER"), "Disabled"), ()),
        (rule(below("shop2/"), to("GLACIER")), ()),
        (rule(TAGGED, to("GLACIER")), ()),
        (rule(below(""), "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"), ()),
    ],
)
def test_rules_that_move_objects_out_of_reach_or_delete_them_do_harm(
    server: FakeS3, store: S3Store, rules: str, found: tuple[str, ...]
) -> None:
    server.lifecycle = rules
    assert open_store(f"s3://{BUCKET}/shop").harmful_rules() == found


def test_who_may_not_see_the_rules_is_told(server: FakeS3, store: S3Store) -> None:
    server.fail(Fault(403, "AccessDenied"))
    with pytest.raises(StoreDenied, match="lifecycle rules"):
        store.harmful_rules()


def read_by_pyarrow(store: S3Store) -> object:
    with store.open_read("a") as file:
        return file.read()


READS: list[Callable[[S3Store], object]] = [lambda store: store.get("a"), read_by_pyarrow]


@pytest.mark.parametrize("read", READS)
def test_an_object_that_was_moved_is_named_with_its_class(
    server: FakeS3, store: S3Store, read: Callable[[S3Store], object]
) -> None:
    """It can be looked at, and not read; its server says why, which pyarrow does not pass on."""
    store.put("a", b"x")
    server.judge = lambda number, request: (
        Fault(403, "InvalidObjectState", more="<StorageClass>GLACIER</StorageClass>")
        if (request.method, request.key) == ("GET", "prefix/a")
        else None
    )
    with pytest.raises(ObjectArchived, match=r"'a'.* class GLACIER, .*restore-object"):
        read(store)


def test_who_may_not_read_is_still_told_so(server: FakeS3, store: S3Store) -> None:
    store.put("a", b"x")
    server.judge = lambda number, request: Fault(403, "AccessDenied") if request.method == "GET" else None
    with pytest.raises(StoreDenied, match=r"AccessDenied.* Check the AWS_"):
        read_by_pyarrow(store)
