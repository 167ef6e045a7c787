// What was decided, why, and what came of it.

import { byId, dark, el, keyed, say, svg, workerColour } from "./dom.js";
import { bytes, clock, plural, ratio, seconds } from "./format.js";

let chosen = null;
let shown = "";

export function setUpDecisions(redraw) {
  byId("all-decisions").addEventListener("change", redraw);
}

export function showDecisions(state) {
  const list = byId("decisions");
  const all = byId("all-decisions").checked;
  const visible = state.decisions.filter((one) => all || one.changed);
  if (!visible.some((one) => one.number === chosen)) chosen = null;
  const picked = visible.find((one) => one.number === chosen) ?? visible[0];
  keyed(list, visible, (one) => one.number, (one) => item(one, () => choose(one.number, state)), (li, one) => {
    li.firstChild.setAttribute("aria-current", `${one === picked}`);
    say(li.querySelector(".what"), title(one));
  });
  detail(picked, state);
}

function choose(number, state) {
  chosen = number;
  showDecisions(state);
}

function item(one, onclick) {
  const when = `#${one.number} · ${clock(one.at)}`;
  return el("li", { class: one.changed ? "" : "still" }, el("button", { type: "button", "data-testid": `decision-${one.number}`, onclick }, el("span", { class: "what" }), el("span", { class: "when" }, when), el("span", { class: "why" }, one.message)));
}

function title(one) {
  if (!one.changed) return `no change: ${one.reason}`;
  const after = one.measured?.judgement ?? one.predicted;
  const gain = after ? `, ${ratio(one.before.imbalance)} → ${ratio(after.imbalance)}` : "";
  return `${one.trigger}: ${plural(one.move_count, "move")}${gain}`;
}

function detail(one, state) {
  const box = byId("detail");
  const mark = one ? `${one.number} ${Boolean(one.measured)} ${dark.matches}` : `none ${state.points.length > 0}`;
  if (mark === shown) return;
  shown = mark;
  if (!one) {
    const text = state.points.length ? "No plan has been changed so far. When one is, it is listed here with its reason, and what it brought." : "Nothing decided yet.";
    box.replaceChildren(el("p", { class: "empty" }, text));
    return;
  }
  box.replaceChildren(
    ...[
      el("h3", {}, `Decision ${one.number}, ${clock(one.at)}: ${one.trigger}, ${one.reason}${one.staged ? ", in stages" : ""}`),
      el("p", { class: "said" }, one.message),
      numbers(one),
      one.loads_before && (one.loads_after || one.predicted) ? pairs(one) : null,
      ...one.verdicts.map((verdict) => el("p", { class: "verdict" }, verdict.message)),
      one.move_count || one.measured?.handed.length ? moves(one) : null,
    ].filter(Boolean),
  );
}

const ROWS = [
  ["imbalance", "imbalance", ratio],
  ["busiest worker, CPU s a batch", "max_load", (load) => load.toFixed(3)],
  ["mean", "mean_load", (load) => load.toFixed(3)],
  ["shipped a batch", "shipped_bytes", bytes],
];

function numbers(one) {
  const measured = one.measured?.judgement;
  const columns = [["before", one.before], ["predicted", one.predicted], ["measured", measured]].filter(([, value]) => value);
  const head = el("tr", {}, el("td"), ...columns.map(([name]) => el("th", { scope: "col" }, name)));
  const rows = ROWS.map(([name, field, text]) =>
    el("tr", {}, el("th", { scope: "row" }, name), ...columns.map(([, value]) => el("td", { class: field === "imbalance" && value.imbalance < one.before.imbalance ? "good" : "" }, text(value[field])))),
  );
  const cost = one.measured ? spent(one, columns) : [];
  return el("table", { class: "numbers" }, el("thead", {}, head), el("tbody", {}, ...rows, ...cost));
}

function spent(one, columns) {
  const { handed_bytes, duration_seconds, pause_seconds } = one.measured;
  const row = (name, cells) => el("tr", {}, el("th", { scope: "row" }, name), ...columns.map(([column]) => el("td", {}, cells[column] ?? "")));
  return [
    row("state handed over", { predicted: bytes(one.moved_bytes), measured: bytes(handed_bytes) }),
    row("until all had moved", { measured: duration_seconds === null ? "–" : seconds(duration_seconds) }),
    row("pause", { measured: seconds(Math.max(pause_seconds, 0)) }),
  ];
}

function pairs(one) {
  const after = one.loads_after;
  const top = Math.max(...one.loads_before, ...(after ?? []), 1e-9);
  const bar = (value, x, opacity, worker) => {
    const rect = svg("rect", { x, y: 60 - (value / top) * 58, width: 13, height: Math.max((value / top) * 58, 0.5), rx: 2, "fill-opacity": opacity });
    rect.style.fill = workerColour(worker);
    return rect;
  };
  const figures = one.loads_before.map((before, worker) =>
    el("figure", {}, svg("svg", { viewBox: "0 0 32 60", preserveAspectRatio: "none", "aria-hidden": "true" }, bar(before, 1, 0.4, worker), after ? bar(after[worker], 17, 1, worker) : ""), `${worker}`),
  );
  const label = `Load of each worker before${after ? " and after" : ""}`;
  return el("div", {}, el("p", { class: "sub" }, label), el("div", { class: "pairs", role: "img", "aria-label": `${label}: ${one.loads_before.map((v, w) => `worker ${w} ${v.toFixed(2)}${after ? ` to ${after[w].toFixed(2)}` : ""}`).join(", ")} CPU seconds` }, ...figures));
}

function moves(one) {
  const rest = one.move_count - one.moves.length;
  const name = (way) => `${way.query} ${way.before} ${way.after}`;
  const ways = new Map((one.measured?.handed ?? []).map((way) => [name(way), way]));
  const row = (move, key) => {
    const state = ways.get(name(move))?.bytes;
    ways.delete(name(move)); // keys that go the same way go together: told once
    return el("tr", {}, el("td", { class: "name" }, move.query), el("td", { class: "mono" }, key), el("td", { class: "num" }, `${move.before} → ${move.after}`), el("td", { class: "num" }, state === undefined ? "" : bytes(state)));
  };
  const rows = one.moves.map((move) => row(move, move.key ?? "whole query"));
  // What is left went by the hash: light keys of a worker that goes or comes.
  if (rest === 0) rows.push(...[...ways.values()].map((way) => row(way, "light keys")));
  const heads = ["Query", "Key", "Worker", "State"].map((text, at) => el("th", { scope: "col", class: at > 1 ? "num" : "" }, text));
  return el("div", { class: "moves", tabindex: "0", role: "region", "aria-label": "Moves" }, el("table", { class: "rows" }, el("caption", { class: "sr" }, "Moves"), el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows)), rest > 0 ? el("p", { class: "sub" }, `and ${rest} more`) : "");
}
