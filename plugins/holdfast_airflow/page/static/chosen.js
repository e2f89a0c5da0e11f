// The chosen moment of a source: whether it can be restored, and what to do with it.

import { airflow, get, post } from "./api.js";
import { copyButton, el, onSubmit, say } from "./dom.js";
import { follow } from "./start.js";
import { moment } from "./words.js";

const TARGETS = ["holdfast_postgres", "postgres", "generic"];

/** A panel below the line of a source. */
export class Chosen {
  constructor(archive, source, rights) {
    this.archive = archive;
    this.source = source;
    this.rights = rights;
    this.asked = 0;
    this.element = el("div", { class: "chosen" }, this.typed());
    this.body = el("div");
    this.element.append(this.body);
  }

  typed() {
    this.input = el("input", { type: "text", "aria-label": "Moment to restore", placeholder: "latest, a time with its zone, mark:NAME, commit:N, lsn:X/Y", size: 46 });
    const form = el("form", { class: "bar" }, el("label", { class: "quiet" }, "Choose a moment on the line, or type one: ", this.input), el("button", { type: "submit", class: "small" }, "Look"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.input.value.trim()) this.show(this.input.value.trim());
    });
    return form;
  }

  async show(at) {
    const number = ++this.asked;
    this.input.value = at;
    this.body.replaceChildren(el("p", { class: "quiet" }, "Looking …"));
    let point;
    try {
      point = await get([this.archive, "sources", this.source, "moment"], { at });
    } catch (error) {
      if (number === this.asked) this.body.replaceChildren(el("p", { class: "missed" }, error.message));
      say(error.message);
      return;
    }
    if (number !== this.asked) return;
    const sentence = `Can be restored: ${moment(point.at)}, position ${point.position}, by commit ${point.commit}.`;
    say(sentence);
    const query = `holdfast query ${this.archive} "SELECT …" --source ${this.source} --at '${quoted(at)}'`;
    this.body.replaceChildren(
      el("p", { class: "kept" }, sentence),
      point.schema ? el("p", { class: "quiet" }, `Schema approximate: ${point.schema}`) : "",
      el(
        "div",
        { class: "bar" },
        this.rights.restore ? el("button", { type: "button", onclick: () => this.form(at, this.restoreForm(at)) }, "Restore to this moment …") : null,
        this.rights.hold ? el("button", { type: "button", class: "small", onclick: () => this.form(at, this.holdForm(at)) }, "Hold it …") : null,
        copyButton(`--at '${quoted(at)}'`, "Copy --at"),
        copyButton(query, "Copy query as of"),
      ),
      (this.forms = el("div")),
    );
  }

  form(at, form) {
    this.forms.replaceChildren(form);
    form.querySelector("input, select, textarea")?.focus();
  }

  restoreForm(at) {
    const target = el("input", { name: "target", required: true, list: `targets-${this.source}`, autocomplete: "off" });
    const targets = el("datalist", { id: `targets-${this.source}` });
    const tables = el("textarea", { name: "tables", rows: 2, placeholder: "all: into an empty database" });
    const dry = el("input", { type: "checkbox", name: "dry", checked: true });
    const result = el("div", { role: "status" });
    const submit = el("button", { type: "submit" }, "Start");
    const form = el(
      "form",
      { class: "card" },
      el("h4", null, `Restore ${this.source} to ${at}`),
      field("Target connection", target, "Id of the Airflow connection to the database to restore into."),
      targets,
      field("Tables", tables, "One schema.table a line, with * for any; empty for all."),
      el("label", { class: "check" }, dry, " Dry run: only say what would be done"),
      el("div", { class: "bar" }, submit),
      result,
    );
    offerConnections(targets);
    onSubmit(form, result, async () => {
      submit.disabled = true;
      const conf = { source: this.source, target_connection: target.value.trim(), at, dry_run: dry.checked, tables: tables.value.split("\n").map((line) => line.trim()).filter(Boolean) };
      try {
        const run = await airflow("POST", ["dags", `restore_${this.archive}`, "dagRuns"], { logical_date: null, conf });
        const state = await follow(run, result);
        if (state) await showResult(run, state, result);
      } finally {
        submit.disabled = false;
      }
    });
    return form;
  }

  holdForm(at) {
    const reason = el("input", { name: "reason", required: true, maxlength: 500, size: 50 });
    const result = el("div", { role: "status" });
    const form = el("form", { class: "card" }, el("h4", null, `Hold ${at}`), field("Why", reason, "For a reader in a year."), el("button", { type: "submit" }, "Hold"), result);
    onSubmit(form, result, async () => {
      const made = await post([this.archive, "holds"], { source: this.source, at, reason: reason.value });
      result.replaceChildren(el("p", { class: "kept" }, `Held as ${made.hold}: no truncation takes it.`));
    });
    return form;
  }
}

/** A label, its field and a sentence about it. */
export function field(words, input, help) {
  return el("label", { class: "field" }, el("span", null, words), input, el("small", { class: "quiet" }, help));
}

async function offerConnections(list) {
  try {
    const answer = await airflow("GET", ["connections"], null, { limit: 100 });
    const fit = answer.connections.filter((connection) => TARGETS.includes(connection.conn_type));
    list.replaceChildren(...fit.map((connection) => el("option", { value: connection.connection_id }, connection.description ?? "")));
  } catch {
    // Who may not list connections types the id.
  }
}

async function showResult(run, state, result) {
  const key = state === "success" ? "return_value" : "holdfast_failure";
  let value;
  try {
    const entry = await airflow("GET", ["dags", run.dag_id, "dagRuns", run.dag_run_id, "taskInstances", "restore", "xcomEntries", key], null, { deserialize: false });
    value = typeof entry.value === "string" ? JSON.parse(entry.value) : entry.value;
  } catch {
    return;
  }
  if (state !== "success") {
    result.append(el("p", { class: "missed" }, value.sentence));
    return;
  }
  result.append(el("details", { open: true }, el("summary", null, value.plan ? "Plan" : "What was restored"), el("pre", null, JSON.stringify(value.plan ?? value, null, 2))));
}

function quoted(at) {
  return at.replaceAll("'", "'\\''");
}
