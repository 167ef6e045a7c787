// The page: takes states from the feed and renders every panel.

import { requestWithToast } from "./api.js";
import { renderCorrelation } from "./correlation.js";
import { initDecisions, renderDecisions } from "./decisions.js";
import { openQueryDialog, openSubmitDialog } from "./dialogs.js";
import { byId, darkMode } from "./dom.js";
import { renderHotKeys } from "./hot_keys.js";
import { LoadCharts } from "./load_charts.js";
import { renderMatrix } from "./query_matrix.js";
import { renderNetwork } from "./query_network.js";
import { loadRole } from "./role.js";
import { StateFeed } from "./state_feed.js";
import { announceDecision, renderStatus, renderSummary } from "./status.js";
import { renderStreams } from "./streams.js";
import { renderWorkers } from "./workers.js";

const charts = new LoadCharts();
let connected = false;
let frameRequested = false;

function render() {
  frameRequested = false;
  const state = feed.state;
  if (!state) return;
  renderStatus(connected ? state.summary.status : "lost");
  renderSummary(state.summary);
  charts.update(state);
  renderWorkers(state, (worker) => charts.focus(worker));
  renderMatrix(state, (name) => openQueryDialog(feed.state, name));
  renderCorrelation(state.correlation);
  renderDecisions(state);
  renderHotKeys(state);
  renderStreams(state);
  renderNetwork(state, (name) => openQueryDialog(feed.state, name));
}

/** Render at most once per frame, and not at all while the page is hidden. */
function requestRender() {
  if (frameRequested) return;
  frameRequested = true;
  requestAnimationFrame(render);
}

const feed = new StateFeed(
  (state, { decisions }) => {
    const changed = decisions.filter((decision) => decision.changed);
    if (changed.length) announceDecision(changed.at(-1));
    requestRender();
  },
  (up) => {
    connected = up;
    if (feed.state) requestRender();
    else renderStatus(up ? "connecting" : "lost");
  },
);

initDecisions(requestRender);
byId("open-submit").addEventListener("click", () => feed.state && openSubmitDialog(feed.state));
byId("rollback").addEventListener("click", () => requestWithToast("POST", "api/rollback", {}));
darkMode.addEventListener("change", requestRender);
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}
await loadRole();
feed.open();
