// Requests to this page's own routes and to Airflow's REST API, both by the session of the browser.

/** An answer that is an error, with the sentence that the server gave. */
export class AnswerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(url, options) {
  let answer;
  try {
    answer = await fetch(url, { credentials: "same-origin", ...options });
  } catch {
    throw new AnswerError(0, "Airflow's API server does not answer.");
  }
  const body = await answer.json().catch(() => ({}));
  if (answer.status === 401) throw new AnswerError(401, "Your session has ended: log in to Airflow again.");
  if (!answer.ok) throw new AnswerError(answer.status, sentence(body, answer.status));
  return body;
}

function sentence(body, status) {
  const said = body.error ?? body.detail;
  if (typeof said === "string") return said === "Forbidden" ? "You do not have the right to do this." : said;
  if (Array.isArray(said)) return said.map((problem) => `${(problem.loc ?? []).slice(1).join(".")}: ${problem.msg}`).join("; ");
  return `The server answered with status ${status}.`;
}

const path = (...parts) => parts.map(encodeURIComponent).join("/");

/** Get JSON from a route below this page's `api/archives`. */
export function get(parts, query) {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const entry of Array.isArray(value) ? value : [value]) if (entry !== null && entry !== undefined) asked.append(name, entry);
  }
  const tail = parts.length ? `/${path(...parts)}` : "";
  return ask(`api/archives${tail}${[...asked].length ? `?${asked}` : ""}`);
}

/** Change something by a route below this page's `api/archives`. */
export function post(parts, body) {
  return ask(`api/archives/${path(...parts)}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Holdfast-Request": "page" },
    body: JSON.stringify(body),
  });
}

/** Ask Airflow's own REST API. */
export function airflow(method, parts, body, query) {
  return ask(`../api/v2/${path(...parts)}${query ? `?${new URLSearchParams(query)}` : ""}`, {
    method,
    headers: body ? { "Content-Type": "application/json" } : {},
    body: body ? JSON.stringify(body) : undefined,
  });
}
