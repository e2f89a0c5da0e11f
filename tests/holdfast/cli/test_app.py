"""What every command prints and with which code it ends."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import holdfast as package
from bench.support.blocks import make_block
from holdfast.archive import Archive, Change, locks
from holdfast.archive.format.commits import commit_key
from holdfast.cli import main
from holdfast.storage import ObjectStore
from locking import Owner
from locking.store import StoreDenied
from tests.support.jobs.command import PROGRAM, RunCommand, run


def one_sentence(err: str) -> str:
    """Return the sentence that is all there is on stderr."""
    (line,) = err.splitlines()
    return line.removeprefix("holdfast: ")


def test_the_version_is_shown(holdfast: RunCommand) -> None:
    done = holdfast("--version")
    assert (done.code, done.out, done.err) == (0, f"holdfast {package.__version__}\n", "")


@pytest.mark.parametrize("command", [(), ("restore",), ("replica", "sync")])
def test_a_short_option_shows_the_help(holdfast: RunCommand, command: tuple[str, ...]) -> None:
    done = holdfast(*command, "-h")
    assert (done.code, done.err) == (0, "")
    assert "Usage: " in done.out


@pytest.mark.parametrize(
    ("typed", "offered"), [("holdfast rest", ["restore"]), ("holdfast restore --ta", ["--tables", "--tablespaces"])]
)
def test_a_shell_completes_commands_and_options(typed: str, offered: list[str]) -> None:
    more = {"_HOLDFAST_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    assert run(more=more).out.split() == offered


def test_without_arguments_the_commands_are_listed(holdfast: RunCommand) -> None:
    done = holdfast()
    assert done.code == 2
    for name in ("init", "backup", "restore", "status", "points", "verify", "doctor"):
        assert name in done.out
    assert one_sentence(done.err) == "no command given: choose one of those above"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--nope"], "No such option: --nope"),
        (["bakcup"], "No such command 'bakcup'"),
        (["backup", "a"], "Missing option '--source'"),
        (["backup", "a", "--source", "b", "--kind", "some"], "'some' is not one of 'auto', 'full', 'changes'"),
        (["backup", "a", "--source", "b", "--wait", "-1"], "'--wait'"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_wrong_usage_is_one_sentence_and_code_2(
    holdfast: RunCommand, arguments: list[str], words: str, as_json: bool
) -> None:
    done = holdfast(arguments[0], *(["--json"] if as_json else []), *arguments[1:])
    assert done.code == 2
    assert words in one_sentence(done.err)
    if as_json:
        assert done.value == {"error": one_sentence(done.err), "exit_code": 2}
    else:
        assert done.out == ""


def status_of(store: ObjectStore) -> dict[str, object]:
    archive = Archive.open(store)
    return {
        "archive": archive.identity.id,
        "name": "shop",
        "url": store.url,
        "format": 2,
        "min_reader": 2,
        "min_writer": 2,
        "commits": 1,
        "blocks": 1,
        "bytes": archive.commit(1).add[0].size,
        "sources": [
            {
                "source": "shop_db",
                "backups": 1,
                "changes": 0,
                "restorable_to": "2026-03-01T12:00:00.000000Z",
                "rows": 3,
                "waiting": [],
            }
        ],
    }


def test_status_says_what_an_archive_holds(holdfast: RunCommand, filled: ObjectStore) -> None:
    told = holdfast("status", filled.url, "--json")
    assert (told.code, told.value, told.err) == (0, status_of(filled), "")
    shown = holdfast("status", filled.url)
    assert shown.code == 0
    assert "shop_db" in shown.out
    assert "2026-03-01T12:00:00.000000Z" in shown.out


def test_points_lists_moments_and_gaps(holdfast: RunCommand, filled: ObjectStore) -> None:
    told = holdfast("points", filled.url, "--json")
    assert told.code == 0
    (source,) = told.value["sources"]
    assert (source["source"], source["gaps"]) == ("shop_db", [])
    assert source["intervals"][0]["from"] == source["intervals"][0]["to"] == "2026-03-01T12:00:00.000000Z"
    assert "shop_db" in holdfast("points", filled.url).out


def test_points_come_whole_in_every_form(holdfast: RunCommand, filled: ObjectStore) -> None:
    at = "2026-03-01T12:00:00.000000Z"
    assert holdfast("points", filled.url, "--format", "csv").out.splitlines() == [
        "source,from,to,position,commit",
        f"shop_db,{at},{at},0/100,1",
    ]
    (line,) = holdfast("points", filled.url, "--format", "jsonl").out.splitlines()
    assert json.loads(line)["to"] == at
    assert holdfast("points", filled.url, "--format", "json").value == holdfast("points", filled.url, "--json").value


def test_points_of_several_sources_are_shown_one_after_the_other(holdfast: RunCommand, store: ObjectStore) -> None:
    archive = Archive.open(store)
    for source in ("crm", "shop_db", "shop_db"):
        change = Change(kind="backup", add=(make_block(source=source),))
        archive.add(lambda state, change=change: change, check=lambda: None, fence=None)  # type: ignore[misc]
    lines = [line.split() for line in holdfast("points", store.url).out.splitlines() if "gap" not in line]
    assert [line[-1] for line in lines] == ["crm", "commit", "1", "shop_db", "commit", "2", "3"]


def test_points_of_an_empty_archive_says_so(holdfast: RunCommand, store: ObjectStore) -> None:
    assert holdfast("points", store.url).out == "no backups yet\n"
    assert holdfast("points", store.url, "--json").value["sources"] == []


COMMANDS = [
    ["status", "{}"],
    ["points", "{}"],
    ["verify", "{}"],
    ["backup", "{}", "--source", "postgresql://me@127.0.0.1:1/shop"],
    ["restore", "{}", "--to", "postgresql://me@127.0.0.1:1/shop"],
]


def told(holdfast: RunCommand, command: list[str], url: str) -> tuple[int, str]:
    """Return the exit code and the sentence of a command that fails, which is the same with and without --json."""
    arguments = [part.format(url) for part in command]
    done, in_json = holdfast(*arguments), holdfast(*arguments, "--json")
    assert done.out == ""
    sentence = one_sentence(done.err)
    assert in_json.value == {"error": sentence, "exit_code": done.code}
    return done.code, sentence


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_archive_is_refused_by_every_command(holdfast: RunCommand, command: list[str]) -> None:
    code, sentence = told(holdfast, command, "nowhere")
    assert (code, "is not an archive" in sentence, "Is the URL right, the disk mounted" in sentence) == (2, True, True)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_newer_format_is_refused_by_every_command(
    holdfast: RunCommand, command: list[str], filled: ObjectStore
) -> None:
    stored = json.loads(filled.get(commit_key(1)))
    filled.put(commit_key(1), json.dumps({**stored, "min_reader": 9}).encode())
    code, sentence = told(holdfast, command, filled.url)
    assert (code, "needs a reader of format 9" in sentence, "Upgrade holdfast" in sentence) == (2, True, True)


@pytest.mark.parametrize("command", [each for each in COMMANDS if each[0] != "verify"])
def test_a_damaged_commit_is_named_by_every_command_that_needs_it(
    holdfast: RunCommand, command: list[str], filled: ObjectStore
) -> None:
    filled.put(commit_key(1), b'{"format": 1')
    code, sentence = told(holdfast, command, filled.url)
    assert (code, commit_key(1) in sentence) == (4, True)


@pytest.mark.parametrize(
    ("url", "words"), [("s3://", "names no bucket"), ("ftp://x/y", "No store is known"), ("", "URL is empty")]
)
def test_a_url_that_names_no_store_is_refused(holdfast: RunCommand, url: str, words: str) -> None:
    code, sentence = told(holdfast, ["init", "{}"], url)
    assert (code, words in sentence) == (2, True)


def test_an_archive_that_may_not_be_written_is_told_in_one_sentence(
    holdfast: RunCommand, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(store: ObjectStore, key: str, body: bytes = b"") -> None:
        raise StoreDenied(f"Not allowed to write {key!r}: check who may write in the archive's folder.")

    monkeypatch.setattr(type(store), "put", deny)
    monkeypatch.setattr(type(store), "delete", deny)
    done = holdfast("verify", store.url)
    assert (done.code, "check who may write in the archive's folder" in one_sentence(done.err)) == (1, True)


def test_a_store_that_cannot_be_reached_is_named_with_what_to_check(
    holdfast: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",  # the discard port: nobody listens
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "s3cret-s3cret",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    done = holdfast("status", "s3://bucket/shop", "--json")
    assert done.code == 1
    assert "http://127.0.0.1:9" in done.value["error"]
    assert "Check AWS_ENDPOINT_URL and the network" in done.value["error"]
    assert "s3cret" not in done.out + done.err


def test_what_nobody_foresaw_is_still_one_sentence(
    holdfast: RunCommand, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.archive.history.restore_points.source_names", lambda state: 1 / 0)
    done = holdfast("status", store.url, "--json")
    assert done.code == 1
    assert done.value["error"].startswith(
        "unexpected ZeroDivisionError: division by zero (HOLDFAST_DEBUG=1 shows where"
    )


def test_who_debugs_sees_the_traceback(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DEBUG", "1")
    monkeypatch.setattr("holdfast.archive.history.restore_points.source_names", lambda state: 1 / 0)
    monkeypatch.setattr(sys, "argv", ["holdfast", "status", store.url])
    with pytest.raises(ZeroDivisionError):
        main()


def test_a_reader_that_leaves_early_ends_the_command_quietly(store: ObjectStore) -> None:
    command = subprocess.Popen(
        [PROGRAM, "status", store.url, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert command.stdout is not None
    command.stdout.close()
    assert command.stderr is not None
    assert command.stderr.read() == ""
    command.stderr.close()
    assert command.wait(30) == 1


def test_who_only_reads_is_not_kept_out_by_a_backup(holdfast: RunCommand, store: ObjectStore) -> None:
    with locks.acquire(store, "backup", sources=["shop"], owner=Owner(), purpose="backup r1", wait=0):
        assert holdfast("verify", store.url).code == 0
