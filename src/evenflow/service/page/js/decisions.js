// Decisions: reason, prediction and measured effect.

import { request } from "./api.js";
import { byId, darkMode, el, headerRow, setText, svg, syncChildren, workerColour } from "./dom.js";
import { formatBytes, formatRatio, formatSeconds, formatTime, pluralize } from "./format.js";
import { linkTo } from "./router.js";

const MAX_BARS = 24;
let selectedNumber = null;
let renderedKey = "";
let unlisted = null; // a decision of a link that is not in the list, if there is one

export function initDecisions(requestRender) {
  byId("all-decisions").addEventListener("change", requestRender);
}

export function renderDecisions(state) {
  const list = byId("decisions");
  const all = byId("all-decisions").checked;
  const visible = state.decisions.filter((decision) => all || decision.changed);
  const picked = (unlisted?.number === selectedNumber ? unlisted : visible.find((decision) => decision.number === selectedNumber)) ?? visible[0];
  syncChildren(list, visible, (decision) => decision.number, listItem, (li, decision) => {
    li.firstChild.setAttribute("aria-current", `${decision === picked}`);
    setText(li.querySelector(".what"), decisionTitle(decision));
  });
  renderDetail(picked, state);
}

/** Show a decision, from a link; also one that changed nothing. */
export function selectDecision(number, state) {
  selectedNumber = number;
  unlisted = null;
  const found = state.decisions.find((decision) => decision.number === number);
  if (found && !found.changed) byId("all-decisions").checked = true;
  if (!found) request("GET", `api/decisions/${number}`).then((decision) => { unlisted = decision; renderDecisions(state); }, (error) => byId("detail").replaceChildren(el("p", { class: "error" }, error.message)));
  renderDecisions(state);
  byId("decision-panel").scrollIntoView({ block: "start" });
}

function listItem(decision) {
  const when = `#${decision.number} · ${formatTime(decision.at)}`;
  return el("li", { class: decision.changed ? "" : "unchanged" }, el("a", { href: linkTo("decision", decision.number), "data-testid": `decision-${decision.number}` }, el("span", { class: "what" }), el("span", { class: "when" }, when), el("span", { class: "why" }, decision.message)));
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
  showDetail(box, decision);
  // The list has no moves and loads: they are read when a decision is shown.
  request("GET", `api/decisions/${decision.number}`).then((full) => key === renderedKey && showDetail(box, full), () => {});
}

function showDetail(box, decision) {
  box.replaceChildren(
    ...[
      el("h3", {}, `Decision ${decision.number}, ${formatTime(decision.at)}: ${decision.title}${decision.staged ? ", in stages" : ""}`),
      el("p", { class: "message" }, decision.message),
      figuresTable(decision),
      decision.loads_before && (decision.loads_after || decision.predicted) ? loadBars(decision) : null,
      ...decision.verdicts.map((verdict) => el("p", { class: "verdict" }, verdict.message)),
      decision.moves.length || decision.measured?.handed.length ? movesTable(decision) : null,
    ].filter(Boolean),
  );
}

const FIGURE_ROWS = [
  ["imbalance", "imbalance", formatRatio],
  ["busiest worker, CPU s per batch", "max_load", (load) => load.toFixed(3)],
  ["mean", "mean_load", (load) => load.toFixed(3)],
  ["shipped to whole queries", "shipped_bytes", formatBytes],
];

function figuresTable(decision) {
  const measured = decision.measured?.judgement;
  const columns = [["before", decision.before], ["predicted", decision.predicted], ["measured", measured]].filter(([, value]) => value);
  const head = el("tr", {}, el("td"), ...columns.map(([name]) => el("th", { scope: "col" }, name)));
  const known = FIGURE_ROWS.filter(([, field]) => field !== "shipped_bytes" || columns.some(([, value]) => value[field] > 0));
  const rows = known.map(([name, field, text]) =>
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
  const before = decision.loads_before;
  const busiest = before.map((_, worker) => worker).sort((a, b) => Math.max(before[b], after?.[b] ?? 0) - Math.max(before[a], after?.[a] ?? 0)).slice(0, MAX_BARS);
  const shown = before.length > MAX_BARS ? busiest : busiest.sort((a, b) => a - b);
  const figures = shown.map((worker) =>
    el("figure", {}, svg("svg", { viewBox: "0 0 32 60", preserveAspectRatio: "none", "aria-hidden": "true" }, bar(before[worker], 1, 0.4, worker), after ? bar(after[worker], 17, 1, worker) : ""), `${worker}`),
  );
  const label = `Load of ${before.length > MAX_BARS ? `the busiest ${MAX_BARS} workers` : "each worker"} before${after ? " and after" : ""}`;
  return el("div", {}, el("p", { class: "sub" }, label), el("div", { class: "pairs", tabindex: "0", role: "img", "aria-label": `${label}: ${shown.map((w) => `worker ${w} ${before[w].toFixed(2)}${after ? ` to ${after[w].toFixed(2)}` : ""}`).join(", ")} CPU seconds` }, ...figures));
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
    return el("tr", {}, el("td", { class: "name" }, el("a", { class: "quiet-link", href: linkTo("query", move.query) }, move.query)), el("td", { class: "mono" }, move.key ? el("a", { class: "quiet-link", href: linkTo("key", move.query, move.key) }, key) : key), el("td", { class: "num" }, workers(move)), el("td", { class: "num" }, state === undefined ? "" : formatBytes(state)));
  };
  const rows = decision.moves.map((move) => row(move, move.key ?? "whole query"));
  // The rest are light keys, which follow the hash when a worker is drained or activated.
  if (rest === 0) rows.push(...[...transfers.values()].map((transfer) => row(transfer, "light keys")));
  return el("div", { class: "moves", tabindex: "0", role: "region", "aria-label": "Moves" }, el("table", { class: "rows" }, el("caption", { class: "sr" }, "Moves"), el("thead", {}, headerRow(["Query", "Key", "Worker", "State"])), el("tbody", {}, ...rows)), rest > 0 ? el("p", { class: "sub" }, `and ${rest} more`) : "");
}
