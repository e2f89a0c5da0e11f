// One archive: what tasks have recorded at once, and what its store says as soon as it answers.

import { get, post } from "./api.js";
import { field } from "./chosen.js";
import { airflowLink, el, onSubmit, svg, table } from "./dom.js";
import { badge } from "./archive_list.js";
import { plans } from "./plans.js";
import { every } from "./refresh.js";
import { keep, reasons, SourceCard } from "./source_card.js";
import { dagOf, startButton, startButtons } from "./start.js";
import { ago, count, moment, size, span } from "./words.js";

const PARTS = ["head", "run", "sources", "work", "locks", "failures", "growth", "drills", "plans", "holds"];

const REFUSED = 422; // by what the archive is, not by trouble with its store

const PROGRESS_AT_ONCE = 2; // each takes two requests to the store

/** Show an archive, and above it the record of one job's run if asked for; returns a function that ends its reading. */
export function showArchive(main, name, run) {
  const parts = Object.fromEntries(PARTS.map((part) => [part, el("section", { id: part })]));
  main.replaceChildren(...Object.values(parts));
  parts.plans.append(plans(name));
  const actions = el("span", { class: "actions" });
  const about = el("div", null, el("p", { class: "quiet" }, "Reading what tasks have recorded …"));
  const title = el("h2", null, name);
  parts.head.append(el("div", { class: "bar" }, title, actions), about);
  const view = { name, parts, title, actions, about, cards: new Map(), described: null, now: null, judged: null, refused: "", progress: {}, turn: 0 };
  const ends = [
    ...(run ? [every(4, () => readRun(view, run))] : []),
    every(10, () => readRecorded(view)),
    every(20, () => readNow(view)),
    every(5, () => readProgress(view)),
  ];
  return () => {
    for (const end of ends) end();
    for (const card of view.cards.values()) card.close();
  };
}

async function readRecorded(view) {
  const isFirst = !view.described;
  view.described = await get([view.name]);
  draw(view);
  if (isFirst && view.now) drawNow(view); // what may be done was not known when it was drawn
}

/** Draw what Airflow's database knows; of the verdicts, those of the archive itself where it was read. */
function draw(view) {
  const { parts, described } = view;
  if (!described) return;
  const now = Date.parse(described.now);
  const judged = view.judged ?? described;
  view.title.replaceChildren(view.name, " ", badge(judged.state));
  keep(view.actions, described, ["backup", "changes", "restore_drill", "setup"], () => startButtons(described));
  view.actions.hidden = judged.missing.length > 0 && Boolean(dagOf(described, "setup")); // its card has the button that helps
  const drill = dagOf(described, "restore_drill");
  const facts = [
    described.place,
    described.encrypted ? "encrypted" : "not encrypted",
    described.quorum ? `quorum ${described.quorum}` : "",
    judged.commits === null ? "" : `${count(judged.commits)} commits, ${size(judged.bytes)}`,
    described.next ? `next backup ${until(described.next, now)}` : "no backup is scheduled",
    drill?.next ? `next drill ${until(drill.next, now)}` : "",
    described.recorded ? `recorded by a task ${span(described.record_age_s)} ago` : "",
  ];
  view.about.replaceChildren(
    el("p", { class: "quiet" }, facts.filter(Boolean).join(" · ")),
    described.configured ? "" : el("p", { class: "quiet" }, "archives.yaml, as the API server reads it, does not have this archive: only its record is shown."),
    described.mistake ? el("p", { class: "problem" }, described.mistake) : "",
    described.paused.length ? el("p", { class: "problem" }, "Paused, so these do not run: ", described.paused.map((dag) => [dagLink(dag), " "])) : "",
    reasons(judged.reasons) ?? "",
    described.replicas.length ? el("p", null, "Replicas: ", described.replicas.map((replica) => el("span", { class: replica.lost ? "missed" : "kept" }, `${replica.name} ${replica.lost ? "lost" : replica.entries_behind ? `${count(replica.entries_behind)} entries behind` : "up to date"} `))) : "",
  );
  if (judged.missing.length) drawMissing(view, judged);
  else drawSources(view, judged);
  drawWork(view);
  parts.failures.replaceChildren(...failures(described, now));
}

/** One card in place of those of the sources: what an archive lacks that has nothing yet. */
function drawMissing(view, judged) {
  const { parts, described } = view;
  const sentences = [...(view.refused ? [view.refused] : judged.missing), ...judged.sources.flatMap((source) => source.reasons)];
  if (!parts.sources.querySelector(".missing")) {
    parts.sources.replaceChildren(el("article", { class: "card verdict missing unknown" }, el("h3", null, "Nothing is backed up yet"), el("div"), el("div", { class: "bar" })));
    view.cards.clear();
  }
  const [, body, bar] = parts.sources.firstChild.children;
  body.replaceChildren(reasons([...new Set(sentences)]) ?? "");
  keep(bar, described, ["setup"], () => startButton(described, "Set up", dagOf(described, "setup")));
}

function drawSources(view, judged) {
  const { parts, cards } = view;
  parts.sources.querySelector(".missing")?.remove();
  for (const { source } of judged.sources) {
    if (!cards.has(source)) {
      cards.set(source, new SourceCard(view.name, source));
      parts.sources.append(cards.get(source).element);
    }
    cards.get(source).update({ described: view.described, now: view.now, judged });
  }
}

function until(iso, now) {
  const seconds = (Date.parse(iso) - now) / 1000;
  return seconds > 0 ? `in ${span(seconds)}` : "is due";
}

async function readRun(view, run) {
  if (["succeeded", "failed"].includes(view.job?.state)) return; // it changes no more
  const job = (await get([view.name, "progress"], { run }))[run];
  view.job = job;
  view.parts.run.replaceChildren(
    el("h3", null, `Job ${run}`),
    job
      ? el("div", { class: "card" }, el("p", { class: job.state === "failed" ? "missed" : null }, job.words), job.result ? el("pre", null, JSON.stringify(job.result, null, 2)) : "")
      : el("p", { class: "quiet" }, "The archive has no record of this run."),
  );
}

async function readProgress(view) {
  const runs = (view.described?.active ?? []).map((task) => task.run).filter(Boolean);
  if (!runs.length || !view.described.configured) return;
  const first = view.turn % runs.length; // of many that are at work, others each time
  view.turn += PROGRESS_AT_ONCE;
  const asked = [...runs.slice(first), ...runs.slice(0, first)].slice(0, PROGRESS_AT_ONCE);
  Object.assign(view.progress, await get([view.name, "progress"], { run: asked }));
  drawWork(view);
}

function drawWork(view) {
  const { active, now } = view.described;
  const at = Date.parse(now);
  view.parts.work.replaceChildren(
    el("h3", null, "What runs and waits"),
    active.length
      ? table("Tasks at work", ["Task", "State", "Step", "Rows", "Rate", "Left"], active.map((task) => taskRow(task, view.progress[task.run], at)))
      : el("p", { class: "quiet" }, "Nothing just now."),
  );
}

function taskRow(task, progress, now) {
  const work = progress && progress.state === "running" ? progress : null;
  const share = work && work.estimated_rows > 0 ? el("progress", { max: work.estimated_rows, value: Math.min(work.rows, work.estimated_rows), "aria-label": "rows" }) : null;
  return el(
    "tr",
    null,
    el("th", { scope: "row" }, taskLink(task)),
    el("td", null, { deferred: "waits", awaiting_input: "waits for a person" }[task.state] ?? task.state.replaceAll("_", " "), task.since ? el("div", { class: "quiet" }, `since ${ago(task.since, now)}`) : null),
    el("td", null, work ? work.step : ""),
    el("td", null, share, work ? ` ${count(work.rows)}${work.estimated_rows ? ` of about ${count(work.estimated_rows)}` : ""}` : ""),
    el("td", null, work ? `${size(work.bytes_per_s)}/s` : ""),
    el("td", null, work && work.left_s !== null ? `about ${span(work.left_s)}` : ""),
  );
}

async function readNow(view) {
  if (view.described && !view.described.configured) return;
  try {
    view.now = await get([view.name, "now"]);
    view.judged = view.now.entry;
    view.refused = "";
  } catch (error) {
    view.judged = null;
    for (const card of view.cards.values()) card.fail(error.message);
    view.refused = error.status === REFUSED ? error.message : "";
    draw(view);
    if (view.described?.missing.length && view.refused) return; // the card says it
    throw error;
  }
  draw(view);
  drawNow(view);
}

function drawNow(view) {
  const { parts, now } = view;
  const rights = view.described?.rights ?? {};
  drawLocks(view, rights);
  parts.growth.replaceChildren(...growth(now.growth));
  fold(parts.drills, `Drills (${now.drills.length})`, drills(now.drills, Date.parse(now.record.at)));
  fold(parts.holds, `Held restore points (${now.holds.length})`, holds(view, now.holds, rights));
}

/** Bring a part up to date that a person may have opened. */
function fold(part, words, body) {
  const details = part.querySelector("details") ?? part.appendChild(el("details"));
  if (details.contains(document.activeElement) && document.activeElement.matches("input")) return; // a person is typing
  details.replaceChildren(el("summary", null, words), body);
}

function drawLocks(view, rights) {
  const { locks, breaks } = view.now;
  view.parts.locks.replaceChildren(
    el("h3", null, "Locks"),
    locks.length
      ? table("Locks", ["Lock", "Held for", "By", "Keeps out", "What to do", ""], locks.map((lock) => lockRow(view, lock, rights)))
      : el("p", { class: "quiet" }, "No lock is held."),
    breaks.length ? el("details", null, el("summary", null, "Locks that were broken"), el("ul", null, breaks.map((broken) => el("li", null, `${moment(broken.at)}: ${broken.resource}, by ${broken.by.user}: ${broken.reason}`)))) : "",
  );
}

function lockRow(view, lock, rights) {
  const owner = lock.owner ?? {};
  const who = owner.dag_id ? taskLink({ ...owner, map_index: owner.map_index ?? -1 }) : owner.user ? `${owner.user} on ${owner.host}, process ${owner.pid}` : "unknown";
  return el(
    "tr",
    null,
    el("th", { scope: "row" }, `${lock.mode === "W" ? "write" : lock.mode === "R" ? "read" : lock.mode ?? ""} ${lock.resource}`, el("div", { class: "quiet" }, `${lock.state}: ${lock.purpose}`)),
    el("td", null, span(lock.age_s), lock.expires_in_s === null ? "" : el("div", { class: "quiet" }, `lease ends in ${span(lock.expires_in_s)} unless renewed`)),
    el("td", null, who, lock.airflow_state ? el("div", { class: "quiet" }, lock.airflow_state) : null),
    el("td", null, lock.keeps_out.join(", ")),
    el("td", null, lock.advice),
    el("td", null, rights.break && lock.state !== "intent" ? breakButton(view, lock) : ""),
  );
}

function breakButton(view, lock) {
  const button = el("button", { type: "button", class: "small danger" }, "Break …");
  button.addEventListener("click", () => {
    const reason = el("input", { required: true, maxlength: 500, size: 40, name: "reason" });
    const result = el("p", { role: "status" });
    const close = el("button", { type: "button", class: "small", onclick: () => dialog.close() }, "Cancel");
    const form = el(
      "form",
      { method: "dialog" },
      el("h4", null, `Break the lock of ${lock.resource}`),
      el("p", null, "What its holder has not committed is lost. Its holder notices at its next check and stops."),
      el("p", null, lock.advice),
      field("Why", reason, "Kept in the archive with your name."),
      el("div", { class: "bar" }, el("button", { type: "submit", class: "danger" }, "Break this lock"), close),
      result,
    );
    const dialog = el("dialog", { "aria-label": "Break a lock" }, form);
    onSubmit(form, result, async () => {
      await post([view.name, "locks", lock.txn, "break"], { reason: reason.value });
      dialog.close();
      await readNow(view);
    });
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  });
  return button;
}

const STEPS = [1, 2, 5, 10];

/** What there is now by when it was added, with axes of time and size. */
function growth(points) {
  if (points.length < 2) return [];
  const first = Date.parse(points[0].at);
  const length = Math.max(Date.parse(points.at(-1).at) - first, 1);
  const most = Math.max(points.at(-1).bytes, 1);
  const decade = 10 ** Math.floor(Math.log10(most));
  const top = STEPS.find((step) => step * decade >= most) * decade;
  const path = points.map((point, index) => `${index ? "L" : "M"}${(((Date.parse(point.at) - first) / length) * 1000).toFixed(1)} ${(100 - (point.bytes / top) * 100).toFixed(1)}`).join(" ");
  const words = `What is there now, by when it was added: ${size(points[0].bytes)} on ${points[0].at.slice(0, 10)}, ${size(points.at(-1).bytes)} on ${points.at(-1).at.slice(0, 10)}.`;
  const day = length > 2 * 86400e3 ? (iso) => iso.slice(0, 10) : (iso) => iso.slice(0, 16).replace("T", " ");
  const ends = [points[0].at, new Date(first + length / 2).toISOString(), points.at(-1).at];
  const picture = svg("svg", { viewBox: "0 0 1000 100", preserveAspectRatio: "none", role: "img", "aria-label": words }, svg("path", { class: "grid", d: "M0 0H1000M0 50H1000M0 100H1000" }), svg("path", { class: "area", d: `${path} V100 H0 Z` }), svg("path", { d: path }));
  return [
    el("h3", null, "Growth"),
    el("figure", { class: "growth" }, el("div", { class: "sizes" }, [top, top / 2, 0].map((bytes) => el("span", null, size(bytes)))), picture, el("div", { class: "times" }, ends.map((end) => el("span", null, day(end)))), el("figcaption", { class: "quiet" }, words)),
  ];
}

function drills(finished, now) {
  if (!finished.length) return el("p", { class: "quiet" }, "No drill has been run.");
  const number = (value) => (value === undefined ? "" : count(value));
  return table(
    "Drills",
    ["Ended", "Source", "Moment", "Result", "Rows", "Tables", "Took"],
    finished.map((drill) => el("tr", null, el("td", { title: moment(drill.ended) }, ago(drill.ended, now)), el("td", null, drill.source ?? ""), el("td", null, moment(drill.at)), el("td", { class: drill.state === "succeeded" ? "kept" : "missed" }, drill.state === "succeeded" ? "equal to the archive" : drill.error || drill.state), el("td", null, number(drill.rows)), el("td", null, number(drill.tables)), el("td", null, drill.seconds === undefined ? "" : span(drill.seconds)))),
  );
}

function holds(view, kept, rights) {
  if (!kept.length) return el("p", { class: "quiet" }, "None: only the rules of retention keep restore points.");
  return table(
    "Held restore points",
    ["Source", "Moment", "By", "Why", ""],
    kept.map((hold) => el("tr", null, el("td", null, hold.source), el("td", null, moment(hold.at)), el("td", null, hold.owner), el("td", null, hold.restorable ? hold.reason : `${hold.reason} (cannot be restored any more)`), el("td", null, rights.hold ? releaseButton(view, hold) : ""))),
  );
}

function releaseButton(view, hold) {
  const button = el("button", { type: "button", class: "small" }, "Release …");
  button.addEventListener("click", () => {
    const reason = el("input", { required: true, maxlength: 500, "aria-label": "Why it is released", placeholder: "Why" });
    const result = el("span", { role: "status" });
    const form = el("form", { class: "bar" }, reason, el("button", { type: "submit", class: "small" }, "Release"), result);
    onSubmit(form, result, async () => {
      await post([view.name, "holds", hold.hold, "release"], { reason: reason.value });
      await readNow(view);
    });
    button.replaceWith(form);
    reason.focus();
  });
  return button;
}

function failures(described, now) {
  const tasks = described.failures;
  if (!tasks.length) return [el("p", { class: "quiet" }, described.no_failures)];
  return [
    el("h3", null, "Last failures"),
    table(
      "Last failures",
      ["Task", "When", "What it said", "Exit code", "Runbook"],
      tasks.map((task) => el("tr", null, el("th", { scope: "row" }, taskLink(task)), el("td", null, ago(task.ended, now)), el("td", { class: "missed" }, task.sentence || "see its log"), el("td", null, task.exit_code ?? ""), el("td", null, task.runbook ? el("code", null, `docs/runbooks/${task.runbook}.md`) : ""))),
    ),
  ];
}

function dagLink(dag) {
  return airflowLink(`dags/${encodeURIComponent(dag)}`, dag);
}

function taskLink(task) {
  const mapped = task.map_index >= 0;
  const where = task.task_id ? `/tasks/${encodeURIComponent(task.task_id)}${mapped ? `/mapped/${task.map_index}` : ""}` : "";
  return airflowLink(`dags/${encodeURIComponent(task.dag_id)}/runs/${encodeURIComponent(task.run_id)}${where}`, `${task.dag_id} · ${task.task_id ?? "run"}${mapped ? ` [${task.map_index}]` : ""}`);
}
