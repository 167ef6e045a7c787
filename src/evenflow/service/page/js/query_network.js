// The query network: streams on the left, queries to the right of the streams they read.

import { byId, cssColour, el, setText, svg, workerColour } from "./dom.js";
import { formatPercent, pluralize } from "./format.js";

const NODE_WIDTH = 168, NODE_HEIGHT = 38, GAP_X = 92, GAP_Y = 8, MAX_QUERIES = 60, MAX_BARS = 8, FIRST_ROWS = 6;
let renderedShape = "";

export function renderNetwork(state, open) {
  const box = byId("network");
  const queries = state.queries.slice(0, MAX_QUERIES);
  const left = state.summary.queries - queries.length;
  setText(byId("r-network"), left > 0 ? `heaviest ${MAX_QUERIES}; ${pluralize(left, "query")} not drawn` : "colour: worker");
  if (!state.streams.length) {
    renderedShape = "";
    box.replaceChildren(el("p", { class: "empty" }, "No streams yet."));
    return;
  }
  const shape = JSON.stringify([state.streams.map((s) => s.name), queries.map((q) => [q.name, q.streams, q.publish]).sort()]);
  if (shape !== renderedShape) {
    renderedShape = shape;
    const nodes = layoutNodes(state.streams, queries);
    box.replaceChildren(createSvg(nodes, open));
  }
  for (const query of queries) updateNode(box, query);
}

/** Place sources in column 0, and a query one column right of the last stream it reads. */
function layoutNodes(streams, queries) {
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
  columns.forEach((column, index) => {
    // Next to their sources, so that lines are short and few cross.
    if (index) column.sort((a, b) => meanSourceRow(a) - meanSourceRow(b) || a.name.localeCompare(b.name));
    let free = Math.min((tallest - column.length) / 2, FIRST_ROWS); // in sight without scrolling
    if (index > 1) free = Math.min(free, meanSourceRow(column[0]));
    column.forEach((node, row) => {
      const last = tallest - column.length + row;
      node.row = index > 1 ? Math.min(Math.max(free, meanSourceRow(node)), last) : free;
      free = node.row + 1;
    });
  });
  return [...nodes.values()];
}

const meanSourceRow = (node) => node.from.reduce((sum, source) => sum + source.row, 0) / Math.max(node.from.length, 1);

function createSvg(nodes, open) {
  const x = (node) => 4 + node.column * (NODE_WIDTH + GAP_X);
  const y = (node) => 4 + node.row * (NODE_HEIGHT + GAP_Y);
  const width = Math.max(...nodes.map(x)) + NODE_WIDTH + 4;
  const height = Math.max(...nodes.map(y)) + NODE_HEIGHT + 4;
  const edges = nodes.flatMap((node) => node.from.map((source) => createEdge(source, node, x, y)));
  const boxes = nodes.map((node) => createNode(node, x(node), y(node), open, edges));
  return svg("svg", { class: "network", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Query network" }, ...edges, ...boxes);
}

function createEdge(source, node, x, y) {
  const [x1, y1, x2, y2] = [x(source) + NODE_WIDTH, y(source) + NODE_HEIGHT / 2, x(node), y(node) + NODE_HEIGHT / 2];
  const path = svg("path", { class: "edge", "stroke-width": 1.3, d: `M${x1} ${y1}C${x1 + GAP_X / 2} ${y1} ${x2 - GAP_X / 2} ${y2} ${x2} ${y2}` });
  path.ends = [source.name, node.name];
  return path;
}

function createNode(node, x, y, open, edges) {
  const light = (on) => edges.forEach((path) => path.classList.toggle("lit", on && path.ends.includes(node.name)));
  const readers = edges.filter((path) => path.ends[0] === node.name).length;
  const parts = [svg("rect", { class: "box", x, y, width: NODE_WIDTH, height: NODE_HEIGHT, rx: node.query ? 7 : 20 })];
  if (node.query) parts.push(svg("g", { class: "owner", transform: `translate(${x + 8} ${y + 9})` }));
  parts.push(svg("text", { x: x + 20, y: y + 17 }, truncate(node.name)));
  parts.push(svg("text", { class: "sub", x: x + 20, y: y + 31 }, node.query ? "" : `source, ${pluralize(readers, "reader")}`));
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

/** The heaviest workers of a keyed query with their shares, and the share of the others. */
function workerShares(query) {
  if (query.worker !== null) return [[query.worker, 1]];
  const loads = Object.entries(query.loads).sort((a, b) => b[1] - a[1]);
  const total = loads.reduce((sum, [, load]) => sum + load, 0);
  if (!(total > 0)) return [];
  const shown = loads.slice(0, MAX_BARS).map(([worker, load]) => [Number(worker), load / total]).sort((a, b) => a[0] - b[0]);
  const rest = 1 - shown.reduce((sum, [, share]) => sum + share, 0);
  return loads.length > MAX_BARS ? [...shown, [null, rest]] : shown;
}

/** Colour the stripe by worker; a keyed query has one segment per worker, tall as its load. */
function updateNode(box, query) {
  const group = box.querySelector(`[data-node="${CSS.escape(query.name)}"]`);
  if (!group) return;
  group.classList.toggle("failed", Boolean(query.quarantined));
  const stripe = group.querySelector(".owner");
  let offset = 0;
  const bars = workerShares(query).map(([worker, share]) => {
    const bar = svg("rect", { x: 0, y: offset * (NODE_HEIGHT - 18), width: 5, height: share * (NODE_HEIGHT - 18) });
    bar.style.fill = worker === null ? cssColour("--faint") : workerColour(worker);
    offset += share;
    return bar;
  });
  stripe.replaceChildren(...bars);
  setText(group.querySelector(".sub"), query.quarantined ? "quarantined" : `${query.worker === null ? "keyed" : `worker ${query.worker}`}, ${formatPercent(query.load)}`);
}

const truncate = (text) => (text.length > 20 ? `${text.slice(0, 19)}…` : text);
