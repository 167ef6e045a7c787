// What the token of this page may do; actions that it may not do are not shown.

import { request } from "./api.js";

const ROLES = ["read", "submit", "operate"];
let role = "read";

export async function loadRole() {
  try {
    role = (await request("GET", "api/me")).role;
  } catch {
    // The service cannot be reached: the feed says so.
  }
}

export const may = (needed) => ROLES.indexOf(role) >= ROLES.indexOf(needed);
