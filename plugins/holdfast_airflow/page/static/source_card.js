// The card of one source: its verdict, facts, last 30 days, restorable-time line, and backups.

import { Chosen } from "./chosen.js";
import { airflowLink, el, table } from "./dom.js";
import { Line } from "./line.js";
import { badge } from "./archive_list.js";
import { startButtons } from "./start.js";
import { ago, count, moment, size, span } from "./words.js";

const STATES = { success: "good", failed: "failed" };

/** A card that stays while it is brought up to date: what a person has opened or typed stays, too. */
export class SourceCard {
  constructor(archive, name) {
    this.archive = archive;
    this.name = name;
    this.read = null;
    this.head = el("div", { class: "bar" });
    this.actions = el("span", { class: "actions" });
    this.body = el("div");
    this.restore = el("div");
    this.backups = el("details", null, el("summary", null, "Backups"));
    this.element = el("article", null, el("div", { class: "bar" }, this.head, this.actions), this.body, this.restore, this.backups);
  }

  close() {
    this.line?.close();
  }

  /** Bring it up to date, by the archive's own account where there is one. */
  update({ described, now, judged }) {
    const source = judged.sources.find((entry) => entry.source === this.name);
    const at = Date.parse(described.now);
    const record = now?.record.sources.find((entry) => entry.source === this.name) ?? {};
    const drill = now?.drills.find((entry) => entry.source === this.name && entry.state === "succeeded");
    this.element.className = `card verdict ${source.state.replace(" ", "-")}`;
    this.head.replaceChildren(el("h3", null, this.name), badge(source.state));
    keep(this.actions, described, ["backup", "changes", "restore_drill"], () => described.sources.length > 1 && startButtons(described, { source: this.name }));
    this.body.replaceChildren(...[reasons(source.reasons), facts(source, record, drill, at), days(described.days[this.name] ?? [])].filter(Boolean));
    this.drawLine(described, now, source.facts.restorable_to);
    this.drawBackups((now?.backups ?? described.backups)[this.name] ?? [], at);
  }

  /** Say why the archive could not be read. */
  fail(message) {
    this.line?.fail(message);
  }

  drawLine(described, now, restorableTo) {
    if (!restorableTo || !described.configured) return;
    if (!this.line) {
      const chosen = new Chosen(this.archive, this.name, described.rights);
      this.line = new Line(this.archive, this.name, (at) => chosen.show(at));
      this.restore.append(this.line.element, chosen.element);
    }
    if (now && this.read !== restorableTo) {
      this.read = restorableTo;
      this.line.readOn(now.record.commits);
    }
  }

  drawBackups(backups, now) {
    const body = backups.length
      ? table("Backups, the newest first", ["Ended", "State", "Kind", "Took", "Size", "Rows", "Commit"], backups.map((backup) => backupRow(backup, now)))
      : el("p", { class: "quiet" }, "None in the last 30 days.");
    const failed = backups.filter((backup) => backup.state === "failed").length;
    const top = this.backups.querySelector(".scroll")?.scrollTop ?? 0;
    this.backups.replaceChildren(el("summary", null, `Backups (${backups.length}${failed ? `, ${failed} failed` : ""})`), body);
    body.scrollTop = top;
  }
}

/** Draw buttons again only where what they would do has changed: a run that is followed beside one stays. */
export function keep(place, described, operations, draw) {
  const seen = JSON.stringify([described.dags.filter((dag) => operations.includes(dag.operation)).map((dag) => [dag.dag_id, dag.paused]), described.rights.start, described.sources.length]);
  if (place.dataset.seen === seen) return;
  place.dataset.seen = seen;
  place.replaceChildren(...[draw()].flat().filter(Boolean));
}

/** Sentences as a list; nothing where there are none. */
export function reasons(sentences) {
  return sentences.length ? el("ul", { class: "reasons" }, sentences.map((sentence) => el("li", null, sentence))) : null;
}

function facts(source, record, drill, now) {
  const { restorable_to: newest, drilled, drill_s: took, verified } = source.facts;
  const tables = drill?.tables === undefined ? "" : ` of ${count(drill.tables)} ${drill.tables === 1 ? "table" : "tables"}`;
  const rows = drill?.rows === undefined ? null : `${count(drill.rows)} rows${tables}`;
  return el(
    "dl",
    { class: "facts" },
    fact("Newest restorable moment", ago(newest, now), source, ["rpo"], moment(newest)),
    fact("Last good drill", ago(drilled, now), source, ["drill_within", "rto"], moment(drilled), [rows, took ? `in ${span(took)}` : null]),
    fact("Every file read or written", verified ? `within ${span((now - Date.parse(verified)) / 1000)}` : "never", source, ["verified_within"], moment(verified)),
    record.bytes === undefined ? null : fact("Size", size(record.bytes), source, [], "", [record.rows === undefined ? null : `${count(record.rows)} rows in the last full backup`]),
    record.restorable_from ? fact("Restorable from", ago(record.restorable_from, now), source, [], moment(record.restorable_from), [`${count(record.backups)} full, ${count(record.changes)} incremental`]) : null,
  );
}

function fact(words, value, source, names, title, more = []) {
  const objectives = source.objectives.filter((objective) => names.includes(objective.name));
  const notes = [...more.filter(Boolean), ...objectives.map((objective) => `objective ${names.length > 1 ? `${objective.name} ` : ""}${objective.limit}`)];
  const state = objectives.length ? (objectives.every((objective) => objective.is_met) ? "kept" : "missed") : null;
  return el("div", { title: title || null }, el("dt", null, words), el("dd", null, el("strong", { class: state }, value), notes.map((note) => el("div", { class: "quiet" }, note))));
}

function days(recent) {
  const kinds = recent.map((day) => (day.failed ? (day.good ? "partly" : "failed") : day.good ? "good" : "none"));
  const number = (kind) => kinds.filter((dayKind) => dayKind === kind).length;
  const words = `Backups and drills of the last ${recent.length} days: good on ${number("good")}, some failed on ${number("partly")}, all failed on ${number("failed")}, none on ${number("none")}.`;
  return el(
    "figure",
    { class: "days" },
    el("div", { role: "img", "aria-label": words }, recent.map((day, index) => el("i", { class: kinds[index], title: `${day.day}: ${day.good} good, ${day.failed} failed` }))),
    el("figcaption", { class: "quiet" }, words),
  );
}

function backupRow(backup, now) {
  const state = STATES[backup.state] ?? backup.state.replaceAll("_", " ");
  const link = backup.task ? airflowLink(`dags/${encodeURIComponent(backup.task.dag_id)}/runs/${encodeURIComponent(backup.task.run_id)}/tasks/${encodeURIComponent(backup.task.task_id)}`, state) : state;
  return el(
    "tr",
    null,
    el("td", { title: moment(backup.ended) }, ago(backup.ended, now)),
    el("td", { class: { success: "kept", failed: "missed" }[backup.state] }, link, backup.sentence ? el("div", { class: "missed" }, backup.sentence) : null),
    el("td", null, backup.kind ?? ""),
    el("td", null, span(backup.seconds)),
    el("td", null, size(backup.bytes)),
    el("td", null, backup.rows === null ? "" : count(backup.rows)),
    el("td", null, backup.commit ?? ""),
  );
}
