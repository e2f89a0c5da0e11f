from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict

from holdfast.common.errors import UsageError
from holdfast.postgresql.connection.address import Address, hide_passwords
from holdfast.postgresql.connection.value_settings import SETTINGS


@pytest.fixture(autouse=True)
def no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGPASSWORD", raising=False)


@pytest.mark.parametrize(
    ("given", "url", "password"),
    [
        ("postgresql://me@here:5432/shop", "postgresql://me@here:5432/shop", None),
        ("postgres://me:s3cret@here/shop", "postgresql://me@here/shop", "s3cret"),
        ("postgresql://here/shop", "postgresql://here/shop", None),
        ("postgresql:///shop?host=/tmp", "postgresql:///shop?host=%2Ftmp", None),
        ("postgresql://me@here/shop?password=s3cret&port=5", "postgresql://me@here/shop?port=5", "s3cret"),
        ("postgresql://me@here/shop?ssl=true", "postgresql://me@here/shop?ssl=true", None),
        ("postgresql://me@one:1,two:2/shop", "postgresql://me@one:1,two:2/shop", None),
        ("postgresql://me@[::1]:5432/shop", "postgresql://me@[::1]:5432/shop", None),
    ],
)  # fmt: skip
def test_a_url_is_read_and_its_password_taken_out(given: str, url: str, password: str | None) -> None:
    address = Address.parse(given)
    assert (address.url, address.password, address.database) == (url, password, "shop")
    assert "s3cret" not in repr(address)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://me:s3cret@here/shop", "is no PostgreSQL address"),
        ("postgresql://me:s3cret@[::1/shop", "is no PostgreSQL address"),
        ("postgresql://me:s3cret@here:99999/shop", "is no PostgreSQL address"),
        ("postgresql://me:s3/cret@here/shop", "is no PostgreSQL address"),
        ("postgresql://me:s3cret@here", "names no database: add /database"),
        ("postgresql://me@here/shop?sslpassword=s3cret", "may not hold an sslpassword"),
        ("postgresql://me@here/shop?scram_client_key=s3cret", "may not hold an scram_client_key"),
        ("postgresql://me:12/s3cret@here/shop", "is ambiguous: .* write / as %2F"),
        ("postgresql://me:pa@12/s3cret@here/shop", "is ambiguous: .* write / as %2F"),
        ("postgresql://me:/s3cret@here/shop", "is ambiguous: .* write / as %2F"),
        ("postgresql://me:12/a?s3cret@here/shop", "is ambiguous: .* write / as %2F"),
        ("postgresql://me:12/a?b=s3cret@here/shop", "is ambiguous: .* write / as %2F"),
        ("postgresql://me:12/s3#cret@here/shop", "is ambiguous: .* write / as %2F"),
        ("postgresql://me@corp:a b/s3cret@here/shop", "is no PostgreSQL address"),
        ("postgresql://me:x y/s3cret@here", "ambiguous|is no PostgreSQL address"),
        ("postgresql://me@here/shop?password=a&s3cret", "has a part that is no parameter"),
        ("postgresql://me@here/shop?password=a&s3cret=", "has a part that is no parameter"),
        ("postgresql://me@here/shop?password=a#s3cret", "is ambiguous"),
        ("postgresql://me@here/shop?pass word=s3cret", "has a part that is no parameter"),
        ("postgresql://me@here/shop?ssl_mode=s3cret", "knows no parameter 'ssl_mode': take it out"),
        ("postgresql://me@here/shop?ssl=0&a=s3cret", "knows no parameter 'ssl' or 'a': take it out"),
    ],
)
def test_what_is_no_address_is_refused_without_showing_its_password(url: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        Address.parse(url)
    assert "s3" not in str(refused.value)


def test_what_only_other_tools_know_is_ignored_with_a_word(caplog: pytest.LogCaptureFixture) -> None:
    given = "postgresql://me@here/shop?schema=public&sslmode=disable&pgbouncer=true"
    assert Address.parse(given).url == "postgresql://me@here/shop?sslmode=disable"
    (said,) = caplog.messages
    assert said == "ignored in the address, since only other tools know it: schema, pgbouncer"


def test_a_password_given_apart_goes_before_the_one_in_the_url() -> None:
    assert Address.parse("postgresql://me:old@here/shop", "new").password == "new"


ALIVE = "keepalives_idle=60&keepalives_interval=10&keepalives_count=6"
UTF8 = "client_encoding=UTF8"
OURS = " ".join(
    f"-c {name}={value}".replace("read committed", r"read\ committed")
    for name, value in SETTINGS.items()
    if name != "client_encoding"
)
BEGIN = f"{UTF8}&options={quote(OURS, safe='')}"


def test_the_password_is_put_back_for_connecting_only() -> None:
    assert (
        Address("postgresql://me@here/shop", "a/b@c").conninfo()
        == f"postgresql://me:a%2Fb%40c@here/shop?{ALIVE}&{BEGIN}"
    )
    by_socket = f"postgresql:///shop?{ALIVE}&host=%2Ftmp&{BEGIN}"
    assert Address("postgresql:///shop?host=%2Ftmp", "x").conninfo() == f"{by_socket}&password=x"
    assert Address("postgresql://me@here/shop").conninfo() == f"postgresql://me@here/shop?{ALIVE}&{BEGIN}"


def test_the_environments_password_serves_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "there")
    assert Address("postgresql://me@here/shop").conninfo() == f"postgresql://me:there@here/shop?{ALIVE}&{BEGIN}"
    assert Address("postgresql://me@here/shop", "mine").conninfo() == f"postgresql://me:mine@here/shop?{ALIVE}&{BEGIN}"


def test_a_silent_server_is_noticed_as_soon_as_the_address_says() -> None:
    said = "keepalives_idle=1&keepalives_interval=2&keepalives_count=3&tcp_user_timeout=9"
    assert Address(f"postgresql://me@here/shop?{said}").link() == f"postgresql://me@here/shop?{said}&{BEGIN}"


def test_sessions_begin_with_our_settings_behind_those_of_the_address() -> None:
    address = Address.parse("postgresql://me@here/shop?options=-c%20role%3Dreader&client_encoding=LATIN1")
    begun = conninfo_to_dict(address.link())
    assert (begun["options"], begun["client_encoding"]) == (f"-c role=reader {OURS}", "UTF8")
    quiet = conninfo_to_dict(replace(address, event_triggers=False).link())
    assert quiet["options"] == f"-c role=reader {OURS} -c event_triggers=off"


def test_the_environments_options_come_before_ours_where_the_address_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c role=reader")
    assert conninfo_to_dict(Address("postgresql://me@here/shop").link())["options"] == f"-c role=reader {OURS}"
    own = Address("postgresql://me@here/shop?options=-c%20role%3Dother")
    assert conninfo_to_dict(own.link())["options"] == f"-c role=other {OURS}"


def test_programs_get_the_password_and_none_of_our_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGOPTIONS", "-c search_path=evil")
    monkeypatch.setenv("PGCLIENTENCODING", "BIG5")
    made = Address("postgresql://me@here/shop", "s3cret").environment()
    assert made["PGPASSWORD"] == "s3cret"
    assert not {"PGOPTIONS", "PGCLIENTENCODING"}.intersection(made)
    assert "PGPASSWORD" not in Address("postgresql://me@here/shop").environment()


def test_names_of_databases_may_have_any_letters() -> None:
    address = Address.parse("postgresql://me:s3cret@here/postgres").at_database("my shop/ö?")
    assert (address.database, address.password) == ("my shop/ö?", "s3cret")
    assert Address.parse(address.url).database == "my shop/ö?"


def test_users_passwords_and_parameters_may_have_any_letters() -> None:
    given = "postgresql://we%20i%25rd%40:p%40s%2Fs+w%25@here/shop?application_name=a%20b+c%26"
    address = Address.parse(given)
    assert address.password == "p@s/s+w%"
    assert address.url == "postgresql://we%20i%25rd%40@here/shop?application_name=a%20b%2Bc%26"
    assert address.conninfo().startswith("postgresql://we%20i%25rd%40:p%40s%2Fs%2Bw%25@here/shop?")
    assert conninfo_to_dict(address.conninfo())["user"] == "we i%rd@"
    assert conninfo_to_dict(address.link())["application_name"] == "a b+c&"
    assert Address.parse(address.url, address.password) == address


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at postgresql://me:s3cr@t@here/shop now", "at postgresql://me:***@here/shop now"),
        ("host=here password=s3cret user=me", "host=here password=*** user=me"),
        ("postgresql://me@here:5432/shop", "postgresql://me@here:5432/shop"),
        ("postgresql://me@corp:s3/cr@t@here/shop", "postgresql://me@corp:***@here/shop"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
    ],
)
def test_passwords_are_hidden_in_any_text(text: str, shown: str) -> None:
    assert hide_passwords(text) == shown
