// The list of archives: one row each, those first that need a person.

import { get } from "./api.js";
import { el, table } from "./dom.js";
import { every } from "./refresh.js";
import { ago, count, size, span } from "./words.js";

const WORDS = { "not ready": "Not ready", unknown: "Unknown", ready: "Ready" };

const MOST_REASONS = 3;

/** A state as a word with a colour. */
export function badge(state) {
  return el("span", { class: `badge ${state.replace(" ", "-")}` }, WORDS[state]);
}

/** Show the list. With `dag`, go to the archive that this DAG belongs to. */
export function showList(main, dag) {
  let filter = "";
  let last = null;
  const input = el("input", {
    type: "search",
    placeholder: "Filter by name",
    "aria-label": "Filter archives by name",
    oninput: () => {
      filter = input.value.toLowerCase();
      draw();
    },
  });
  const counts = el("span", { class: "counts" });
  const body = el("div", { class: "archives" }, el("p", { class: "quiet" }, "Reading what tasks have recorded …"));
  main.replaceChildren(el("div", { class: "bar" }, el("h2", null, "Archives"), counts, input), body);

  function draw() {
    if (!last) return;
    const now = Date.parse(last.now);
    const shown = last.archives.filter((archive) => archive.archive.toLowerCase().includes(filter));
    const states = Object.keys(WORDS).map((state) => [state, shown.filter((archive) => archive.state === state).length]);
    counts.replaceChildren(...states.filter(([, number]) => number).flatMap(([state, number]) => [badge(state), ` ${number} `]));
    input.hidden = !last.archives.length;
    body.replaceChildren(
      last.problem ? el("p", { class: "problem", role: "alert" }, `archives.yaml: ${last.problem}. Shown is the last good one.`) : "",
      shown.length
        ? table(
            "Archives with their state",
            ["State", "Archive", "Source", "Newest restorable moment", "Last good drill", "Verified", "Now", "Recorded"],
            shown.flatMap((archive) => rows(archive, now)),
          )
        : el("p", { class: "quiet" }, last.archives.length ? "No archive has such a name." : "There is no archive that you may see: archives.yaml, as this API server reads it, names none, and no task has recorded one."),
    );
  }

  return every(15, async () => {
    last = await get([], { dag });
    if (last.of_dag) {
      location.replace(`#archive=${encodeURIComponent(last.of_dag)}`);
      return;
    }
    draw();
  });
}

function rows(archive, now) {
  const sources = archive.sources.length ? archive.sources : [null];
  return sources.map((source, index) =>
    el(
      "tr",
      index ? { class: "more" } : null,
      el("td", null, badge(source ? worst(archive, source) : archive.state)),
      index
        ? el("td")
        : el("th", { scope: "row" }, el("a", { href: `#archive=${encodeURIComponent(archive.archive)}` }, archive.archive)),
      el("td", { class: "names" }, source?.source ?? "", reasons(index ? [] : ofArchive(archive), archive.state), reasons(source?.reasons ?? [], source?.state)),
      el("td", null, source ? promised(source, "rpo", ago(source.facts.restorable_to, now)) : "", index || !archive.next ? "" : el("div", { class: "quiet" }, next(archive.next, now))),
      el("td", null, source ? drilled(source, now) : ""),
      el("td", null, source ? promised(source, "verified_within", source.facts.verified ? `within ${span((now - Date.parse(source.facts.verified)) / 1000)}` : "never") : ""),
      el("td", null, index ? "" : [tasks(archive), replicas(archive)]),
      el("td", { class: "quiet" }, index ? "" : archive.recorded ? `${span(archive.record_age_s)} ago` : "never", index || archive.bytes === null ? "" : el("div", null, `${size(archive.bytes)}, ${count(archive.commits)} commits`)),
    ),
  );
}

function worst(archive, source) {
  return ofArchive(archive).length && archive.state === "not ready" ? "not ready" : source.state;
}

/** What is wrong with the archive as a whole: it is said once, however many sources it has. */
function ofArchive(archive) {
  const paused = archive.paused.length ? [`paused: ${archive.paused.join(", ")}`] : [];
  return [...(archive.mistake ? [archive.mistake] : []), ...paused, ...archive.reasons, ...archive.missing];
}

function reasons(sentences, state) {
  if (!sentences.length) return null;
  const shown = sentences.slice(0, MOST_REASONS).map((sentence) => el("li", null, sentence));
  const more = sentences.length - shown.length;
  return el("ul", { class: `reasons ${state}` }, shown, more ? el("li", null, `and ${more} more`) : null);
}

function next(iso, now) {
  const seconds = (Date.parse(iso) - now) / 1000;
  return seconds > 0 ? `next backup in ${span(seconds)}` : "next backup is due";
}

/** A value beside its objective, marked where that is missed. */
function promised(source, name, words) {
  const objective = source.objectives.find((objective) => objective.name === name);
  if (!objective) return words;
  return [
    el("span", { class: objective.is_met ? "kept" : "missed" }, words),
    el("div", { class: "quiet" }, `${objective.is_met ? "objective" : "missed: objective"} ${objective.limit}`),
  ];
}

function drilled(source, now) {
  const facts = source.facts;
  const took = facts.drill_s === null || facts.drill_s === undefined ? "" : `, took ${span(facts.drill_s)}`;
  return promised(source, "drill_within", `${ago(facts.drilled, now)}${facts.drilled ? took : ""}`);
}

function replicas(archive) {
  return archive.replicas.map((replica) =>
    el(
      "div",
      { class: replica.lost ? "missed" : null },
      `${replica.name}: ${replica.lost ? "lost" : replica.entries_behind ? `${count(replica.entries_behind)} entries, ${span(replica.seconds_behind)} behind` : "up to date"}`,
    ),
  );
}

function tasks(archive) {
  const parts = [];
  if (archive.running) parts.push(el("div", null, `${archive.running} running`));
  if (archive.waiting) parts.push(el("div", null, `${archive.waiting} waiting`));
  if (archive.failed) parts.push(el("div", { class: "missed" }, `${archive.failed} failed`));
  return parts;
}
