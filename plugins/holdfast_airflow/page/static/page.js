// The page: which of its two views is shown, when it is read again, and in which theme.

import { showArchive } from "./archive.js";
import { el, airflowLink } from "./dom.js";
import { showList } from "./archive_list.js";

const main = document.getElementById("page");
const top_ = document.getElementById("top");
let leave = () => {};

function chooseTheme() {
  // Airflow keeps its theme under this name, for all pages of its address.
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
}

/** The archive that the address names: by itself, by its DAG, or none. */
function readAddress() {
  const hash = location.hash.match(/^#archive=(.*)$/);
  if (hash) return { archive: decodeURIComponent(hash[1]) };
  if (location.hash === "#all") return {};
  const query = new URLSearchParams(location.search);
  if (query.has("archive")) return { archive: query.get("archive"), run: query.get("run") };
  return query.has("dag") ? { dag: query.get("dag") } : {};
}

function show() {
  leave();
  const { archive, run, dag } = readAddress();
  document.title = archive ? `${archive} · Holdfast` : "Holdfast";
  const isFramed = window.parent !== window;
  top_.replaceChildren(
    el("h1", null, "Holdfast"),
    el(
      "nav",
      { "aria-label": "Holdfast" },
      archive || dag ? el("a", { href: "#all" }, "All archives") : null,
      isFramed ? null : airflowLink("", "Airflow"),
      el("a", { href: "openapi.json", target: "_blank", rel: "noopener" }, "API"),
    ),
  );
  leave = archive ? showArchive(main, archive, run) : showList(main, dag);
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names what is shown
  main.focus();
});
chooseTheme();
window.addEventListener("storage", chooseTheme);
window.addEventListener("hashchange", show);
show();
