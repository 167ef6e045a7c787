// Number formats.

const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clockTime = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const formatCount = (value) => (value < 10_000 ? whole.format(value) : short.format(value));
export const formatRatio = (value) => value.toFixed(2);
export const formatTime = (at) => clockTime.format(new Date(at * 1000));

/** A share of a core: 0.613 -> 61 %. */
export function formatPercent(share) {
  const value = share * 100;
  if (value === 0) return "0 %";
  if (value < 0.1) return "<0.1 %";
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} %`;
}

export function formatBytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export function formatSeconds(value) {
  if (value < 0) return `−${formatSeconds(-value)}`;
  if (value === 0) return "0 s";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  for (const [unit, seconds] of [["years", 31_557_600], ["days", 86_400], ["h", 3600]]) if (value >= 1.5 * seconds) return `${(value / seconds).toFixed(1)} ${unit}`;
  return `${(value / 60).toFixed(1)} min`;
}

/** How long ago: "now", "40 s ago", "3 min ago". */
export function formatAge(seconds) {
  if (seconds < 1) return "now";
  if (seconds < 90) return `${Math.round(seconds)} s ago`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min ago` : `${(seconds / 3600).toFixed(1)} h ago`;
}

export function pluralize(number, word) {
  const plural = word.endsWith("y") ? `${word.slice(0, -1)}ies` : `${word}${word.endsWith("ch") ? "es" : "s"}`;
  return `${formatCount(number)} ${number === 1 ? word : plural}`;
}

/** Traffic compared with round robin: "−12 %", or `same` below half a percent. */
export function formatSaving(shipped, roundRobin, same) {
  const saved = roundRobin > 0 ? 1 - shipped / roundRobin : 0;
  return Math.abs(saved) < 0.005 ? same : `${saved > 0 ? "−" : "+"}${Math.round(Math.abs(saved) * 100)} %`;
}

/** Show control characters and marks that reverse text as escapes, as the command line does. */
export const printable = (text) =>
  text.replace(/[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, (c) => {
    const code = c.charCodeAt(0);
    return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
