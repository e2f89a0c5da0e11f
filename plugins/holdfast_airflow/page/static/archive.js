// One archive: what tasks have recorded at once, and what its store says as soon as it answers.

import { get, post } from "./api.js";
import { Chosen, field } from "./chosen.js";
import { airflowLink, el, svg, table } from "./dom.js";
import { Line } from "./line.js";
import { badge } from "./list.js";
import { plans } from "./plans.js";
import { every } from "./refresh.js";
import { ago, count, moment, size, span } from "./words.js";

/** Show an archive, and above it the record of one job's run if asked for; returns a function that ends its reading. */
export function showArchive(main, name, run) {
  const parts = {};
  for (const part of ["head", "run", "verdicts", "lines", "work", "locks", "sizes", "plans", "drills", "holds", "failures"]) parts[part] = el("section", { id: part });
  main.replaceChildren(...Object.values(parts));
  parts.plans.append(plans(name));
  parts.head.append(el("h2", null, name), el("p", { class: "quiet" }, "Reading what tasks have recorded …"));
  const view = { name, parts, lines: new Map(), told: null, now: null, judged: null, progress: {} };
  const ends = [
    ...(run ? [every(4, () => readRun(view, run))] : []),
    every(5, () => readTold(view)),
    every(20, () => readNow(view)),
    every(3, () => readProgress(view)),
  ];
  return () => {
    for (const end of ends) end();
    for (const { line } of view.lines.values()) line.close();
  };
}

async function readTold(view) {
  const isFirst = !view.told;
  view.told = await get([view.name]);
  if (isFirst && view.now) drawNow(view); // what may be done was not known when it was drawn
  const { parts, told } = view;
  const now = Date.parse(told.now);
  const judged = view.judged ?? told; // the archive itself knows more than what tasks have recorded
  parts.head.replaceChildren(
    el("h2", null, view.name, " ", badge(judged.state)),
    el("p", { class: "quiet" }, [told.place, told.encrypted ? "encrypted" : "not encrypted", told.quorum ? `quorum ${told.quorum}` : "", told.commits === null ? "" : `${count(told.commits)} commits, ${size(told.bytes)}`].filter(Boolean).join(" · ")),
    el("p", { class: "quiet" }, told.recorded ? `Recorded by a task ${span(told.record_age_s)} ago.` : "No task has recorded anything yet."),
    told.mistake ? el("p", { class: "problem" }, told.mistake) : "",
    told.paused.length ? el("p", { class: "problem" }, "Paused, so these do not run: ", told.paused.map((dag) => [dagLink(dag), " "])) : "",
    told.replicas.length ? el("p", null, "Replicas: ", told.replicas.map((each) => el("span", { class: each.lost ? "missed" : "kept" }, `${each.name} ${each.lost ? "lost" : each.entries_behind ? `${count(each.entries_behind)} entries behind` : "up to date"} `))) : "",
  );
  parts.verdicts.replaceChildren(el("div", { class: "cards" }, judged.sources.map((source) => card(source, now))));
  drawLines(view);
  drawWork(view);
  parts.failures.replaceChildren(...failures(told, now));
}

function card(source, now) {
  const facts = source.facts;
  return el(
    "article",
    { class: `card verdict ${source.state.replace(" ", "-")}` },
    el("h3", null, source.source, " ", badge(source.state)),
    el(
      "dl",
      null,
      row("Newest restorable moment", facts.restorable_to ? `${ago(facts.restorable_to, now)}` : "never", source, "rpo", moment(facts.restorable_to)),
      row("Last good drill", ago(facts.drilled, now), source, "drill_within", moment(facts.drilled)),
      row("It took", facts.drill_s === null || facts.drill_s === undefined ? "not measured" : span(facts.drill_s), source, "rto"),
      row("Every file read or written", facts.verified ? `within ${span((now - Date.parse(facts.verified)) / 1000)}` : "never", source, "verified_within"),
    ),
    source.reasons.length ? el("ul", { class: "reasons" }, source.reasons.map((reason) => el("li", null, reason))) : null,
  );
}

function row(words, value, source, name, title) {
  const objective = source.objectives.find((each) => each.name === name);
  return [
    el("dt", null, words),
    el("dd", { title: title || null }, el("span", { class: objective ? (objective.is_met ? "kept" : "missed") : null }, value), objective ? el("span", { class: "quiet" }, ` (objective ${objective.limit})`) : null),
  ];
}

function drawLines(view) {
  const { parts, told } = view;
  if (!told.configured) {
    parts.lines.replaceChildren(el("p", { class: "quiet" }, "archives.yaml, as the API server reads it, does not have this archive: only its record is shown."));
    return;
  }
  for (const source of told.sources) {
    if (view.lines.has(source.source) || !source.facts.restorable_to) continue;
    const chosen = new Chosen(view.name, source.source, told.rights);
    const line = new Line(view.name, source.source, (at) => chosen.show(at));
    view.lines.set(source.source, { line, chosen, read: source.facts.restorable_to });
    parts.lines.append(el("h3", null, `What of ${source.source} can be restored`), line.element, chosen.element);
    line.read();
  }
  for (const source of told.sources) {
    const known = view.lines.get(source.source);
    if (known && known.read !== source.facts.restorable_to) {
      known.read = source.facts.restorable_to;
      known.line.read();
    }
  }
}

async function readRun(view, run) {
  const found = (await get([view.name, "progress"], { run }))[run];
  view.parts.run.replaceChildren(
    el("h3", null, `Job ${run}`),
    found
      ? el("div", { class: "card" }, el("p", { class: found.state === "failed" ? "missed" : null }, found.words), found.result ? el("pre", null, JSON.stringify(found.result, null, 2)) : "")
      : el("p", { class: "quiet" }, "The archive has no record of this run."),
  );
}

async function readProgress(view) {
  const runs = (view.told?.active ?? []).map((task) => task.run).filter(Boolean).slice(0, 20);
  if (!runs.length || !view.told.configured) return;
  view.progress = await get([view.name, "progress"], { run: runs });
  drawWork(view);
}

function drawWork(view) {
  const { active, now } = view.told;
  const at = Date.parse(now);
  view.parts.work.replaceChildren(
    el("h3", null, "What runs and waits"),
    active.length
      ? table("Tasks at work", ["Task", "State", "Step", "Rows", "Rate", "Left"], active.map((task) => taskRow(task, view.progress[task.run], at)))
      : el("p", { class: "quiet" }, "Nothing just now."),
  );
}

function taskRow(task, progress, now) {
  const known = progress && progress.state === "running" ? progress : null;
  const share = known && known.estimated_rows > 0 ? el("progress", { max: known.estimated_rows, value: Math.min(known.rows, known.estimated_rows), "aria-label": "rows" }) : null;
  return el(
    "tr",
    null,
    el("th", { scope: "row" }, taskLink(task)),
    el("td", null, { deferred: "waits", awaiting_input: "waits for a person" }[task.state] ?? task.state.replaceAll("_", " "), task.since ? el("div", { class: "quiet" }, `since ${ago(task.since, now)}`) : null),
    el("td", null, known ? known.step : ""),
    el("td", null, share, known ? ` ${count(known.rows)}${known.estimated_rows ? ` of about ${count(known.estimated_rows)}` : ""}` : ""),
    el("td", null, known ? `${size(known.bytes_per_s)}/s` : ""),
    el("td", null, known && known.left_s !== null ? `about ${span(known.left_s)}` : ""),
  );
}

async function readNow(view) {
  if (view.told && !view.told.configured) return;
  try {
    view.now = await get([view.name, "now"]);
    view.judged = view.now.entry;
  } catch (error) {
    view.judged = null;
    throw error;
  }
  drawNow(view);
}

function drawNow(view) {
  const { parts, now } = view;
  const rights = view.told?.rights ?? {};
  drawLocks(view, rights);
  parts.sizes.replaceChildren(el("h3", null, "Sizes"), ...sizes(now));
  parts.drills.replaceChildren(el("h3", null, "Drills"), drills(now.drills));
  parts.holds.replaceChildren(el("h3", null, "Held restore points"), holds(view, now.holds, rights));
}

function drawLocks(view, rights) {
  const { locks, breaks } = view.now;
  view.parts.locks.replaceChildren(
    el("h3", null, "Locks"),
    locks.length
      ? table("Locks", ["Lock", "Held for", "By", "Keeps out", "What to do", ""], locks.map((lock) => lockRow(view, lock, rights)))
      : el("p", { class: "quiet" }, "No lock is held."),
    breaks.length ? el("details", null, el("summary", null, "Locks that were broken"), el("ul", null, breaks.map((each) => el("li", null, `${moment(each.at)}: ${each.resource}, by ${each.by.user}: ${each.reason}`)))) : "",
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
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        await post([view.name, "locks", lock.txn, "break"], { reason: reason.value });
        dialog.close();
        await readNow(view);
      } catch (error) {
        result.textContent = error.message;
        result.className = "missed";
      }
    });
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  });
  return button;
}

function sizes(now) {
  const record = now.record;
  const rows = record.sources
    .filter((each) => each.bytes !== undefined && each.restorable_to)
    .map((each) => el("tr", null, el("th", { scope: "row" }, each.source), el("td", null, size(each.bytes)), el("td", null, count(each.rows)), el("td", null, String(each.backups)), el("td", null, String(each.changes)), el("td", null, moment(each.last_full)), el("td", null, moment(each.restorable_from))));
  return [
    table("Sizes by source", ["Source", "Size", "Rows of the newest full backup", "Full", "Incremental", "Last full", "Restorable from"], rows),
    growth(now.growth),
  ];
}

function growth(points) {
  if (points.length < 2) return "";
  const width = 600;
  const height = 80;
  const first = Date.parse(points[0].at);
  const length = Math.max(Date.parse(points.at(-1).at) - first, 1);
  const most = Math.max(points.at(-1).bytes, 1);
  const path = points.map((each, index) => `${index ? "L" : "M"}${(((Date.parse(each.at) - first) / length) * (width - 4) + 2).toFixed(1)} ${(height - 2 - (each.bytes / most) * (height - 8)).toFixed(1)}`).join(" ");
  const words = `What is there now, by when it was added: ${size(points[0].bytes)} at ${moment(points[0].at)}, ${size(points.at(-1).bytes)} at ${moment(points.at(-1).at)}`;
  return el("figure", null, svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "growth", role: "img", "aria-label": words }, svg("path", { d: path })), el("figcaption", { class: "quiet" }, words));
}

function drills(found) {
  if (!found.length) return el("p", { class: "quiet" }, "No drill has been run.");
  return table(
    "Drills",
    ["When", "Source", "Moment", "Result", "Took"],
    found.map((each) => el("tr", null, el("td", null, moment(each.ended)), el("td", null, each.source ?? ""), el("td", null, moment(each.at)), el("td", { class: each.state === "succeeded" ? "kept" : "missed" }, each.state === "succeeded" ? "equal to the archive" : each.error || each.state), el("td", null, each.seconds === undefined ? "" : span(each.seconds)))),
  );
}

function holds(view, found, rights) {
  if (!found.length) return el("p", { class: "quiet" }, "None: only the rules of retention keep restore points.");
  return table(
    "Held restore points",
    ["Source", "Moment", "By", "Why", ""],
    found.map((each) => el("tr", null, el("td", null, each.source), el("td", null, moment(each.at)), el("td", null, each.owner), el("td", null, each.restorable ? each.reason : `${each.reason} (cannot be restored any more)`), el("td", null, rights.hold ? releaseButton(view, each) : ""))),
  );
}

function releaseButton(view, hold) {
  const button = el("button", { type: "button", class: "small" }, "Release …");
  button.addEventListener("click", () => {
    const reason = el("input", { required: true, maxlength: 500, "aria-label": "Why it is released", placeholder: "Why" });
    const form = el("form", { class: "bar" }, reason, el("button", { type: "submit", class: "small" }, "Release"));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        await post([view.name, "holds", hold.hold, "release"], { reason: reason.value });
        await readNow(view);
      } catch (error) {
        form.append(el("span", { class: "missed" }, error.message));
      }
    });
    button.replaceWith(form);
    reason.focus();
  });
  return button;
}

function failures(told, now) {
  const found = told.failures;
  if (!found.length) return [el("h3", null, "Last failures"), el("p", { class: "quiet" }, told.no_failures)];
  return [
    el("h3", null, "Last failures"),
    table(
      "Last failures",
      ["Task", "When", "What it said", "Exit code", "Runbook"],
      found.map((task) => el("tr", null, el("th", { scope: "row" }, taskLink(task)), el("td", null, ago(task.ended, now)), el("td", { class: "missed" }, task.sentence || "see its log"), el("td", null, task.exit_code ?? ""), el("td", null, task.runbook ? el("code", null, `docs/runbooks/${task.runbook}.md`) : ""))),
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
