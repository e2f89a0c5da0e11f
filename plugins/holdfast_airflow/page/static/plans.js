// What a compaction and a truncation would do now: read once it is opened, and then only when asked again.

import { get } from "./api.js";
import { el, say, table } from "./dom.js";
import { count, moment, size } from "./words.js";

const WORDS = { compaction: "What a compaction would do now", truncation: "What a truncation would do now" };
const SHOW = { compaction, truncation };

/** Two closed parts, one for each operation. */
export function plans(archive) {
  return el("div", null, Object.keys(WORDS).map((operation) => part(archive, operation)));
}

function part(archive, operation) {
  const body = el("div");
  const details = el("details", { class: "plan" }, el("summary", null, WORDS[operation]), body);
  let isRead = false;

  async function read() {
    isRead = true;
    body.replaceChildren(el("p", { class: "quiet" }, "Planning …"));
    const button = el("button", { type: "button", class: "small", onclick: read }, "Plan again");
    try {
      body.replaceChildren(...SHOW[operation](await get([archive, "plans", operation])), button);
    } catch (error) {
      body.replaceChildren(el("p", { class: "missed" }, error.message), button);
    }
    say(body.firstChild.textContent);
  }

  details.addEventListener("toggle", () => {
    if (details.open && !isRead) read();
  });
  return details;
}

function compaction(plan) {
  if (!plan.joined.length) return [el("p", null, "Nothing: no blocks of changes are worth joining, by the settings of archives.yaml.")];
  return [
    el("p", null, `${count(plan.blocks)} blocks of changes, ${size(plan.bytes_before)}, would become ${count(plan.joined.length + plan.joined_left_out)}. Every restore point stays.`),
    table(
      "Blocks that would be joined",
      ["Source", "From", "To", "Blocks", "Size", "Changes"],
      plan.joined.map((group) => el("tr", null, el("th", { scope: "row" }, group.source), el("td", null, moment(group.from)), el("td", null, moment(group.to)), el("td", null, count(group.blocks)), el("td", null, size(group.bytes_before)), el("td", null, count(group.changes)))),
    ),
    leftOut(plan.joined_left_out, "older groups"),
  ];
}

function truncation(plan) {
  const words = plan.blocks_removed
    ? `${count(plan.blocks_removed)} blocks, ${size(plan.bytes)}, would go by the rules ${plan.keep}. Their files are deleted by a vacuum after its grace.`
    : `Nothing would go by the rules ${plan.keep}.`;
  return [el("p", null, words), plan.sources.map(fates)].flat();
}

function fates(source) {
  return el(
    "div",
    null,
    el("h4", null, `${source.source}: ${count(source.points_kept)} restore points would stay, ${count(source.points_removed)} would go`),
    table(
      `Restore points of ${source.source}`,
      ["From", "To", "Restore points", "", "Why"],
      source.runs.map((run) => el("tr", null, el("td", null, moment(run.from)), el("td", null, moment(run.to)), el("td", null, count(run.points)), el("td", { class: run.stays ? "kept" : "missed" }, run.stays ? "would stay" : "would go"), el("td", null, run.why.join(", ") || (run.stays ? "others need its blocks" : "")))),
    ),
    leftOut(source.runs_left_out, "older runs"),
  );
}

function leftOut(many, what) {
  return many ? el("p", { class: "quiet" }, `${count(many)} ${what} are not shown; the command shows all: --dry-run`) : "";
}
