// The page: takes states from the feed and renders every panel.

import { request, requestWithToast } from "./api.js";
import { renderAnswers } from "./answers.js";
import { renderCorrelation } from "./correlation.js";
import { initDecisions, renderDecisions, selectDecision } from "./decisions.js";
import { byId, darkMode, setText } from "./dom.js";
import { FlowCharts } from "./flow_charts.js";
import { renderHotKeys } from "./hot_keys.js";
import { openKeyView, refreshKeyView } from "./key_view.js";
import { LoadCharts } from "./load_charts.js";
import { pollProblems, renderProblems } from "./problems.js";
import { QueryList } from "./query_list.js";
import { renderNetwork } from "./query_network.js";
import { openQueryView } from "./query_view.js";
import { loadRole } from "./role.js";
import { Router } from "./router.js";
import { StateFeed } from "./state_feed.js";
import { announceDecision, renderStatus, renderSummary } from "./status.js";
import { renderStreams } from "./streams.js";
import { openSubmitDialog } from "./submit_dialog.js";
import { renderTenants } from "./tenants.js";
import { TimeRange } from "./time_range.js";
import { renderWorkers } from "./workers.js";

const QUERY_REFRESH_MS = 1000;
let connected = false;
let drawing = false;
let stale = false; // something changed since the last drawing began
let routed = false;
let queriesAt = 0;

const range = new TimeRange((chosen) => {
  if (chosen) router.setTime(range.text);
  requestRender();
});
const zoom = (start, end) => range.zoom(start, end);
const flow = new FlowCharts(zoom);
const loads = new LoadCharts(zoom);
const queries = new QueryList();
const open = (name) => router.open("query", name);

// Each part is drawn in a task of its own, so that none holds up a click.
const CHARTS = [
  (state) => flow.update(state, range.points(state), planChanges(state)),
  (state) => loads.update(state, range.points(state), planChanges(state)),
];
const PARTS = [
  renderAnswers,
  (state) => renderSummary(state.summary),
  (state) => renderWorkers(state, (worker) => loads.focus(worker)),
  renderDecisions,
  renderHotKeys,
  renderStreams,
  renderProblems,
  renderTenants,
  (state) => renderNetwork(state, open),
  (state) => renderCorrelation(state.correlation, state.summary.active),
];

const planChanges = (state) => state.decisions.filter((decision) => decision.changed).map((decision) => decision.at);

async function render() {
  stale = false;
  try {
    await renderParts();
  } finally {
    drawing = false; // a part that failed does not stop the page
    if (stale) requestRender();
  }
}

async function renderParts() {
  const state = feed.state;
  if (state) {
    renderStatus(connected ? state.summary.status : "lost", range.paused);
    for (const part of range.paused ? CHARTS : [...CHARTS, ...PARTS]) {
      part(state);
      await nextTask();
    }
    if (!routed) {
      routed = true;
      router.follow();
    }
  }
}

const nextTask = () => new Promise((resolve) => setTimeout(resolve));

/** Render at most once per frame, and not at all while the page is hidden; a change while drawing is drawn after it. */
function requestRender() {
  stale = true;
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(render);
}

function refreshQueries(state) {
  if (range.paused || Date.now() - queriesAt < QUERY_REFRESH_MS) return;
  queriesAt = Date.now();
  queries.refresh(state);
  refreshKeyView();
}

const feed = new StateFeed(
  (state, { decisions }) => {
    const changed = decisions.filter((decision) => decision.changed);
    if (changed.length) announceDecision(changed.at(-1));
    refreshQueries(state);
    requestRender();
  },
  (up) => {
    connected = up;
    if (feed.state) requestRender();
    else renderStatus(up ? "connecting" : "lost");
  },
);

const router = new Router(async (parts, time) => {
  range.text = time;
  router.time = range.text;
  const [kind, ...names] = parts;
  for (const id of ["query", "key"]) if (id !== kind && byId(id).open) byId(id).close();
  if (kind === "query" && names.length === 1) await openQueryView(feed.state, names[0]);
  else if (kind === "key" && names.length === 2) await openKeyView(names[0], names[1]);
  else if (kind === "decision" && /^\d+$/.test(names[0] ?? "")) selectDecision(Number(names[0]), feed.state);
  requestRender();
});

initDecisions(requestRender);
byId("open-submit").addEventListener("click", () => feed.state && openSubmitDialog(feed.state));
byId("rollback").addEventListener("click", () => requestWithToast("POST", "api/rollback", {}));
darkMode.addEventListener("change", () => {
  queries.redraw();
  requestRender();
});
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  // Closed by the person, not by another address: leave its address.
  dialog.addEventListener("close", () => location.hash.startsWith(`#${dialog.id}/`) && router.close());
}

async function showRunName() {
  const run = await request("GET", "api/run");
  setText(byId("run-name"), run.name);
  byId("run-name").title = `${run.checkpoint}, Evenflow ${run.version}`;
  document.title = `${run.name} · Evenflow`;
}

await loadRole();
showRunName().catch(() => {});
feed.open();
pollProblems(requestRender);
