// What changes something. The header shows that the request comes from our own page.

import { byId, el } from "./dom.js";

export async function ask(method, path, body) {
  const init = { method, headers: { "X-Evenflow": "1" } };
  if (body !== undefined) {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new Error("the service does not answer; is it still running?");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error ?? `the service answered ${response.status}`);
  return answer;
}

export function toast(text, bad = false) {
  const note = el("p", bad ? { class: "bad" } : {}, text);
  byId("toasts").append(note);
  setTimeout(() => note.remove(), bad ? 9000 : 5000);
}

/** Ask, and tell what came of it. */
export async function asked(method, path, body) {
  try {
    toast((await ask(method, path, body)).message);
    return true;
  } catch (error) {
    toast(error.message, true);
    return false;
  }
}
