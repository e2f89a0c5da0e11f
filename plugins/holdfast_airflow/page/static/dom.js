// Elements made by function calls. Text is always set as text, so that no name is ever taken for markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Make an HTML element: attributes, event handlers as `onclick`, then children. */
export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Make an SVG element. */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Make a link to a page of Airflow; in Airflow's own frame the whole window follows it. */
export function airflowLink(path, ...children) {
  const link = el("a", { href: `../${path}` }, ...children);
  link.addEventListener("click", (event) => {
    if (window.parent === window || event.ctrlKey || event.metaKey || event.button !== 0) return;
    event.preventDefault();
    // The frame may not navigate the window around it, but that window's own document may.
    const outer = window.parent.document.createElement("a");
    outer.href = link.href;
    window.parent.document.body.append(outer);
    outer.click();
    outer.remove();
  });
  return link;
}

/** Make a table with a caption that only screen readers read. On narrow screens each cell stands below its head. */
export function table(caption, heads, rows) {
  for (const row of rows) [...row.children].forEach((cell, index) => (cell.dataset.head = heads[index]));
  return el(
    "div",
    { class: "scroll" },
    el(
      "table",
      null,
      el("caption", { class: "visually-hidden" }, caption),
      el("thead", null, el("tr", null, heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", null, rows),
    ),
  );
}

/** Let a form send what it asks for, and say in `result` why that failed. */
export function onSubmit(form, result, send) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await send();
    } catch (error) {
      result.replaceChildren(el("span", { class: "missed" }, error.message));
    }
  });
}

/** Say something to screen readers. */
export function say(words) {
  document.getElementById("said").textContent = words;
}

/** Make a button that copies a text, and says so. */
export function copyButton(text, words) {
  const button = el("button", { type: "button", class: "small" }, words);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      say("Copied");
    } catch {
      const range = document.createRange();
      const code = el("code", { class: "copied" }, text);
      button.replaceWith(code);
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      return;
    }
    setTimeout(() => (button.textContent = words), 2000);
  });
  return button;
}
