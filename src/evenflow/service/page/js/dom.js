// Helpers for elements. Text is always set as text, so nothing from a query becomes markup.

const SVG = "http://www.w3.org/2000/svg";

function applyAttributes(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const el = (tag, attributes, ...children) =>
  applyAttributes(document.createElement(tag), attributes, children);

export const svg = (tag, attributes, ...children) =>
  applyAttributes(document.createElementNS(SVG, tag), attributes, children);

export const byId = (id) => document.getElementById(id);

/** Set text only if it differs, to keep selections and to not repeat it to screen readers. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Update the children of a parent to match items; elements (and focus) are kept by key. */
export function syncChildren(parent, items, keyOf, create, update) {
  const known = (parent.known ??= new Map());
  const seen = new Set();
  let next = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    seen.add(key);
    let child = known.get(key);
    if (!child) {
      child = create(item);
      known.set(key, child);
    }
    update?.(child, item);
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
  for (const [key, child] of known) {
    if (!seen.has(key)) {
      child.remove();
      known.delete(key);
    }
  }
}

/** A head row; columns from the third on are numbers. A text may be an element. */
export const headerRow = (texts) =>
  el("tr", {}, ...texts.map((text, index) => el("th", { scope: "col", class: index > 1 ? "num" : "" }, text)));

/** A column head for screen readers only. */
export const hiddenHead = (text) => el("span", { class: "sr" }, text);

/** Return a table by id, with a head and a body. */
export function tableWithHead(id, heads) {
  const table = byId(id);
  if (!table.tBodies.length) table.append(el("thead", {}, headerRow(heads())), el("tbody"));
  return table;
}

/** Show a message in place of the rows of a table; null: show the rows. */
export function showEmptyNote(table, text) {
  let note = table.parentElement.querySelector(":scope > .empty");
  if (!note) {
    note = el("p", { class: "empty" });
    table.after(note);
  }
  note.hidden = !text;
  table.hidden = Boolean(text);
  setText(note, text ?? "");
}

export const darkMode = matchMedia("(prefers-color-scheme: dark)");

// Reading a style forces a layout: read each colour once, not once per cell.
const colours = new Map();
darkMode.addEventListener("change", () => colours.clear());

export function cssColour(name) {
  if (!colours.has(name)) {
    colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  }
  return colours.get(name);
}

/** The colour of a worker: eight fixed ones, then spread around the colour wheel. */
export const workerColour = (worker) =>
  worker < 8 ? cssColour(`--w${worker}`) : `hsl(${(worker * 137.5) % 360} 45% 55%)`;
