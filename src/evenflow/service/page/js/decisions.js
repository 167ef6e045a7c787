// Decisions: reason, prediction and measured effect.

import { byId, darkMode, el, headerRow, setText, svg, syncChildren, workerColour } from "./dom.js";
import { formatBytes, formatRatio, formatSeconds, formatTime, pluralize } from "./format.js";

let selectedNumber = null;
let renderedKey = "";

export function initDecisions(requestRender) {
  byId("all-decisions").addEventListener("change", requestRender);
}

export function renderDecisions(state) {
  const list = byId("decisions");
  const all = byId("all-decisions").checked;
  const visible = state.decisions.filter((decision) => all || decision.changed);
  if (!visible.some((decision) => decision.number === selectedNumber)) selectedNumber = null;
  const picked = visible.find((decision) => decision.number === selectedNumber) ?? visible[0];
  syncChildren(list, visible, (decision) => decision.number, (decision) => listItem(decision, () => select(decision.number, state)), (li, decision) => {
    li.firstChild.setAttribute("aria-current", `${decision === picked}`);
    setText(li.querySelector(".what"), decisionTitle(decision));
  });
  renderDetail(picked, state);
}

function select(number, state) {
  selectedNumber = number;
  renderDecisions(state);
}

function listItem(decision, onclick) {
  const when = `#${decision.number} · ${formatTime(decision.at)}`;
  return el("li", { class: decision.changed ? "" : "unchanged" }, el("button", { type: "button", "data-testid": `decision-${decision.number}`, onclick }, el("span", { class: "what" }), el("span", { class: "when" }, when), el("span", { class: "why" }, decision.message)));
}

function decisionTitle(decision) {
  if (!decision.changed) return decision.title;
  const after = decision.measured?.judgement ?? decision.predicted;
  const gain = after ? `, ${formatRatio(decision.before.imbalance)} → ${formatRatio(after.imbalance)}` : "";
  return `${decision.trigger}: ${pluralize(decision.move_count, "move")}${gain}`;
}

function renderDetail(decision, state) {
  const box = byId("detail");
  const key = decision ? `${decision.number} ${Boolean(decision.measured)} ${darkMode.matches}` : `none ${state.points.length > 0}`;
  if (key === renderedKey) return;
  renderedKey = key;
  if (!decision) {
    const text = state.points.length ? "The plan has not changed yet. Changes are listed here with their reason and measured effect." : "No decision yet.";
    box.replaceChildren(el("p", { class: "empty" }, text));
    return;
  }
  box.replaceChildren(
    ...[
      el("h3", {}, `Decision ${decision.number}, ${formatTime(decision.at)}: ${decision.title}${decision.staged ? ", in stages" : ""}`),
      el("p", { class: "message" }, decision.message),
      figuresTable(decision),
      decision.loads_before && (decision.loads_after || decision.predicted) ? loadBars(decision) : null,
      ...decision.verdicts.map((verdict) => el("p", { class: "verdict" }, verdict.message)),
      decision.move_count || decision.measured?.handed.length ? movesTable(decision) : null,
    ].filter(Boolean),
  );
}

const FIGURE_ROWS = [
  ["imbalance", "imbalance", formatRatio],
  ["busiest worker, CPU s per batch", "max_load", (load) => load.toFixed(3)],
  ["mean", "mean_load", (load) => load.toFixed(3)],
  ["shipped per batch", "shipped_bytes", formatBytes],
];

function figuresTable(decision) {
  const measured = decision.measured?.judgement;
  const columns = [["before", decision.before], ["predicted", decision.predicted], ["measured", measured]].filter(([, value]) => value);
  const head = el("tr", {}, el("td"), ...columns.map(([name]) => el("th", { scope: "col" }, name)));
  const rows = FIGURE_ROWS.map(([name, field, text]) =>
    el("tr", {}, el("th", { scope: "row" }, name), ...columns.map(([, value]) => el("td", { class: field === "imbalance" && value.imbalance < decision.before.imbalance ? "good" : "" }, text(value[field])))),
  );
  const cost = decision.measured ? costRows(decision, columns) : [];
  return el("table", { class: "numbers" }, el("thead", {}, head), el("tbody", {}, ...rows, ...cost));
}

function costRows(decision, columns) {
  const { handed_bytes, duration_seconds, pause_seconds } = decision.measured;
  const row = (name, cells) => el("tr", {}, el("th", { scope: "row" }, name), ...columns.map(([column]) => el("td", {}, cells[column] ?? "")));
  return [
    row("state transferred", { predicted: formatBytes(decision.moved_bytes), measured: formatBytes(handed_bytes) }),
    row("until complete", { measured: duration_seconds === null ? "–" : formatSeconds(duration_seconds) }),
    row("pause", { measured: formatSeconds(Math.max(pause_seconds, 0)) }),
  ];
}

function loadBars(decision) {
  const after = decision.loads_after;
  const top = Math.max(...decision.loads_before, ...(after ?? []), 1e-9);
  const bar = (value, x, opacity, worker) => {
    const rect = svg("rect", { x, y: 60 - (value / top) * 58, width: 13, height: Math.max((value / top) * 58, 0.5), rx: 2, "fill-opacity": opacity });
    rect.style.fill = workerColour(worker);
    return rect;
  };
  const figures = decision.loads_before.map((before, worker) =>
    el("figure", {}, svg("svg", { viewBox: "0 0 32 60", preserveAspectRatio: "none", "aria-hidden": "true" }, bar(before, 1, 0.4, worker), after ? bar(after[worker], 17, 1, worker) : ""), `${worker}`),
  );
  const label = `Load of each worker before${after ? " and after" : ""}`;
  return el("div", {}, el("p", { class: "sub" }, label), el("div", { class: "pairs", role: "img", "aria-label": `${label}: ${decision.loads_before.map((v, w) => `worker ${w} ${v.toFixed(2)}${after ? ` to ${after[w].toFixed(2)}` : ""}`).join(", ")} CPU seconds` }, ...figures));
}

// A split key has several workers on one side or both.
const workers = (move) => {
  const [before, after] = [move.owners_before, move.owners_after];
  return after?.length ? `${before.join(", ")} → ${after.join(", ")}` : `${move.before} → ${move.after}`;
};

function movesTable(decision) {
  const rest = decision.move_count - decision.moves.length;
  const route = (move) => `${move.query} ${move.before} ${move.after}`;
  const transfers = new Map((decision.measured?.handed ?? []).map((transfer) => [route(transfer), transfer]));
  const row = (move, key) => {
    const state = transfers.get(route(move))?.bytes;
    transfers.delete(route(move)); // one transfer for all keys of a route: shown in its first row
    return el("tr", {}, el("td", { class: "name" }, move.query), el("td", { class: "mono" }, key), el("td", { class: "num" }, workers(move)), el("td", { class: "num" }, state === undefined ? "" : formatBytes(state)));
  };
  const rows = decision.moves.map((move) => row(move, move.key ?? "whole query"));
  // The rest are light keys, which follow the hash when a worker is drained or activated.
  if (rest === 0) rows.push(...[...transfers.values()].map((transfer) => row(transfer, "light keys")));
  return el("div", { class: "moves", tabindex: "0", role: "region", "aria-label": "Moves" }, el("table", { class: "rows" }, el("caption", { class: "sr" }, "Moves"), el("thead", {}, headerRow(["Query", "Key", "Worker", "State"])), el("tbody", {}, ...rows)), rest > 0 ? el("p", { class: "sub" }, `and ${rest} more`) : "");
}
