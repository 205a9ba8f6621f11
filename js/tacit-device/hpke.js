// HPKE (RFC 9180) in base mode, one shot: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, all of it WebCrypto's.
//
//   sealed = enc[32] || ciphertext || tag[16]
//
// HKDF is taken apart into the HMACs that RFC 5869 defines it by, because HPKE labels extraction and expansion; every
// output here is at most one block of SHA-256 long. Each message has an ephemeral key of its own and the sequence number 0.

import { concat, utf8 } from "./bytes.js";
import { InvalidInput, require } from "./errors.js";

export const OVERHEAD = 48;
const NONE = new Uint8Array(0);
const VERSION = utf8("HPKE-v1");
const KEM = concat(utf8("KEM"), Uint8Array.of(0x00, 0x20));
const SUITE = concat(utf8("HPKE"), Uint8Array.of(0x00, 0x20, 0x00, 0x01, 0x00, 0x01));
const BASE = Uint8Array.of(0);
const NO_SALT = new Uint8Array(32); // HMAC fills a shorter key up with zeros, so this is the empty one
const HMAC = { name: "HMAC", hash: "SHA-256" };
const DH = { name: "X25519" };
const KEY = 16;
const NONCE = 12;

const hmacKey = (raw) => crypto.subtle.importKey("raw", raw, HMAC, false, ["sign"]);
const hmac = async (key, data) => new Uint8Array(await crypto.subtle.sign("HMAC", await key, data));
let unsalted = null;
const noSalt = () => (unsalted ??= hmacKey(NO_SALT));

/** LabeledExtract(salt, label, ikm), with the salt as a key. */
const extract = (salt, suite, label, ikm) => hmac(salt, concat(VERSION, suite, utf8(label), ikm));

/** LabeledExpand(prk, label, info, L) for L of at most 32: one block of HKDF-Expand. */
async function expand(prk, suite, label, info, length) {
  const labelled = concat(Uint8Array.of(length >> 8, length & 255), VERSION, suite, utf8(label), info);
  return (await hmac(prk, concat(labelled, Uint8Array.of(1)))).slice(0, length);
}

/** The part of the key schedule that depends on `info` alone. */
async function contextOf(info) {
  const [names, about] = await Promise.all([
    extract(noSalt(), SUITE, "psk_id_hash", NONE),
    extract(noSalt(), SUITE, "info_hash", info),
  ]);
  return concat(BASE, names, about);
}

async function schedule(shared, enc, recipient, context) {
  require(shared.some((byte) => byte !== 0), "a public key must be one that can be sealed to", "a point of small order");
  const prk = hmacKey(await extract(noSalt(), KEM, "eae_prk", shared));
  const secret = hmacKey(await expand(prk, KEM, "shared_secret", concat(enc, recipient), 32));
  const base = hmacKey(await extract(secret, SUITE, "secret", NONE));
  const [key, nonce] = await Promise.all([
    expand(base, SUITE, "key", context, KEY),
    expand(base, SUITE, "base_nonce", context, NONCE),
  ]);
  return { key, nonce };
}

/**
 * A function that seals to a raw public key under one `info`.
 *
 * `ephemeral` gives the key pair of every message: a fresh one, but in tests of published vectors.
 */
export async function sealer(recipient, info, { ephemeral = freshPair, aad = NONE } = {}) {
  require(recipient.length === 32, "a public key must have 32 bytes", recipient.length);
  const raw = recipient.slice();
  const [key, context] = await Promise.all([crypto.subtle.importKey("raw", raw, DH, false, []), contextOf(info)]);
  return async (plain) => {
    const pair = await ephemeral();
    const [enc, shared] = await Promise.all([
      crypto.subtle.exportKey("raw", pair.publicKey).then((data) => new Uint8Array(data)),
      agree(pair.privateKey, key),
    ]);
    const found = await schedule(shared, enc, raw, context);
    const cipher = await crypto.subtle.importKey("raw", found.key, "AES-GCM", false, ["encrypt"]);
    const how = { name: "AES-GCM", iv: found.nonce, additionalData: aad };
    return concat(enc, new Uint8Array(await crypto.subtle.encrypt(how, cipher, plain)));
  };
}

const freshPair = () => crypto.subtle.generateKey(DH, false, ["deriveBits"]);

async function agree(secret, key) {
  try {
    return new Uint8Array(await crypto.subtle.deriveBits({ name: "X25519", public: key }, secret, 256));
  } catch {
    // WebCrypto refuses a shared secret of zeros; no honest party has such a key.
    throw new InvalidInput("a public key must be one that can be sealed to, got 'a point of small order'");
  }
}

/** The key pair of a raw secret and public key: for tests, which open what was sealed. A device never opens anything. */
export async function pairFrom(secret, recipient) {
  // PKCS #8 of an X25519 key: these sixteen bytes, then the key.
  const head = [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x6e, 0x04, 0x22, 0x04, 0x20];
  const privateKey = await crypto.subtle.importKey("pkcs8", concat(Uint8Array.from(head), secret), DH, false, [
    "deriveBits",
  ]);
  return { privateKey, publicKey: await crypto.subtle.importKey("raw", recipient, DH, true, []), raw: recipient };
}

/** What was sealed to this pair under this `info`, or null: for tests, as `pairFrom`. */
export async function open(pair, info, sealed, aad = NONE) {
  if (sealed.length < OVERHEAD) return null;
  try {
    const enc = sealed.slice(0, 32);
    const theirs = await crypto.subtle.importKey("raw", enc, DH, false, []);
    const found = await schedule(await agree(pair.privateKey, theirs), enc, pair.raw, await contextOf(info));
    const cipher = await crypto.subtle.importKey("raw", found.key, "AES-GCM", false, ["decrypt"]);
    const how = { name: "AES-GCM", iv: found.nonce, additionalData: aad };
    return new Uint8Array(await crypto.subtle.decrypt(how, cipher, sealed.slice(32)));
  } catch {
    return null;
  }
}
