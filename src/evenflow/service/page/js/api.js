// Write requests. The header shows that a request comes from our own page.

import { byId, el } from "./dom.js";

export async function request(method, path, body) {
  const init = { method, headers: { "X-Evenflow": "1" } };
  if (body !== undefined) {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new Error("the service cannot be reached; is it still running?");
  }
  const reply = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(reply.error ?? `the service returned HTTP ${response.status}`);
  return reply;
}

export function showToast(text, bad = false) {
  const note = el("p", bad ? { class: "bad" } : {}, text);
  byId("toasts").append(note);
  setTimeout(() => note.remove(), bad ? 9000 : 5000);
}

/** Send a request and show its result; returns whether it succeeded. */
export async function requestWithToast(method, path, body) {
  try {
    showToast((await request(method, path, body)).message);
    return true;
  } catch (error) {
    showToast(error.message, true);
    return false;
  }
}
