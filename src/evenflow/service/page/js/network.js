// The query network: streams flow from left to right into the queries that read them.

import { byId, el, say, svg, workerColour } from "./dom.js";
import { percent, plural } from "./format.js";

const WIDE = 168, HIGH = 38, GAP_X = 92, GAP_Y = 8, MOST = 60;
let drawn = "";

export function showNetwork(state, open) {
  const box = byId("network");
  const queries = state.queries.slice(0, MOST);
  const left = state.summary.queries - queries.length;
  say(byId("r-network"), left > 0 ? `heaviest ${MOST}; ${plural(left, "query")} not drawn` : "colour: worker");
  if (!state.streams.length) {
    drawn = "";
    box.replaceChildren(el("p", { class: "empty" }, "No streams yet."));
    return;
  }
  const shape = JSON.stringify([state.streams.map((s) => s.name), queries.map((q) => [q.name, q.streams, q.publish]).sort()]);
  if (shape !== drawn) {
    drawn = shape;
    const nodes = layers(state.streams, queries);
    box.replaceChildren(draw(nodes, open));
  }
  for (const query of queries) recolour(box, query, state.summary.workers);
}

/** Place sources in column 0 and each query one right of the farthest stream it reads. */
function layers(streams, queries) {
  const nodes = new Map();
  for (const stream of streams) if (!stream.derived) nodes.set(stream.name, { name: stream.name, column: 0, from: [] });
  const waiting = [...queries].sort((a, b) => a.name.localeCompare(b.name));
  for (let round = 0; round <= queries.length && waiting.length; round += 1) {
    for (const query of [...waiting]) {
      const from = query.streams.map((name) => nodes.get(name));
      if (from.some((node) => !node)) continue;
      const column = 1 + Math.max(...from.map((node) => node.column));
      nodes.set(query.name, { name: query.name, column, from, query });
      waiting.splice(waiting.indexOf(query), 1);
    }
  }
  const columns = [];
  for (const node of nodes.values()) (columns[node.column] ??= []).push(node);
  const tallest = Math.max(...columns.map((column) => column.length));
  columns.forEach((column, at) => {
    // Beside what they read, so that lines are short and few cross.
    if (at) column.sort((a, b) => middle(a) - middle(b) || a.name.localeCompare(b.name));
    let free = (tallest - column.length) / 2;
    if (at > 1) free = Math.min(free, middle(column[0]));
    column.forEach((node, row) => {
      const last = tallest - column.length + row;
      node.row = at > 1 ? Math.min(Math.max(free, middle(node)), last) : free;
      free = node.row + 1;
    });
  });
  return [...nodes.values()];
}

const middle = (node) => node.from.reduce((sum, source) => sum + source.row, 0) / Math.max(node.from.length, 1);

function draw(nodes, open) {
  const x = (node) => 4 + node.column * (WIDE + GAP_X);
  const y = (node) => 4 + node.row * (HIGH + GAP_Y);
  const width = Math.max(...nodes.map(x)) + WIDE + 4;
  const height = Math.max(...nodes.map(y)) + HIGH + 4;
  const edges = nodes.flatMap((node) => node.from.map((source) => edge(source, node, x, y)));
  const boxes = nodes.map((node) => box(node, x(node), y(node), open, edges));
  return svg("svg", { class: "network", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Query network" }, ...edges, ...boxes);
}

function edge(source, node, x, y) {
  const [x1, y1, x2, y2] = [x(source) + WIDE, y(source) + HIGH / 2, x(node), y(node) + HIGH / 2];
  const path = svg("path", { class: "edge", "stroke-width": 1.3, d: `M${x1} ${y1}C${x1 + GAP_X / 2} ${y1} ${x2 - GAP_X / 2} ${y2} ${x2} ${y2}` });
  path.ends = [source.name, node.name];
  return path;
}

function box(node, x, y, open, edges) {
  const light = (on) => edges.forEach((path) => path.classList.toggle("lit", on && path.ends.includes(node.name)));
  const readers = edges.filter((path) => path.ends[0] === node.name).length;
  const parts = [svg("rect", { class: "box", x, y, width: WIDE, height: HIGH, rx: node.query ? 7 : 20 })];
  if (node.query) parts.push(svg("g", { class: "owner", transform: `translate(${x + 8} ${y + 9})` }));
  parts.push(svg("text", { x: x + 20, y: y + 17 }, clip(node.name)));
  parts.push(svg("text", { class: "sub", x: x + 20, y: y + 31 }, node.query ? "" : `source, ${plural(readers, "reader")}`));
  const group = svg("g", { class: node.query ? "node" : "node stream", "data-node": node.name, onmouseenter: () => light(true), onmouseleave: () => light(false), onfocus: () => light(true), onblur: () => light(false) }, svg("title", {}, node.name), ...parts);
  if (node.query) {
    const show = () => open(node.name);
    group.setAttribute("tabindex", "0");
    group.setAttribute("role", "button");
    group.addEventListener("click", show);
    group.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        show();
      }
    });
  }
  return group;
}

/** A stripe in the colour of its worker; a keyed query has all of them, tall as their loads. */
function recolour(box, query, workers) {
  const group = box.querySelector(`[data-node="${CSS.escape(query.name)}"]`);
  if (!group) return;
  group.classList.toggle("failed", Boolean(query.quarantined));
  const stripe = group.querySelector(".owner");
  const total = query.loads.reduce((sum, load) => sum + load, 0);
  const shares = query.worker === null && total > 0 ? query.loads.map((load) => load / total) : Array.from({ length: workers }, (_, w) => Number(w === query.worker));
  let at = 0;
  const bars = shares.map((share, worker) => {
    const bar = svg("rect", { x: 0, y: at * (HIGH - 18), width: 5, height: share * (HIGH - 18) });
    bar.style.fill = workerColour(worker);
    at += share;
    return bar;
  });
  stripe.replaceChildren(...bars.filter((_, worker) => shares[worker] > 0));
  say(group.querySelector(".sub"), query.quarantined ? "quarantined" : `${query.worker === null ? "keyed" : `worker ${query.worker}`}, ${percent(query.load)}`);
}

const clip = (text) => (text.length > 20 ? `${text.slice(0, 19)}…` : text);
