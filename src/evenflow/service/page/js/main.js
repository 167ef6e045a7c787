// The page: a feed on one side, a function for each panel on the other.

import { asked } from "./ask.js";
import { Charts } from "./charts.js";
import { showCorrelation } from "./correlation.js";
import { setUpDecisions, showDecisions } from "./decisions.js";
import { openQuery, openSubmit } from "./dialogs.js";
import { byId, dark } from "./dom.js";
import { Feed } from "./feed.js";
import { showKeys } from "./keys.js";
import { showMatrix } from "./matrix.js";
import { showNetwork } from "./network.js";
import { showStreams } from "./streams.js";
import { announce, showStatus, showStrip } from "./strip.js";
import { showWorkers } from "./workers.js";

const charts = new Charts();
let connected = false;
let planned = false;

function draw() {
  planned = false;
  const state = feed.state;
  if (!state) return;
  showStatus(connected ? state.summary.status : "lost");
  showStrip(state.summary);
  charts.show(state);
  showWorkers(state, (worker) => charts.focus(worker));
  showMatrix(state, (name) => openQuery(feed.state, name));
  showCorrelation(state.correlation);
  showDecisions(state);
  showKeys(state);
  showStreams(state);
  showNetwork(state, (name) => openQuery(feed.state, name));
}

/** Draw at most once a frame, and not at all while nobody looks. */
function redraw() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(draw);
}

const feed = new Feed(
  (state, { decisions }) => {
    const changed = decisions.filter((one) => one.changed);
    if (changed.length) announce(changed.at(-1));
    redraw();
  },
  (up) => {
    connected = up;
    if (feed.state) redraw();
    else showStatus(up ? "connecting" : "lost");
  },
);

setUpDecisions(redraw);
byId("open-submit").addEventListener("click", () => feed.state && openSubmit(feed.state));
byId("rollback").addEventListener("click", () => asked("POST", "api/rollback", {}));
dark.addEventListener("change", redraw);
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
}
feed.open();
