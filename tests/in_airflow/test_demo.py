"""The demo on small data, and how Airflow and the page show it."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from bench.support.browser import browser
from tests.support.airflow.browser import Watched, log_in, new_context, pictures
from tests.support.airflow.stage import Stage
from tests.support.jobs.leftovers import check_demo_archive

pytestmark = [pytest.mark.service, pytest.mark.together]


@pytest.mark.e2e
@pytest.mark.beside
def test_everything_in_the_demo_holds(stage: Stage) -> None:
    """Backups and restores are by Airflow's operators and Spark; the one restore by the command is inline."""
    story = stage.story
    story.play(every_moment=False)
    assert story.screen.report(story.lines, []), stage.words.getvalue()
    assert "reading tables" in stage.words.getvalue()
    assert len([line for line in story.lines if line.what.startswith("restore of a time between two writes")]) == 1
    check_demo_archive(story.archive)


def test_the_page_the_form_a_run_and_its_log_show_the_demo(stage: Stage) -> None:
    """The pictures of the documentation are made here."""
    airflow, watched = stage.airflow, Watched()
    with browser() as started:
        page = watched.watch(new_context(started).new_page())
        log_in(page, airflow.url, {airflow.username: airflow.password}, airflow.username)
        page.goto(f"{airflow.url}/plugin/holdfast#archive=shop")
        frame = page.frame_locator("iframe")
        frame.get_by_role("link", name="shop", exact=True).click()
        expect(frame.locator("svg.line rect.gap")).to_have_count(1)
        expect(frame.locator("svg.line .mark text")).to_have_text("before the mistake")
        expect(frame.locator("article.verdict .badge")).to_have_text("Ready")
        mark = frame.locator("svg.line .mark line").bounding_box()
        assert mark
        page.mouse.click(mark["x"], mark["y"] + mark["height"] / 2)
        expect(frame.locator("#sources").get_by_text("Can be restored:")).to_be_visible()
        page.screenshot(path=pictures() / "page.png")

        page.goto(f"{airflow.url}/dags/restore_shop")
        page.get_by_role("button", name="Trigger").click()
        expect(page.get_by_text("Target connection")).to_be_visible()
        page.screenshot(path=pictures() / "form.png")

        runs = page.request.get(f"{airflow.url}/api/v2/dags/backup_shop/dagRuns", params={"order_by": "-run_after"})
        run_id = runs.json()["dag_runs"][0]["dag_run_id"]
        page.goto(f"{airflow.url}/dags/backup_shop/runs/{quote(run_id)}/tasks/backup_shop_db")
        expect(page.get_by_text("restorable to").first).to_be_visible()
        page.screenshot(path=pictures() / "log.png")
    assert watched.problems == []
