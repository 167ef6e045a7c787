// Numbers for people.

const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const clockTime = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const count = (value) => (value < 10_000 ? whole.format(value) : short.format(value));
export const ratio = (value) => value.toFixed(2);
export const clock = (at) => clockTime.format(new Date(at * 1000));

/** A share of a core: 0.613 -> 61 %. */
export function percent(share) {
  const value = share * 100;
  if (value === 0) return "0 %";
  if (value < 0.1) return "<0.1 %";
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} %`;
}

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

export function seconds(value) {
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  return value < 60 ? `${value.toFixed(value < 10 ? 2 : 1)} s` : `${(value / 60).toFixed(1)} min`;
}

export const plural = (number, word) =>
  `${count(number)} ${number === 1 ? word : word.endsWith("y") ? `${word.slice(0, -1)}ies` : `${word}s`}`;
