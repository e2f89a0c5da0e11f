// Reading again: not while the page is hidden, and never two at a time.

import { AnswerError } from "./api.js";

/** Run `read` now and then; returns a function that ends it. Errors are shown above the page. */
export function every(seconds, read) {
  let timer = null;
  let isOver = false;
  const problem = document.getElementById("problem");

  async function turn() {
    if (isOver) return;
    if (!document.hidden) {
      try {
        await read();
        if (problem.dataset.by === String(seconds)) problem.hidden = true;
      } catch (error) {
        if (!(error instanceof AnswerError)) throw error;
        problem.textContent = error.message;
        problem.dataset.by = String(seconds);
        problem.hidden = false;
      }
    }
    if (!isOver) timer = setTimeout(turn, seconds * 1000);
  }

  turn();
  return () => {
    isOver = true;
    clearTimeout(timer);
    problem.hidden = true;
  };
}
