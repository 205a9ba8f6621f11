// The public keys document of a party: canonical JSON, signed, relayed by the shuffler byte for byte; those of learner and
// mixer stand in the bundle of a sealed stage, and every device of the stage seals to their active keys.
//
// Refused are another party, study or suite; an entry that is missing or unknown; an id that is not that of its key; a key
// twice; any number of active keys but one; a signature by any key but the pinned one; a serial below one that was seen;
// and other keys under the same serial.

import { fromBase64, toHex, utf8 } from "./bytes.js";
import { require } from "./errors.js";
import { count, entries } from "./fields.js";
import { canonical, isObject, parseCanonical } from "./json.js";
import { keyId } from "./seal.js";
import { examine } from "./signature.js";

const SUITE = "X25519-HKDF-SHA256-AES128GCM";
const ENTRIES = ["format", "version", "party", "study", "suite", "keys", "serial", "signature"];
const PARTIES = ["learner", "shuffler", "mixer"];
const STATES = ["active", "pending", "expired"];
const LARGEST = 64 * 1024;

/** The documents in a bundle, by party; `before` are those that were seen last, as texts. */
export async function stageKeys({ channel, study, content }, pins, before = {}) {
  const layers = channel?.trust !== "shuffle" ? 0 : pins.mixer === null ? 1 : 2;
  const parties = Object.keys(content.keys ?? {});
  const hint = "pin the mixer where there is one; a stage that tacit 0.8 planned has none and must be given up";
  require(parties.length === layers, `a bundle must have the keys of ${layers} parties for its stage`, parties, hint);
  const found = {};
  for (const party of parties) {
    const how = { party, study, pin: pins[party] };
    const seen = Object.hasOwn(before, party) ? await readKeys(utf8(before[party]), how) : null;
    found[party] = await readKeys(utf8(canonical(content.keys[party])), { ...how, seen });
  }
  return found;
}

/** The document in these bytes: {party, serial, active, spelling}; `seen` is the last one that was believed, or null. */
export async function readKeys(data, { party, study, pin, seen = null }) {
  require(PARTIES.includes(party), `a party with keys must be one of ${PARTIES.join(", ")}`, "another");
  require(data.length <= LARGEST, `a keys document must have at most ${LARGEST} bytes`, data.length);
  const content = parseCanonical(data, "a keys document");
  entries("a keys document", content, ENTRIES);
  const known = content.format === "tacit-keys" && content.version === 1 && content.suite === SUITE;
  require(known, `keys must be a tacit-keys of version 1 for ${SUITE}`, "something else");
  require(content.party === party, `keys must be those of the ${party}`, "another party's");
  require(content.study === study, "keys must be for this study", "another study");
  const signed = await examine(content, pin);
  require(signed.pinned, "keys must be signed by the pinned key", signed.words);
  const serial = count("the serial of a keys document", content.serial);
  require(Array.isArray(content.keys), "keys must be a list", "something else");
  const keys = await Promise.all(content.keys.map(keyFrom));
  require(new Set(keys.map(({ id }) => id)).size === keys.length, "a keys document must name a key once", "twice");
  const active = keys.filter(({ state }) => state === "active");
  require(active.length === 1, "a keys document must have exactly one active key", active.length);
  const spelling = canonical(content.keys);
  if (seen !== null) {
    require(serial >= seen.serial, `keys must have a serial of at least ${seen.serial}, which was seen`, serial);
    require(serial > seen.serial || spelling === seen.spelling, "a serial must have one keys document", "another one");
  }
  return Object.freeze({ party, serial, active: active[0].raw, spelling });
}

async function keyFrom(plain) {
  const texts = isObject(plain) && Object.values(plain).every((part) => typeof part === "string");
  require(texts, "a key must have an id, a public part and a state", "something else");
  entries("a key", plain, ["id", "public", "state"]);
  require(STATES.includes(plain.state), `the state of a key must be one of ${STATES.join(", ")}`, "another");
  const raw = fromBase64(plain.public);
  require(raw.length === 32, "a public key must be 32 bytes in base64", raw.length);
  require(plain.id === toHex(await keyId(raw)), "the id of a key must follow from it", "another");
  return { id: plain.id, state: plain.state, raw };
}
