// Starting a DAG of the archive by Airflow's own API, which checks the user's right to it, and following its run.

import { airflow } from "./api.js";
import { airflowLink, el, say } from "./dom.js";

const FINISHED = ["success", "failed"];

/** The DAG of the first of these operations that is there; one that is paused only where no other is. */
export function dagOf(described, ...operations) {
  const there = operations.map((operation) => described.dags.find((dag) => dag.operation === operation)).filter(Boolean);
  return there.find((dag) => !dag.paused) ?? there[0];
}

/** A button that starts a DAG at once; nothing where there is no such DAG, or the user may not start it. */
export function startButton(described, words, dag, conf = {}) {
  if (!dag || !described.rights.start.includes(dag.dag_id)) return null;
  const result = el("span", { role: "status" }, dag.paused ? [" paused: ", airflowLink(`dags/${encodeURIComponent(dag.dag_id)}`, dag.dag_id)] : null);
  const button = el("button", { type: "button", class: "small", disabled: dag.paused, title: `Starts ${dag.dag_id}` }, words);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await follow(await airflow("POST", ["dags", dag.dag_id, "dagRuns"], { logical_date: null, conf }), result);
    } catch (error) {
      result.replaceChildren(el("span", { class: "missed" }, error.message));
    }
    button.disabled = false;
  });
  return el("span", { class: "start" }, button, " ", result);
}

/** Buttons that back up and drill: every source, or the one of `conf`. */
export function startButtons(described, conf) {
  return [startButton(described, "Back up now", dagOf(described, "changes", "backup"), conf), startButton(described, "Drill now", dagOf(described, "restore_drill"), conf)];
}

/** Show the state of a run until it has ended; returns that state, or null where the page shows something else. */
export async function follow(run, result) {
  const link = airflowLink(`dags/${encodeURIComponent(run.dag_id)}/runs/${encodeURIComponent(run.dag_run_id)}`, "Run");
  const words = el("span", null, "queued");
  result.replaceChildren(link, ": ", words);
  for (;;) {
    await new Promise((done) => setTimeout(done, 2000));
    if (!result.isConnected) return null;
    if (document.hidden) continue;
    const { state } = await airflow("GET", ["dags", run.dag_id, "dagRuns", run.dag_run_id]);
    words.textContent = state;
    if (!FINISHED.includes(state)) continue;
    words.className = state === "success" ? "kept" : "missed";
    say(`The run has ended: ${state}`);
    return state;
  }
}
