// Ed25519 signatures of bundles and documents of keys: who vouches for them, as far as a key was pinned.
//
// A signature covers every entry but itself and the digest, in canonical form, behind a word of its own. A key that came
// with a file proves nothing: only one that the person has from elsewhere makes it "pinned".

import { concat, equal, fromBase64, sha256, toHex, utf8 } from "./bytes.js";
import { InvalidInput, require } from "./errors.js";
import { canonical, isObject } from "./json.js";

const DOMAIN = utf8("tacit signature 1\n");
const OUTSIDE = ["signature", "digest"];
const PEM = /^-----BEGIN PUBLIC KEY-----\s+([A-Za-z0-9+/=\s]+?)\s+-----END PUBLIC KEY-----\s*$/;
// SubjectPublicKeyInfo of an Ed25519 key: these twelve bytes, then the key.
const SPKI = Uint8Array.of(0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00);

/** SHA-256 of the canonical JSON of everything but digest and signature, in hexadecimal digits. */
export async function digest(content) {
  return toHex(await sha256(utf8(canonical(inside(content)))));
}

/** The raw public key in a PEM text, as 'tacit keys new' writes it. */
export function pinFrom(pem) {
  const found = typeof pem === "string" ? PEM.exec(pem) : null;
  if (found === null) throw new InvalidInput("a pinned key must be a public key in PEM, made by 'tacit keys new'");
  const data = fromBase64(found[1].replace(/\s/g, ""));
  const known = data.length === SPKI.length + 32 && equal(data.subarray(0, SPKI.length), SPKI);
  require(known, "a pinned key must be a public Ed25519 key", "another kind of key");
  return data.slice(SPKI.length);
}

/** What the signature is worth to somebody who pinned this raw key, or none: {valid, pinned, words}. */
export async function examine(content, pinned = null) {
  const given = content.signature;
  if (given === undefined || given === null) return { valid: false, pinned: false, words: "unsigned" };
  const forged = { valid: false, pinned: false, words: "its signature is forged or about something else" };
  let raw;
  try {
    const whole = isObject(given) && given.algorithm === "ed25519";
    require(whole, "a signature must be of Ed25519", "another");
    raw = fromBase64(given.key);
    const key = await crypto.subtle.importKey("raw", raw, { name: "Ed25519" }, false, ["verify"]);
    const covered = concat(DOMAIN, utf8(canonical(inside(content))));
    if (!(await crypto.subtle.verify("Ed25519", key, fromBase64(given.value), covered))) return forged;
  } catch (error) {
    if (error?.name === "NotSupportedError") throw error; // a browser without Ed25519 must not call anything forged
    return forged;
  }
  const name = toHex(await sha256(raw)).slice(0, 16);
  if (pinned === null) return { valid: true, pinned: false, words: `signed by key ${name}, which nobody pinned` };
  if (!equal(raw, pinned)) {
    return { valid: false, pinned: false, words: `signed by another key (${name}) than the pinned one` };
  }
  return { valid: true, pinned: true, words: `signed by the pinned key ${name}` };
}

function inside(content) {
  const kept = Object.create(null);
  for (const name of Object.keys(content)) if (!OUTSIDE.includes(name)) kept[name] = content[name];
  return kept;
}
