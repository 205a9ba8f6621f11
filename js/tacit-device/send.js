// Sending: what an answer of the shuffler means for a frozen report, and how long to wait before the next try.
//
// Only the shuffler's own words end a report: "counted" and "again", or a problem of tacit that is final. No answer, an
// overload, or a page of something in between is waited out, longer each time, in full jitter on top of what Retry-After
// asked for. A key that the shuffler does not know means a new envelope around the same report, never a new report.

import { uniform } from "./randomness.js";

const DONE = { 201: "counted", 200: "again" };
const PROBLEM = /^urn:tacit:problem:([a-z-]{1,40})$/;
const FINAL = ["malformed", "unknown-study", "token", "bad-body", "id-taken", "twice", "used-up", "full", "too-large"];
const LONGEST_WAIT = 3600;
const LARGEST_ANSWER = 65536;

/** What to do next ("done", "wait", "rekey", "over", "refused"), the word to remember, and the seconds asked for. */
export function understood(reply) {
  if (reply === null) return { next: "wait", word: "no answer", after: 0 };
  if (Object.hasOwn(DONE, reply.status)) {
    // A page in between may say 200 to everything; the shuffler says what became of the report.
    const said = entry(reply, "report") === DONE[reply.status];
    return { next: said ? "done" : "wait", word: said ? DONE[reply.status] : "no answer", after: 0 };
  }
  const word = problemOf(reply);
  const after = retryAfter(reply.retryAfter);
  if (word === "late") return { next: "over", word, after: 0 };
  if (word === "unknown-key") return { next: "rekey", word, after };
  if (FINAL.includes(word)) return { next: "refused", word, after: 0 };
  return { next: "wait", word: word || "no answer", after };
}

/** The slug of a problem document of tacit, or nothing. */
export const problemOf = (reply) => PROBLEM.exec(entry(reply, "type"))?.[1] ?? "";

/** Whole seconds of Retry-After, bounded; anything else asks for nothing. */
export function retryAfter(text) {
  return /^[0-9]{1,9}$/.test(text ?? "") ? Math.min(Number(text), LONGEST_WAIT) : 0;
}

/** Seconds before the next try: after + U [0, min(most, first 2^attempt)). */
export function backoff(attempt, after, { first = 0.5, most = 60, lot = uniform() } = {}) {
  return after + lot * Math.min(most, first * 2 ** Math.min(attempt, 64));
}

/** A page's own requests: no cookies, no referrer, no redirects; null where there is no answer. */
export async function ask(url, { method = "GET", body = null, most = LARGEST_ANSWER, seconds = 30 } = {}) {
  const headers = body === null ? {} : { "content-type": "application/octet-stream" };
  try {
    const found = await fetch(url, {
      ...{ method, body, headers, mode: "cors", credentials: "omit", redirect: "error" },
      ...{ referrerPolicy: "no-referrer", cache: body === null ? "no-cache" : "no-store" },
      signal: AbortSignal.timeout(1000 * seconds),
    });
    const content = await limited(found, most);
    return content && { status: found.status, retryAfter: found.headers.get("retry-after"), content };
  } catch {
    return null;
  }
}

async function limited(found, most) {
  const parts = [];
  let size = 0;
  if (found.body === null) return new Uint8Array(0);
  for (const reader = found.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > most) {
      await reader.cancel();
      return null;
    }
    parts.push(value);
  }
  const whole = new Uint8Array(size);
  parts.reduce((place, part) => (whole.set(part, place), place + part.length), 0);
  return whole;
}

function entry(reply, name) {
  try {
    const found = JSON.parse(new TextDecoder().decode(reply.content))[name];
    return typeof found === "string" ? found : "";
  } catch {
    return "";
  }
}
