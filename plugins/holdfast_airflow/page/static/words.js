// Numbers and times in words.

const UNITS = [
  ["year", 365 * 86400],
  ["day", 86400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
];

/** A length of time in its two largest units, such as "3 h 5 min". */
export function span(seconds) {
  if (seconds === null || seconds === undefined) return "";
  let left = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count) parts.push(`${count} ${unit}${count > 1 && unit.length > 3 ? "s" : unit === "day" && count > 1 ? "s" : ""}`);
    if (parts.length === 2) break;
  }
  return parts.join(" ") || "0 s";
}

/** How long ago a time in ISO 8601 was. */
export function ago(iso, now) {
  return iso ? `${span((now - Date.parse(iso)) / 1000)} ago` : "never";
}

/** A size in bytes, in the largest unit of which there is one. */
export function size(bytes) {
  if (bytes === null || bytes === undefined) return "";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/** A count with separators. */
export function count(number) {
  return number.toLocaleString("en");
}

/** A time in UTC as people read it: 2026-03-01 12:00:05 UTC. */
export function moment(iso) {
  if (!iso) return "";
  return `${iso.slice(0, 19).replace("T", " ")} UTC`;
}
