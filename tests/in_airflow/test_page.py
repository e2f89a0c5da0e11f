"""The page in a running Airflow, by a real browser, and each of its routes by who may and who may not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml
from playwright.sync_api import Browser, BrowserContext, FrameLocator, Page, expect

from bench.support.browser import browser
from demo.airflow import AirflowStandalone
from holdfast.archive import Archive
from holdfast.archive.locks.break_lock import read_breaks
from holdfast.postgresql.connection.address import Address
from holdfast.storage import ObjectStore
from locking import Owner, RWLock, inspect
from tests.support.airflow.browser import Watched, log_in, new_context, pictures
from tests.support.airflow.stage import HOSTILE, LIMIT_S, USERS, Stage
from tests.support.jobs.command import until

pytestmark = [pytest.mark.service, pytest.mark.together]

CARD = 700
"""Pixels that the card of a source is high, at most."""

MISTAKEN = {"url": "mistaken", "sources": {"crm": {"url": "postgresql://db/crm", "objective": {"rpo": "1d"}}}}
"""An archive with a mistake, as archives.yaml has it."""


@dataclass(frozen=True)
class Market:
    """The archive that is changed here, in a running Airflow with people of four roles."""

    airflow: AirflowStandalone
    store: ObjectStore
    source: Address
    lineage: Path
    configuration: Path
    passwords: Mapping[str, str]
    clients: ExitStack

    def client(self, user: str | None) -> httpx.Client:
        """Return a client of the API server, logged in as a user or as nobody; it is closed in the end."""
        hooks = {"response": [self._explain]}
        made = self.clients.enter_context(
            httpx.Client(base_url=self.airflow.url, timeout=120, trust_env=False, event_hooks=hooks)
        )
        if user:
            token = made.post("/auth/token", json={"username": user, "password": self.passwords[user]})
            made.headers["Authorization"] = f"Bearer {token.json()['access_token']}"
        return made

    def _explain(self, answer: httpx.Response) -> None:
        """Fail with what Airflow's log says where the server has failed: an answer does not quote it."""
        if answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR:
            pytest.fail(f"{answer.request.url}: {self.airflow.log_file.read_text(errors='replace')[-8000:]}")

    def end(self, dag: str, run: str) -> str:
        """Wait for the end of a run and return its state."""
        return self.airflow.api.wait_for_run(dag, run, timeout=LIMIT_S, poll=0.5)

    def with_a_mistake(self) -> str:
        """Return the text of archives.yaml with one more archive, which has a mistake."""
        said = yaml.safe_load(self.configuration.read_text())
        return json.dumps({"archives": {**said["archives"], "mistaken": MISTAKEN}})

    @contextmanager
    def configured(self, text: str) -> Iterator[None]:
        """Replace the text of archives.yaml."""
        before = self.configuration.read_text()
        self.configuration.write_text(text)
        try:
            yield
        finally:
            self.configuration.write_text(before)


@pytest.fixture(scope="module")
def market(stage: Stage) -> Iterator[Market]:
    airflow = stage.airflow
    for name in ("backup_market", "restore_market", "backup_gone"):
        airflow.api.wait_for_dag(name)
    passwords = json.loads((airflow.home / "passwords.json").read_text())
    lineage, configuration = stage.folder.with_name("lineage"), stage.folder / "archives.yaml"
    with ExitStack() as clients:
        yield Market(airflow, stage.market, stage.market_source, lineage, configuration, passwords, clients)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def session(chromium: Browser) -> Iterator[BrowserContext]:
    made = new_context(chromium)
    yield made
    made.close()


def routes(client: httpx.Client) -> list[tuple[str, str]]:
    """Return method and address of each route, as the application itself describes them, and those of assets."""
    values = {"archive": "market", "source": "shop", "txn": "0" * 32, "hold": "0" * 12, "operation": "compaction"}
    told = client.get("/holdfast/openapi.json").json()["paths"]
    found = [(method.upper(), path.format(**values)) for path, methods in told.items() for method in methods]
    return [*found, ("GET", "/"), ("GET", "/openapi.json"), ("GET", "/assets/page.js"), ("GET", "/assets/page.css")]


def test_every_route_is_refused_to_nobody_and_every_change_to_a_viewer(market: Market) -> None:
    admin, viewer, nobody = market.client("demo"), market.client("victor"), market.client(None)
    every = routes(admin)
    assert len(every) == 14
    for method, path in every:
        refused = nobody.request(method, f"/holdfast{path}", json={}, headers={"X-Holdfast-Request": "page"})
        assert refused.status_code == (303 if path == "/" else 401), path
        assert "market" not in refused.text
        seen = viewer.request(method, f"/holdfast{path}", json={}, headers={"X-Holdfast-Request": "page"})
        assert (seen.status_code == 403) is (method == "POST"), (path, seen.text)
    forged = nobody.get("/holdfast/api/archives", headers={"Authorization": "Bearer x.y.z"})
    assert forged.status_code in (401, 403)
    strict = nobody.get("/holdfast/").headers
    assert "default-src 'none'" in strict["content-security-policy"]


def test_changes_need_the_pages_own_header_and_breaking_the_right_on_connections(market: Market) -> None:
    path = f"/holdfast/api/archives/market/locks/{'0' * 32}/break"
    body, header = {"reason": "it is over"}, {"X-Holdfast-Request": "page"}
    for user, without, with_header in (("demo", 403, 422), ("olga", 403, 422), ("uma", 403, 403)):
        client = market.client(user)
        assert client.post(path, json=body).status_code == without
        answer = client.post(path, json=body, headers=header)
        assert answer.status_code == with_header, (user, answer.text)
    assert "there is no lock with txn" in answer.text or answer.json() == {"error": "Forbidden"}
    rights = {user: market.client(user).get("/holdfast/api/archives/market").json()["rights"] for user in USERS}
    starts = {user: "backup_market" in told.pop("start") for user, told in rights.items()}
    assert starts == {"demo": True, "olga": True, "uma": True, "victor": False}
    assert rights == {
        "demo": {"restore": True, "hold": True, "break": True},
        "olga": {"restore": True, "hold": True, "break": True},
        "uma": {"restore": True, "hold": True, "break": False},
        "victor": {"restore": False, "hold": False, "break": False},
    }


def test_a_backup_is_seen_and_the_list_says_what_needs_a_person(market: Market) -> None:
    api, viewer = market.airflow.api, market.client("victor")
    run, gone = api.trigger("backup_market", {"kind": "changes"}), api.trigger("backup_gone", {})
    assert (market.end("backup_market", run), market.end("backup_gone", gone)) == ("success", "failed")
    links = viewer.get(f"/api/v2/dags/backup_market/dagRuns/{run}/taskInstances/backup_shop/links").json()
    job = links["extra_links"]["Job"]
    assert links["extra_links"]["Archive"] == "/holdfast/?archive=market"
    recorded = viewer.get("/holdfast/api/archives/market/progress", params={"run": job.partition("run=")[2]})
    assert [record["state"] for record in recorded.json().values()] == ["succeeded"]
    check_lineage(market)
    with market.configured(market.with_a_mistake()):
        archives = viewer.get("/holdfast/api/archives").json()["archives"]
    by_name = {archive["archive"]: archive for archive in archives}
    assert list(by_name) == sorted(by_name)
    assert by_name["idle"]["mistake"].startswith("Airflow has no pool 'backups', so no task of this archive starts")
    source = by_name["market"]["sources"][0]
    assert by_name["market"]["record_age_s"] < 120
    assert [(each["name"], each["is_met"]) for each in source["objectives"]] == [("rpo", True), ("drill_within", False)]
    assert source["reasons"] == ["drill_within 7d is missed: no drill of it has gone well"]
    assert {by_name[name]["state"] for name in ("gone", "idle", "market", "mistaken")} == {"not ready"}
    assert "is not an archive" in " ".join(by_name["gone"]["sources"][0]["reasons"])
    assert "unknown key 'objective'; did you mean 'objectives'" in by_name["mistaken"]["mistake"].replace("-", " ")
    detail = viewer.get("/holdfast/api/archives/gone").json()
    [failure] = [each for each in detail["failures"] if each["dag_id"] == "backup_gone"]
    assert failure["runbook"] == "backup-failed"
    assert failure["exit_code"] == 2
    refused = viewer.get("/holdfast/api/archives/gone/now")
    assert refused.status_code == 422
    assert "is not an archive" in refused.json()["error"]


def check_lineage(market: Market) -> None:
    """Check that Airflow's OpenLineage provider has told what the backup read and wrote."""
    events = [json.loads(line) for line in market.lineage.read_text().splitlines()]
    told = [each for each in events if each["eventType"] == "COMPLETE" and each["outputs"]]
    (done,) = [each for each in told if each["job"]["name"] == "backup_market.backup_shop"]
    assert [each["name"] for each in done["inputs"]] == [market.source.database]
    (output,) = done["outputs"]
    assert (output["namespace"], output["name"]) == ("file", market.store.url.removeprefix("file://"))
    assert output["facets"]["version"]["datasetVersion"].isdigit()


def open_archive(page: Page, url: str) -> FrameLocator:
    """Open the page in Airflow's navigation, and the archive by its link."""
    page.goto(f"{url}/plugin/holdfast")
    frame = page.frame_locator("iframe")
    frame.get_by_role("link", name="market", exact=True).click()
    expect(frame.locator("svg.line rect.restorable")).not_to_have_count(0)
    return frame


def test_a_moment_is_chosen_by_a_click_and_restored_and_the_link_leads_into_airflow(
    market: Market, session: BrowserContext, watched: Watched
) -> None:
    page = watched.watch(session.new_page())
    log_in(page, market.airflow.url, market.passwords, "demo")
    frame = open_archive(page, market.airflow.url)
    mark = frame.locator("svg.line .mark line").first.bounding_box()
    assert mark
    page.mouse.click(mark["x"], mark["y"] + mark["height"] / 2)
    expect(frame.locator("#sources").get_by_text("Can be restored:")).to_be_visible()
    # The other mark stands too near to be drawn, until there is room. Its name is text, not markup.
    for _ in range(8):
        frame.get_by_role("button", name="Zoom in").click()
    expect(frame.locator("svg.line .mark title").filter(has_text=HOSTILE)).to_have_count(1)
    frame.get_by_text("What is shown, as a list").click()
    expect(frame.locator("#sources li").filter(has_text=f"mark {HOSTILE}")).to_be_visible()
    frame.get_by_role("button", name="Restore to this moment").click()
    frame.locator("input[name=target]").fill("target")
    page.screenshot(path=pictures() / "restore-form.png")
    frame.get_by_role("button", name="Start").click()
    expect(frame.get_by_text("Plan", exact=True)).to_be_visible(timeout=60_000)
    frame.locator(".chosen .card [role=status] a").click()
    page.wait_for_url(re.compile(r"/dags/restore_market/runs/"))
    assert watched.problems == []
    assert [answer for answer in watched.answers if answer[0] >= 500] == []


def test_a_lock_is_explained_and_broken_with_a_trace_in_two_places(
    market: Market, session: BrowserContext, watched: Watched
) -> None:
    held = RWLock(market.store, "ingest-shop", owner=Owner(), lease=300).read(purpose=HOSTILE, wait=0)
    page = watched.watch(session.new_page())
    log_in(page, market.airflow.url, market.passwords, "demo")
    frame = open_archive(page, market.airflow.url)
    row = frame.locator("#locks tbody tr").filter(has_text=HOSTILE)
    expect(row).to_have_count(1)
    # As soon as both are read: what its store says of a lock, and what this user may do. The next look is in 20 s.
    row.get_by_role("button", name="Break").click(timeout=10_000)
    frame.locator("dialog input[name=reason]").fill(HOSTILE)
    frame.get_by_role("button", name="Break this lock").click()
    expect(frame.get_by_text("Locks that were broken")).to_be_visible()
    assert [info for info in inspect(market.store) if info.txn == held.txn and info.state == "held"] == []
    [record] = [each for each in read_breaks(market.store) if (each.result or {})["txn"] == held.txn]
    assert (record.result or {})["by"]["user"] == "demo"
    assert (record.result or {})["reason"] == HOSTILE
    logged = market.client("demo").get("/api/v2/eventLogs", params={"event": "holdfast_break_lock"}).json()
    assert logged["event_logs"][0]["owner"] == "demo"
    assert watched.problems == []


def test_a_restore_point_is_held_and_released_by_who_may(market: Market) -> None:
    user, header = market.client("uma"), {"X-Holdfast-Request": "page"}
    body = {"source": "shop", "at": "mark:before the mistake", "reason": "for the audit"}
    made = user.post("/holdfast/api/archives/market/holds", json=body, headers=header)
    assert made.status_code == 200, made.text
    assert (made.json()["owner"], made.json()["restorable"]) == ("uma", True)
    seen = market.client("victor").get("/holdfast/api/archives/market/now").json()
    assert [each["reason"] for each in seen["holds"]] == ["for the audit"]
    path = f"/holdfast/api/archives/market/holds/{made.json()['hold']}/release"
    assert user.post(path, json={"reason": ""}, headers=header).status_code == 422
    assert user.post(path, json={"reason": "audited"}, headers=header).status_code == 200
    assert market.client("victor").get("/holdfast/api/archives/market/now").json()["holds"] == []


def until_asked(market: Market, client: httpx.Client, run: str) -> str:
    """Wait until a run has parked to ask a person, and return the address of the question.

    Airflow 3.3 fails a task that is answered before its scheduler has seen it parked with its process gone, as no
    person is quick enough to do. What the scheduler writes once it has seen that is the only proof.
    """
    path = f"/api/v2/dags/restore_market/dagRuns/{run}/taskInstances/approve"
    seen = f"TaskInstance Finished: dag_id=restore_market, task_id=approve, run_id={run},"
    until(
        lambda: seen in market.airflow.log_file.read_text(errors="replace"),
        "the scheduler to see the question",
        LIMIT_S,
    )
    assert client.get(path).json()["state"] == "awaiting_input"
    return f"{path}/-1/hitlDetails"


def test_a_restore_waits_for_who_may_approve_it_and_holds_no_lock_meanwhile(market: Market) -> None:
    api, olga = market.airflow.api, market.client("olga")
    form = {"target_connection": "target", "source": "shop", "at": "latest", "dry_run": False}
    rejected, approved = (api.trigger("restore_market", form) for _ in range(2))
    question, other = (until_asked(market, olga, run) for run in (rejected, approved))
    asked = olga.get(question).json()
    assert asked["subject"] == "Restore shop to latest into the database of target?"
    assert [info for info in inspect(market.store) if info.state == "held"] == []
    seen = market.client("victor").get("/holdfast/api/archives/market").json()["active"]
    assert [each["state"] for each in seen if each["task_id"] == "approve"] == ["awaiting_input"] * 2
    assert market.client("uma").patch(question, json={"chosen_options": ["Approve"]}).status_code == 403
    assert olga.patch(question, json={"chosen_options": ["Reject"]}).status_code == 200
    assert olga.patch(other, json={"chosen_options": ["Approve"]}).status_code == 200
    assert [market.end("restore_market", run) for run in (rejected, approved)] == ["success", "success"]
    assert {each.task_id: each.state for each in api.tasks("restore_market", rejected)}["restore"] == "skipped"
    assert api.xcom("restore_market", approved, "restore")["rows"] == 100


def test_a_moment_that_cannot_be_restored_is_refused_with_the_nearest(market: Market) -> None:
    viewer = market.client("victor")
    path = "/holdfast/api/archives/market/sources/shop"
    early = viewer.get(f"{path}/moment", params={"at": "2020-01-01T00:00:00Z"})
    assert early.status_code == 409
    assert "nearest" in early.json()["error"]
    assert viewer.get(f"{path}/moment", params={"at": "nonsense"}).status_code == 422
    assert viewer.get(f"{path}/line", params={"start": "2026-01-01T00:00:00"}).status_code == 422
    assert viewer.get("/holdfast/api/archives/market/sources/none/line").status_code == 422
    assert viewer.get("/holdfast/api/archives/..%2Fmarket").status_code in (404, 422)


def test_what_maintenance_would_do_is_planned_once_it_is_opened_and_changes_nothing(
    market: Market, session: BrowserContext, watched: Watched
) -> None:
    before = Archive.open(market.store).state.sequence
    page = watched.watch(session.new_page())
    log_in(page, market.airflow.url, market.passwords, "victor")
    frame = open_archive(page, market.airflow.url)
    expect(frame.get_by_text("What a compaction would do now")).to_be_visible()
    assert planned(watched) == []
    frame.get_by_text("What a compaction would do now").click()
    expect(frame.locator("#plans")).to_contain_text("Every restore point stays.")
    frame.get_by_text("What a truncation would do now").click()
    expect(frame.locator("#plans td.kept").first).to_have_text("would stay")
    frame.locator("#plans").scroll_into_view_if_needed()
    page.screenshot(path=pictures() / "plans.png")
    assert planned(watched) == ["compaction", "truncation"]
    assert Archive.open(market.store).state.sequence == before
    assert watched.problems == []


def planned(watched: Watched) -> list[str]:
    """Return the operations whose plans a page has asked for."""
    return [url.rpartition("/")[2] for status, url in watched.answers if "/plans/" in url and status == 200]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_of_the_page_in_both_themes(market: Market, chromium: Browser, theme: str, watched: Watched) -> None:
    context = new_context(chromium, theme)
    page = watched.watch(context.new_page())
    log_in(page, market.airflow.url, market.passwords, "victor")
    frame = open_archive(page, market.airflow.url)
    expect(frame.locator("#growth svg")).to_be_visible()
    for words in ("Restore to this moment", "Back up now", "Drill now"):
        expect(frame.get_by_role("button", name=words)).to_have_count(0)
    page.screenshot(path=pictures() / f"archive-{theme}.png")
    ground = frame.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[theme]
    frame.get_by_role("link", name="All archives").click()
    expect(frame.get_by_role("link", name="gone", exact=True)).to_be_visible()
    page.screenshot(path=pictures() / f"archives-{theme}.png")
    assert watched.problems == []
    context.close()


def test_a_backup_is_started_from_the_page_and_a_hidden_page_asks_nothing(
    market: Market, session: BrowserContext, watched: Watched
) -> None:
    page = watched.watch(session.new_page())
    log_in(page, market.airflow.url, market.passwords, "uma")
    page.clock.install()
    page.goto(f"{market.airflow.url}/holdfast/?archive=market")
    expect(page.locator("article.verdict")).to_have_count(1)
    expect(page.locator("svg.line rect.restorable")).not_to_have_count(0)
    assert page.locator("article.verdict").evaluate("card => card.offsetHeight") < CARD
    with page.expect_response(re.compile(r"/dags/backup_market/dagRuns$")) as started:
        page.get_by_role("button", name="Back up now").click()
    run = started.value.json()["dag_run_id"]
    assert market.end("backup_market", run) == "success"
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(120_000)
    assert [url for url in asked if "/line?" not in url] == []  # that of the last look, for which no store is asked
    with page.expect_response(re.compile(r"/api/archives/market/now$")):
        page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    page.get_by_text("Backups (").click()
    expect(page.locator("article.verdict tbody tr td.kept").first).to_have_text("good")
    assert watched.problems == []


def test_the_line_is_used_by_the_keyboard_alone(market: Market, session: BrowserContext, watched: Watched) -> None:
    page = watched.watch(session.new_page())
    log_in(page, market.airflow.url, market.passwords, "victor")
    page.goto(f"{market.airflow.url}/holdfast/?archive=market")
    line = page.locator("svg.line")
    expect(line.locator("rect.restorable")).not_to_have_count(0)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    line.focus()
    page.keyboard.press("End")
    expect(page.locator("#sources").get_by_text("Can be restored:")).to_be_visible()
    page.keyboard.press("+")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#said")).not_to_be_empty()
    assert watched.problems == []


def test_no_password_is_on_the_page_in_notes_or_in_records(market: Market) -> None:
    secrets = {market.source.password, *market.passwords.values()} - {None, ""}
    assert secrets
    client = market.client("demo")
    paths = [path for method, path in routes(client) if method == "GET"]
    texts = [client.get(f"/holdfast{path}", params={"run": "x", "at": "latest"}).text for path in paths]
    texts.append(client.get("/api/v2/assets/events", params={"limit": 100}).text)
    texts.append(client.get("/api/v2/plugins").text)
    assert not [secret for secret in secrets for text in texts if str(secret) in text]


def test_a_folder_that_no_yaml_can_be_read_from_leaves_the_last_good_configuration(market: Market) -> None:
    client = market.client("demo")
    with market.configured("archives: ["):
        shown = client.get("/holdfast/api/archives").json()
        assert "archives.yaml" in shown["problem"]
        assert "market" in [archive["archive"] for archive in shown["archives"]]
        assert client.get("/holdfast/api/archives/market/now").status_code == 200
