// The restorable-time line of one source: what can be restored, the gaps with their reasons, marks, and the tail
// that is not backed up. Times are milliseconds inside, and ISO 8601 towards the server.

import { get } from "./api.js";
import { el, say, svg } from "./dom.js";
import { moment, span } from "./words.js";

const HEIGHT = 96;
const TOP = 34;
const BAND = 26;
const SIDE = 8;
const LEAST_MS = 1000;
const SNAP = 6;

const STEPS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 14 * 86400, 30 * 86400, 91 * 86400, 182 * 86400, 365 * 86400, 730 * 86400, 1825 * 86400];

const RANGES = [["1 hour", 3600], ["1 day", 86400], ["1 week", 7 * 86400], ["1 month", 30 * 86400], ["1 year", 365 * 86400]];

const NAMES = { restorable: "any moment", point: "one moment", gap: "gap", mixed: "several", tail: "not backed up yet" };

/** A line that calls `choose` with the chosen moment: `{at, name}`, as for `--at`. */
export class Line {
  constructor(archive, source, choose) {
    this.archive = archive;
    this.source = source;
    this.choose = choose;
    this.seen = null;
    this.start = null;
    this.end = null;
    this.cursor = null;
    this.asked = 0;
    this.commits = null;
    this.picture = svg("svg", { height: HEIGHT, tabindex: 0, role: "application", "aria-label": `Restorable times of ${source}. Arrow keys move the cursor, plus and minus zoom, Enter chooses.`, class: "line" });
    this.words = el("p", { class: "under quiet" }, "Opening the archive …");
    this.list = el("details", null, el("summary", null, "What is shown, as a list"), legend(), el("ul"));
    const buttons = [
      ...RANGES.map(([words, seconds]) => el("button", { type: "button", class: "small", onclick: () => this.range(seconds) }, words)),
      el("button", { type: "button", class: "small", onclick: () => this.whole() }, "All"),
      el("button", { type: "button", class: "small", "aria-label": "Zoom in", onclick: () => this.zoom(0.5) }, "+"),
      el("button", { type: "button", class: "small", "aria-label": "Zoom out", onclick: () => this.zoom(2) }, "−"),
    ];
    this.element = el("div", { class: "line-box" }, el("div", { class: "bar" }, buttons), this.picture, this.words, this.list);
    this.picture.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.picture.addEventListener("click", (event) => this.click(event));
    this.picture.addEventListener("pointermove", (event) => this.hover(event));
    this.picture.addEventListener("keydown", (event) => this.key(event));
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.element);
  }

  close() {
    this.resized.disconnect();
  }

  get width() {
    return Math.max(200, this.element.clientWidth - 2);
  }

  /** Read the line of an archive with so many commits. */
  readOn(commits) {
    this.commits = commits;
    return this.read();
  }

  /** Say why nothing can be shown, unless something is. */
  fail(message) {
    if (!this.seen) this.words.textContent = message;
  }

  /** Read the line between the present ends. Of several answers the last one asked for counts. */
  async read() {
    const number = ++this.asked;
    const query = { parts: Math.round(this.width), commits: this.commits };
    if (this.start !== null) Object.assign(query, { start: new Date(this.start).toISOString(), end: new Date(this.end).toISOString() });
    let seen;
    try {
      seen = await get([this.archive, "sources", this.source, "line"], query);
    } catch (error) {
      if (number === this.asked) this.words.textContent = error.message;
      return;
    }
    if (number !== this.asked) return;
    this.seen = seen;
    this.now = Date.parse(seen.now);
    this.first = Date.parse(seen.first);
    this.last = Date.parse(seen.last);
    if (this.start === null) this.setEnds(this.first, this.now);
    this.words.textContent = `The newest restorable moment is ${moment(seen.last)}, ${span((this.now - this.last) / 1000)} ago.`;
    this.draw();
  }

  setEnds(start, end) {
    const room = Math.max((end - start) * 0.02, LEAST_MS / 2);
    this.start = start - room;
    this.end = end + room;
  }

  later() {
    clearTimeout(this.timer);
    this.draw();
    this.timer = setTimeout(() => this.read(), 150);
  }

  whole() {
    this.setEnds(this.first, this.now);
    this.later();
  }

  range(seconds) {
    const end = this.cursor !== null ? Math.min(this.cursor + seconds * 500, this.now) : this.now;
    this.setEnds(end - seconds * 1000, end);
    this.later();
  }

  zoom(factor, around = this.cursor ?? (this.start + this.end) / 2) {
    const length = Math.min(Math.max((this.end - this.start) * factor, LEAST_MS), 40 * 365 * 86400e3);
    const share = (around - this.start) / (this.end - this.start);
    this.start = around - share * length;
    this.end = this.start + length;
    this.later();
  }

  x(time) {
    return SIDE + ((time - this.start) / (this.end - this.start)) * (this.width - 2 * SIDE);
  }

  time(x) {
    return this.start + ((x - SIDE) / (this.width - 2 * SIDE)) * (this.end - this.start);
  }

  wheel(event) {
    if (!this.seen) return;
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const step = ((event.deltaX || event.deltaY) / this.width) * (this.end - this.start);
      this.start += step;
      this.end += step;
      this.later();
    } else {
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.time(event.offsetX));
    }
  }

  hover(event) {
    if (!this.seen) return;
    const spot = this.at(this.time(event.offsetX));
    this.words.textContent = spot.words;
  }

  click(event) {
    if (!this.seen) return;
    this.chooseAt(this.time(event.offsetX));
  }

  key(event) {
    if (!this.seen) return;
    const step = (this.end - this.start) / (event.shiftKey ? 10 : 100);
    const at = this.cursor ?? (this.start + this.end) / 2;
    const moves = { ArrowLeft: -step, ArrowRight: step };
    if (event.key in moves) {
      this.cursor = Math.min(Math.max(at + moves[event.key], this.first), this.now);
      if (this.cursor < this.start || this.cursor > this.end) {
        const length = this.end - this.start;
        this.start = this.cursor - length / 2;
        this.end = this.start + length;
        this.later();
      }
      const spot = this.at(this.cursor);
      this.words.textContent = spot.words;
      say(spot.words);
      this.draw();
    } else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "Home") this.chooseAt(this.first);
    else if (event.key === "End") this.chooseAt(this.last);
    else if (event.key === "Enter") this.chooseAt(at);
    else return;
    event.preventDefault();
  }

  /** What is at a time: near marks and single moments first, exactly as the server wrote them. */
  at(time) {
    const near = ((this.end - this.start) / this.width) * SNAP;
    const mark = nearest(this.seen.marks, time, near, (candidate) => Date.parse(candidate.at));
    if (mark) return { at: `mark:${mark.name}`, time: Date.parse(mark.at), words: `Mark ${mark.name} at ${moment(mark.at)}${mark.more ? `, and ${mark.more} more near it: zoom in` : ""}` };
    const points = this.seen.parts.filter((part) => part.kind === "point");
    const point = nearest(points, time, near, (part) => Date.parse(part.from));
    if (point) return { at: point.from, time: Date.parse(point.from), words: `One moment: ${moment(point.from)}, commit ${point.commit}${point.whole ? "" : ", only chosen tables"}` };
    const iso = new Date(time).toISOString();
    if (time > this.last) return { at: iso, time, words: `${moment(iso)}: not backed up yet. The newest restorable moment is ${moment(this.seen.last)}` };
    if (time < this.first) return { at: iso, time, words: `${moment(iso)}: before the first backup` };
    const part = this.seen.parts.find((candidate) => Date.parse(candidate.from) <= time && time <= Date.parse(candidate.to));
    return { at: iso, time, words: `${moment(iso)}: ${part ? describe(part) : "nothing"}` };
  }

  chooseAt(time) {
    const spot = this.at(time);
    this.cursor = spot.time;
    this.words.textContent = spot.words;
    this.draw();
    this.choose(spot.at);
  }

  draw() {
    if (!this.seen || this.start === null) return;
    const width = this.width;
    this.picture.setAttribute("width", width);
    const clip = (value) => Math.min(Math.max(value, 0), width);
    const box = (from, to, kind, title) => {
      const left = clip(this.x(from));
      const right = clip(this.x(to));
      if (right < 0 || left > width || (to < this.start) || (from > this.end)) return null;
      const wide = kind === "point" ? 5 : Math.max(right - left, 2);
      return svg("rect", { x: kind === "point" ? left - 2.5 : left, y: kind === "gap" ? TOP + 7 : TOP, width: wide, height: kind === "gap" ? BAND - 14 : BAND, class: kind }, svg("title", null, title));
    };
    // Gaps lie below what can be restored, so that a moment between two of them is seen.
    const parts = [...this.seen.parts].sort((one, other) => (one.kind === "gap" ? 0 : 1) - (other.kind === "gap" ? 0 : 1));
    this.picture.replaceChildren(
      ...[
        svg("rect", { x: 0, y: TOP, width, height: BAND, class: "ground" }),
        this.now > this.last ? box(this.last, this.now, "tail", `not backed up yet: ${span((this.now - this.last) / 1000)}`) : null,
        ...parts.map((part) => box(Date.parse(part.from), Date.parse(part.to), part.whole ? part.kind : `${part.kind} chosen`, describe(part))),
        ...this.ticks(),
        ...this.marks(),
        this.cursor === null ? null : svg("line", { x1: this.x(this.cursor), x2: this.x(this.cursor), y1: 6, y2: TOP + BAND + 8, class: "cursor" }),
      ].filter(Boolean),
    );
    this.listParts();
  }

  marks() {
    let free = -Infinity;
    return this.seen.marks.map((mark) => {
      const x = this.x(Date.parse(mark.at));
      const words = mark.more ? `${mark.name} +${mark.more}` : mark.name;
      const isFree = x > free;
      if (isFree) free = x + 7 * Math.min(words.length, 24) + 10;
      return svg(
        "g",
        { class: "mark" },
        svg("line", { x1: x, x2: x, y1: 18, y2: TOP + BAND + 6 }),
        svg("title", null, `mark ${mark.name}, ${moment(mark.at)}`),
        isFree ? svg("text", { x: x + 4, y: 24 }, words.length > 24 ? `${words.slice(0, 23)}…` : words) : null,
      );
    });
  }

  ticks() {
    const seconds = (this.end - this.start) / 1000;
    const step = (STEPS.find((length) => (seconds / length) * 90 < this.width) ?? STEPS.at(-1)) * 1000;
    const ticks = [];
    for (let at = Math.ceil(this.start / step) * step; at <= this.end; at += step) {
      const iso = new Date(at).toISOString();
      const words = step >= 86400e3 ? iso.slice(0, 10) : step >= 60e3 && iso.slice(11, 16) !== "00:00" ? iso.slice(11, 16) : step >= 60e3 ? iso.slice(5, 10) : iso.slice(11, 19);
      ticks.push(svg("line", { x1: this.x(at), x2: this.x(at), y1: TOP + BAND, y2: TOP + BAND + 6, class: "tick" }));
      ticks.push(svg("text", { x: this.x(at) + 3, y: TOP + BAND + 18, class: "tick" }, words));
    }
    return ticks;
  }

  listParts() {
    const list = this.list.querySelector("ul");
    const parts = this.seen.parts.slice(0, 200).map((part) => el("li", null, `${moment(part.from)} to ${moment(part.to)}: ${describe(part)}`));
    const tables = this.seen.tables.map((gap) => el("li", null, `table ${gap.table}, ${moment(gap.from)} to ${moment(gap.to)}: ${gap.reason}`));
    if (this.seen.more_tables) tables.push(el("li", null, `and ${this.seen.more_tables} more gaps of single tables: see holdfast points`));
    const marks = this.seen.marks.map((mark) => el("li", null, `mark ${mark.name}: ${moment(mark.at)}`));
    list.replaceChildren(...parts, ...tables, ...marks);
  }
}

function nearest(items, time, near, when) {
  let best = null;
  for (const item of items) {
    const distance = Math.abs(when(item) - time);
    if (distance <= near && (best === null || distance < Math.abs(when(best) - time))) best = item;
  }
  return best;
}

function describe(part) {
  if (part.kind === "gap") return `gap: ${part.reason}`;
  if (part.kind === "mixed") return `${part.points} stretches and ${part.gaps} gaps, too near to each other to be drawn: zoom in`;
  const tables = part.whole ? "" : ", only chosen tables";
  return part.kind === "point" ? `one moment, commit ${part.commit}${tables}` : `any moment can be restored${tables}`;
}

function legend() {
  return el(
    "p",
    { class: "legend quiet" },
    Object.entries(NAMES).map(([kind, words]) => [svg("svg", { width: 18, height: 12, "aria-hidden": true }, svg("rect", { width: 18, height: 12, class: kind })), ` ${words} `]),
    "Wheel: zoom. Shift and wheel: move. Click: choose.",
  );
}
