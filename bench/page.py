"""`python -m bench.page`: how soon the Holdfast page is there, beside a page of Airflow's own.

By a real browser, with many archives and one that has seen very many commits.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from tenacity import Retrying, stop_after_delay, wait_fixed

from bench.opening import FILES
from bench.parse_time import archives_yaml
from bench.support import machine
from bench.support.browser import browser
from bench.support.command import measure_and_report, new_parser, say
from bench.support.figures import Comparison, Ratio, Series, collect, compare
from bench.support.grown_archive import Shape, make_archive
from bench.support.report import comparison_lines, verdict
from demo.airflow import AirflowStandalone
from holdfast.archive import Archive
from holdfast.config.archives_yaml import read_archives
from holdfast.status import record_of
from holdfast.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[1]

PAINT = "the list of archives: first paint"
LIST = "the list of archives: all rows"
LINE = "one archive: its restorable-time line"
DAGS_PAINT = "Airflow's list of DAGs: first paint"
DAGS = "Airflow's list of DAGs: its first rows"

COMPARISONS = (
    Comparison("first paint, beside Airflow's list of DAGs", PAINT, DAGS_PAINT, target=1.0),
    Comparison("all archives, beside the first rows of Airflow's list of DAGs", LIST, DAGS, target=1.0),
    Comparison("the line, beside the first rows of Airflow's list of DAGs", LINE, DAGS),
)

LONGEST_S = 1.0
"""That the first paint may take."""

_NOTES = (
    "Each time is from the navigation on, in a browser session without a cache: first paint as the browser reports it "
    "(first contentful paint), and until the rows or the line are in the document.",
    "The list has a record of each archive, as a task leaves it. The one archive that is opened has seen many commits; "
    "the API server has it open already, as from the second look on.",
    "Airflow's list of DAGs shows 50 of its DAGs at first.",
)


@dataclass(frozen=True)
class PageTimes:
    """What the bench found out."""

    archives: int
    commits: int
    series: Mapping[str, Series]
    facts: Mapping[str, str]
    measured: str

    @property
    def ratios(self) -> list[Ratio]:
        """Return how the page compares with Airflow's own."""
        return [compare(each, self.series) for each in COMPARISONS]

    @property
    def missed(self) -> Sequence[str]:
        """Return what was not reached, in words."""
        slow = [PAINT] if self.series[PAINT].median > LONGEST_S else []
        return [*slow, *(each.comparison.what for each in self.ratios if each.reached is False)]


def main() -> int:
    """Run the bench; 0 when all was reached, 1 when something was missed."""
    parser = new_parser("bench.page", "Measure how soon the Holdfast page is there.")
    parser.add_argument("--archives", type=int, default=200, help="in archives.yaml, of three sources each")
    parser.add_argument("--commits", type=int, default=100_000, help="of the archive that is opened")
    given = parser.parse_args()
    return measure_and_report(
        "page",
        given.results,
        lambda: measure(given.archives, given.commits, given.rounds),
        as_json=lambda found: (
            json.dumps({**asdict(found), "ratios": [asdict(each) for each in found.ratios]}, indent=1) + "\n"
        ),
        as_markdown=as_markdown,
    )


def measure(archives: int, commits: int, rounds: int) -> PageTimes:
    """Open the pages in turn, in an Airflow of one's own."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as place:
        folder = Path(place)
        old = folder / "old"
        say(f"making an archive of {commits:,} commits")
        make_archive(old, Shape(commits=commits, files=min(FILES, commits * 10)))
        text = archives_yaml(archives, 3).replace("/archives/a0\n", f"{old}\n")
        (folder / "archives.yaml").write_text(text)
        with AirflowStandalone(
            home=folder / "airflow",
            plugins=ROOT / "plugins",
            env={
                "HOLDFAST_ARCHIVES": str(folder / "archives.yaml"),
                "PYTHONPATH": str(ROOT),
                "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
                "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
            },
            say=say,
        ) as airflow:
            _fill(airflow, folder / "archives.yaml", archives)
            with browser() as started:
                _look(started, airflow, archives)  # the first one finds nothing in memory anywhere
                times = [_look(started, airflow, archives) for _ in range(rounds)]
    facts = {**machine.host(), "Airflow": version("apache-airflow")}
    return PageTimes(archives, commits, collect(times), facts, datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))


def _fill(airflow: AirflowStandalone, config: Path, archives: int) -> None:
    """Wait for the DAGs of all archives, and leave a record of each, as a task would."""
    read = read_archives(config)
    opened = Archive.open(open_store(read.archives["a0"].location()))
    with httpx.Client(base_url=airflow.url, timeout=60, trust_env=False) as client:
        login = {"username": airflow.username, "password": airflow.password}
        token = client.post("/auth/token", json=login).json()["access_token"]
        client.headers["Authorization"] = f"Bearer {token}"
        _wait_for_dags(client, archives)
        for number in range(archives):
            uri = f"x-holdfast://a{number}/record"
            found = client.get("/api/v2/assets", params={"uri_pattern": uri}).json()["assets"]
            record = record_of(opened, read.archives[f"a{number}"].sources)
            body = {"asset_id": next(each["id"] for each in found if each["uri"] == uri), "extra": record}
            client.post("/api/v2/assets/events", json=body).raise_for_status()


def _wait_for_dags(client: httpx.Client, archives: int) -> None:
    for number in range(archives):
        for attempt in Retrying(stop=stop_after_delay(600), wait=wait_fixed(1)):
            with attempt:
                client.get(f"/api/v2/dags/restore_a{number}").raise_for_status()


def _look(started: Browser, airflow: AirflowStandalone, archives: int) -> dict[str, float]:
    context = started.new_context(viewport={"width": 1400, "height": 1000})
    login = {"username": airflow.username, "password": airflow.password}
    token: dict[str, Any] = httpx.post(f"{airflow.url}/auth/token", json=login, trust_env=False).json()
    context.add_cookies([{"name": "_token", "value": token["access_token"], "url": airflow.url}])
    found: dict[str, float] = {}
    page = context.new_page()
    found[LIST] = _seconds(page, f"{airflow.url}/holdfast/", f"tbody th >> nth={archives - 1}")
    found[PAINT] = _first_paint(page)
    found[LINE] = _seconds(context.new_page(), f"{airflow.url}/holdfast/?archive=a0", "svg.line rect.restorable")
    page = context.new_page()
    found[DAGS] = _seconds(page, f"{airflow.url}/dags", "text=archive_verification_a >> nth=0")
    found[DAGS_PAINT] = _first_paint(page)
    context.close()
    say(", ".join(f"{what} {seconds:.2f} s" for what, seconds in found.items()))
    return found


def _seconds(page: Page, url: str, selector: str) -> float:
    began = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.wait_for_selector(selector, state="attached", timeout=120_000)
    return time.perf_counter() - began


def _first_paint(page: Page) -> float:
    asked = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    return float(page.evaluate(asked)) / 1000


def as_markdown(found: PageTimes) -> str:
    """Return the report for people."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: PageTimes) -> Iterator[str]:
    yield "# The Holdfast page"
    yield ""
    yield (
        f"{found.measured}, {len(found.series[LIST].seconds)} rounds, interleaved. {found.archives:,} archives of "
        f"three sources; the one that is opened has seen {found.commits:,} commits."
    )
    yield ""
    yield (
        f"First paint: {found.series[PAINT].median:.2f} s, at most {LONGEST_S:g} s wanted: "
        f"{verdict(found.series[PAINT].median <= LONGEST_S)}."
    )
    yield from comparison_lines(found.ratios, found.series, _NOTES, found.facts)


if __name__ == "__main__":
    sys.exit(main())
