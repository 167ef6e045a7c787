// Small helpers for elements. Text is always set as text: nothing from a query is ever markup.

const SVG = "http://www.w3.org/2000/svg";

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const el = (tag, attributes, ...children) =>
  build(document.createElement(tag), attributes, children);

export const svg = (tag, attributes, ...children) =>
  build(document.createElementNS(SVG, tag), attributes, children);

export const byId = (id) => document.getElementById(id);

/** Set text only where it differs, so that selections and screen readers are left alone. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Bring the children of a parent in line with items, keeping elements (and focus) by key. */
export function keyed(parent, items, keyOf, make, update) {
  const known = (parent.known ??= new Map());
  const seen = new Set();
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    seen.add(key);
    let child = known.get(key);
    if (!child) {
      child = make(item);
      known.set(key, child);
    }
    update?.(child, item);
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  for (const [key, child] of known) {
    if (!seen.has(key)) {
      child.remove();
      known.delete(key);
    }
  }
}

/** Show a message in place of a table's rows. */
export function empty(table, text) {
  let note = table.parentElement.querySelector(":scope > .empty");
  if (!note) {
    note = el("p", { class: "empty" });
    table.after(note);
  }
  note.hidden = !text;
  table.hidden = Boolean(text);
  say(note, text ?? "");
}

export const dark = matchMedia("(prefers-color-scheme: dark)");

// Asking for a style makes the browser lay the page out: once for each colour, not for each cell.
const colours = new Map();
dark.addEventListener("change", () => colours.clear());

export function colour(name) {
  if (!colours.has(name)) {
    colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  }
  return colours.get(name);
}

/** The colour of a worker: eight by name, then evenly around the wheel. */
export const workerColour = (worker) =>
  worker < 8 ? colour(`--w${worker}`) : `hsl(${(worker * 137.5) % 360} 45% 55%)`;
