// Sealing: every message of a shuffled body by itself to the learner, and every report in an envelope to the shuffler.
//
//   report     "TCR1" study[32] stage u32 id[16] body
//   inner      HPKE to the learner of one label, under inner(study, stage, key)        in an order that says nothing
//   layer      HPKE to the mixer of `inner`, under mixer(study, stage, key), if there is one
//   envelope   "TCE1" study[32] key[8] HPKE to the shuffler, under outer(study, key), of
//              "TCP1" u16 length, token, report                                                    little endian
//
// `info` binds purpose, study, stage and key: what is sealed for one of them opens for no other.

import { concat, sha256, u16, u32, utf8 } from "./bytes.js";
import { bodyMessages } from "./encode.js";
import { require } from "./errors.js";
import { permutation } from "./exact.js";
import { sealer } from "./hpke.js";
import { secureBytes } from "./randomness.js";

const STUDY = 32;
const KEY_ID = 8;
const REPORT_ID = 16;
const LONGEST_TOKEN = 2 ** 16 - 1;
const LONGEST_NAME = 1024;
const AT_ONCE = 64;

/** The eight bytes by which a raw public key is named. */
export const keyId = async (raw) => (await sha256(raw)).slice(0, KEY_ID);

export const outerInfo = (study, key) => concat(utf8("tacit/1 outer\n"), digestOf(study), idOf(key));
export const innerInfo = (study, stage, key) =>
  concat(utf8("tacit/1 inner\n"), digestOf(study), u32(stage), idOf(key));
export const mixerInfo = (study, stage, key) =>
  concat(utf8("tacit/1 mixer\n"), digestOf(study), u32(stage), idOf(key));

/** A report around a body, under an id that nobody can tie to anything. */
export function report(study, stage, body, bytes = secureBytes) {
  return concat(utf8("TCR1"), digestOf(study), u32(stage), bytes(REPORT_ID), body);
}

/** The sealed body of a shuffled stage: one message per label, in a uniform order; `mixer` is a second layer. */
export async function sealBody(channel, body, { study, stage, learner, mixer = null }) {
  const count = bodyMessages(channel, body);
  const inner = await sealer(learner, innerInfo(study, stage, await keyId(learner)));
  const outer = mixer === null ? null : await sealer(mixer, mixerInfo(study, stage, await keyId(mixer)));
  const order = permutation(count);
  const sealed = [];
  for (let start = 0; start < count; start += AT_ONCE) {
    const some = order.slice(start, start + AT_ONCE).map(async (place) => {
      const one = await inner(body.subarray(place * channel.width, (place + 1) * channel.width));
      return outer === null ? one : outer(one);
    });
    sealed.push(...(await Promise.all(some)));
  }
  return concat(...sealed);
}

/** The envelope around a report, for the shuffler's active key. */
export async function sealEnvelope(made, token, { study, shuffler }) {
  require(token.length <= LONGEST_TOKEN, `a token must have at most ${LONGEST_TOKEN} bytes`, token.length);
  const name = await keyId(shuffler);
  const plain = concat(utf8("TCP1"), u16(token.length), token, made);
  const seal = await sealer(shuffler, outerInfo(study, name));
  return concat(utf8("TCE1"), digestOf(study), name, await seal(plain));
}

/** What a known person's device sends in the place of a token. */
export const knownCredential = (credential) => around("TCK1", credential);

/** What a device sends in the place of a token where anybody may report: demonstrations only. */
export const openName = (name) => around("TCO1", name);

function around(word, text) {
  const inside = utf8(text);
  const fits = inside.length > 0 && inside.length <= LONGEST_NAME;
  require(fits, `a credential or name must have 1 to ${LONGEST_NAME} bytes`, "another length");
  return concat(utf8(word), u16(inside.length), inside);
}

function digestOf(study) {
  require(study.length === STUDY, `a study's digest must have ${STUDY} bytes`, study.length);
  return study;
}

function idOf(key) {
  require(key.length === KEY_ID, `the id of a key must have ${KEY_ID} bytes`, key.length);
  return key;
}
