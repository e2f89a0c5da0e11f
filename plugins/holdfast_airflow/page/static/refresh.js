// Reading again: not while the page is hidden, at once when it is seen again, and never two at a time.

import { AnswerError } from "./api.js";

/** Run `read` now and then; returns a function that ends it. Errors are shown above the page. */
export function every(seconds, read) {
  let timer = null;
  let isOver = false;
  let isTurning = false;
  const problem = document.getElementById("problem");

  async function turn() {
    if (isOver) return;
    if (!document.hidden) {
      isTurning = true;
      try {
        await read();
        if (problem.dataset.by === String(seconds)) problem.hidden = true;
      } catch (error) {
        if (!(error instanceof AnswerError)) throw error;
        problem.textContent = error.message;
        problem.dataset.by = String(seconds);
        problem.hidden = false;
      } finally {
        isTurning = false;
      }
    }
    if (!isOver) timer = setTimeout(turn, seconds * 1000);
  }

  function seen() {
    if (document.hidden || isTurning) return;
    clearTimeout(timer);
    turn();
  }

  document.addEventListener("visibilitychange", seen);
  turn();
  return () => {
    isOver = true;
    document.removeEventListener("visibilitychange", seen);
    clearTimeout(timer);
    problem.hidden = true;
  };
}
