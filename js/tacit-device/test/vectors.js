// The shared vectors, checked: the same function in node and in a page. Python made them (tests/vectors).
//
//   const { checked, failed } = await checkVectors(device, sealing)      how many of each kind, and which ones fail

import { act, actionOf, armOf, ticketsOf } from "../act.js";
import { parseBundle, requireOrder, requirePrivate, requireSigned } from "../bundle.js";
import { concat, equal, fromHex, toHex, utf8 } from "../bytes.js";
import { channelFrom } from "../channel.js";
import { encode, trajectoryFrom } from "../encode.js";
import { InvalidInput, NotSupported } from "../errors.js";
import { LogisticCoin, below, bernoulli, bernoulliEach, coins, expEnclosure, fairBits, permutation } from "../exact.js";
import { open, pairFrom, sealer } from "../hpke.js";
import { parse, parseCanonical } from "../json.js";
import { readKeys, stageKeys } from "../keys.js";
import { encodeRow, rowsFrom } from "../rows.js";
import { innerInfo, keyId, knownCredential, mixerInfo, openName, outerInfo, report, sealEnvelope } from "../seal.js";
import { digest, examine, pinFrom } from "../signature.js";

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const big = (pair) => pair.map(BigInt);
const bitText = (bits) => Array.from(bits).join("");

/** A source that hands out recorded bytes; `spent` says whether all were taken, and not one more. */
function replay({ bytes, cycled = null }) {
  const recorded = fromHex(bytes);
  const size = cycled ?? recorded.length;
  let used = 0;
  const source = (count) => {
    used += count;
    if (used > size) throw new Error("more bytes than were recorded");
    return Uint8Array.from({ length: count }, (_, place) => recorded[(used - count + place) % recorded.length]);
  };
  source.spent = () => used === size;
  return source;
}

function drawn(vector, draw, expected) {
  const source = replay(vector);
  return same(draw(source), expected) && source.spent();
}

async function refusalOf(call) {
  try {
    await call();
    return "accepted";
  } catch (error) {
    if (error instanceof NotSupported) return "not supported";
    if (error instanceof InvalidInput) return "refused";
    throw error;
  }
}

const SAMPLERS = {
  coins: (v) => drawn(v, (source) => bitText(bernoulli(v.count, big(v.probability), source)), v.bits),
  logistic: (v) =>
    drawn(v, (source) => bitText(coins(new LogisticCoin(big(v.gamma), big(v.odds)), v.count, source)), v.bits),
  each: (v) => drawn(v, (source) => bitText(bernoulliEach(v.probabilities, source)), v.bits),
  fair: (v) => drawn(v, (source) => bitText(fairBits(v.count, source)), v.bits),
  below: (v) => drawn(v, (source) => below(v.limit, source), v.value),
  orders: (v) => drawn(v, (source) => permutation(v.count, source), v.order),
  enclosures: (v) => same(expEnclosure(big(v.gamma), v.bits).map(String), [v.lower, v.upper]),
};

function canonicalText(text) {
  try {
    parseCanonical(utf8(text), "a text");
    return true;
  } catch (error) {
    if (error instanceof InvalidInput) return false;
    throw error;
  }
}

async function trajectories({ study, trajectories: given }) {
  const bundle = await parseBundle(utf8(study));
  return given.map((v) => {
    try {
      return same(trajectoryFrom(bundle, v.given), v.becomes);
    } catch (error) {
      return error instanceof InvalidInput && v.becomes === null;
    }
  });
}

/** States as features: in reports, and for a policy that takes another action in each of them. */
async function seen({ bundle: text, trajectories: given, actions }) {
  const bundle = await parseBundle(utf8(text));
  return [
    ...given.map((v) => same(trajectoryFrom(bundle, v.given).states, v.becomes)),
    ...actions.map((row, step) => same(bundle.states.map((state) => act(bundle, bundle.arms[0], step, state)), row)),
  ];
}

async function accepted(vector, pins) {
  const pin = vector.pinned ? pinFrom(pins.learner) : null;
  const limits = { cap: vector.cap ?? Infinity, floor: vector.floor };
  let seen = null;
  const take = async (text) => {
    const found = await parseBundle(utf8(text));
    await requireSigned(found, pin);
    requireOrder(found, seen);
    requirePrivate(found, limits);
    seen = { ...found, head: found.head.text };
  };
  for (const text of vector.before) await take(text);
  return (await refusalOf(() => take(vector.bundle))) === vector.browser;
}

async function keysRead({ seen, document, active }, pins, study) {
  const how = { party: "shuffler", study, pin: pinFrom(pins.shuffler) };
  const before = seen === null ? null : await readKeys(utf8(seen), how);
  try {
    return toHex((await readKeys(utf8(document), { ...how, seen: before })).active) === active;
  } catch (error) {
    return error instanceof InvalidInput && active === null;
  }
}

async function named({ bundle, mixed, before, keys }, pins) {
  const pinned = { learner: pinFrom(pins.learner), mixer: mixed ? pinFrom(pins.mixer) : null };
  try {
    const found = Object.entries(await stageKeys(await parseBundle(utf8(bundle)), pinned, before));
    return same(Object.fromEntries(found.map(([party, { active }]) => [party, toHex(active)])), keys);
  } catch (error) {
    return error instanceof InvalidInput && keys === null;
  }
}

async function signatures(vectors, pins) {
  const pin = pinFrom(pins.learner);
  return Promise.all(
    vectors.map(async (v) => {
      const content = parse(v.document);
      const { valid, pinned, words } = await examine(content, pin);
      return same([valid, pinned, words, await digest(content)], [v.valid, v.pinned, v.words, v.digest]);
    }),
  );
}

async function standard(v) {
  const [info, plain, aad, sealed] = [v.info, v.plain, v.aad, v.sealed].map(fromHex);
  const ephemeral = () => pairFrom(fromHex(v.ephemeral), fromHex(v.enc));
  const seal = await sealer(fromHex(v.public), info, { ephemeral, aad });
  const whole = concat(fromHex(v.enc), sealed);
  const pair = await pairFrom(fromHex(v.secret), fromHex(v.public));
  const changed = whole.slice();
  changed[40] ^= 1;
  return [
    equal(await seal(plain), whole),
    equal((await open(pair, info, whole, aad)) ?? [], plain),
    (await open(pair, info, changed, aad)) === null,
    (await open(pair, utf8("another"), whole, aad)) === null,
  ];
}

/** Messages and envelopes that Python sealed, and what is sealed here, opened with the fixed keys. */
async function sealings({ study: hex, keys, info, messages, envelopes }) {
  const study = fromHex(hex);
  const pairs = {};
  for (const [party, key] of Object.entries(keys)) pairs[party] = await pairFrom(fromHex(key.secret), fromHex(key.public));
  const ids = Object.fromEntries(Object.entries(keys).map(([party, key]) => [party, fromHex(key.id)]));
  const found = [toHex(outerInfo(study, ids.shuffler)) === info.outer];
  for (const [party, key] of Object.entries(keys)) found.push(toHex(await keyId(pairs[party].raw)) === key.id);
  for (const [stage, text] of Object.entries(info.inner)) {
    found.push(toHex(innerInfo(study, Number(stage), ids.learner)) === text);
    found.push(toHex(mixerInfo(study, Number(stage), ids.mixer)) === info.mixer[stage]);
  }
  for (const one of messages) {
    const about = innerInfo(study, one.stage, ids.learner);
    const label = toHex((await open(pairs.learner, about, fromHex(one.inner))) ?? []);
    const size = one.kind === "u16" ? 2 : 4;
    const number = fromHex(label).reduce((sum, byte, place) => sum + byte * 256 ** place, 0);
    found.push(label.length === 2 * size && number === one.label);
    const layer = await open(pairs.mixer, mixerInfo(study, one.stage, ids.mixer), fromHex(one.outer));
    found.push(toHex(layer ?? []) === one.inner);
  }
  for (const one of envelopes) {
    const [token, made] = [fromHex(one.token), fromHex(one.report)];
    const here = await sealEnvelope(made, token, { study, shuffler: pairs.shuffler.raw });
    for (const envelope of [fromHex(one.envelope), here]) {
      const inside = await open(pairs.shuffler, outerInfo(study, envelope.slice(36, 44)), envelope.slice(44));
      const head = concat(utf8("TCP1"), Uint8Array.of(token.length & 255, token.length >> 8));
      found.push(inside !== null && equal(inside, concat(head, token, made)) && here.length === envelope.length);
    }
  }
  return found;
}

/** Rows: what they become, or that they are refused. */
function rowOf({ declaration, given, x }) {
  try {
    return same(encodeRow(rowsFrom(parse(declaration)), given), x);
  } catch (error) {
    return error instanceof InvalidInput && x === null;
  }
}

/** A bundle over rows: what each draw does, and what is said of a person. */
async function overRows({ bundle: text, people, refused }) {
  const bundle = await parseBundle(utf8(text));
  return [
    ...people.map((v) => same(trajectoryFrom(bundle, v.given), v.becomes)),
    ...people.map((v) => same(bundle.arms.map((policy) => act(bundle, policy, 0, v.row)), v.acts)),
    ...people.map((v) => bundle.actions.includes(act(bundle, bundle.fallback, 0, v.row))),
    ...(await Promise.all(refused.map(async (one) => (await refusalOf(() => parseBundle(utf8(one)))) === "refused"))),
  ];
}

function lots({ actions, weights, arms }) {
  const fractions = weights.map(big);
  return [
    ...actions.map(({ row, lot, action }) => actionOf(row, lot) === action),
    Number(ticketsOf(fractions)) === arms.length,
    ...arms.map((arm, ticket) => armOf(fractions, ticket) === arm),
  ];
}

/** Check all vectors. */
export async function checkVectors(device, sealing) {
  const results = {};
  for (const [name, check] of Object.entries(SAMPLERS)) results[name] = device[name].map(check);
  results.spellings = device.spellings.map((v) => canonicalText(v.text) === v.canonical);
  results.bodies = device.bodies.map((v) => {
    const channel = channelFrom(parse(device.channels[v.channel]));
    return drawn(v, (source) => toHex(encode(channel, v.trajectory, source)), v.body);
  });
  results.rows = device.rows.map(rowOf);
  results.moment_bodies = device.moment_bodies.map((v) => {
    const channel = channelFrom(parse(device.moment_channels[v.channel]));
    return drawn(v, (source) => toHex(encode(channel, v.person, source)), v.body);
  });
  results.row_bundle = await overRows(device.row_bundle);
  results.trajectories = await trajectories(device);
  results.seen = await seen(device.seen);
  results.lots = lots(device.lots);
  const { study, stage, id, body, report: whole } = device.report;
  results.report = [toHex(report(fromHex(study), stage, fromHex(body), () => fromHex(id))) === whole];
  const { known, open: anybody } = device.badges;
  results.badges = [toHex(knownCredential("é secret")) === known, toHex(openName("é secret")) === anybody];
  results.signatures = await signatures(device.signatures, device.pins);
  results.bundles = await Promise.all(device.bundles.map((v) => accepted(v, device.pins)));
  results.keys = await Promise.all(device.keys.map((v) => keysRead(v, device.pins, study)));
  results.named = await Promise.all(device.named.map((v) => named(v, device.pins)));
  results.rfc9180 = await standard(device.rfc9180);
  results.sealing = await sealings(sealing);
  const failed = Object.entries(results).flatMap(([name, found]) =>
    found.flatMap((right, place) => (right === true ? [] : [`${name} ${device[name]?.[place]?.name ?? device[name]?.[place]?.channel ?? place}`])),
  );
  return { checked: Object.fromEntries(Object.entries(results).map(([name, found]) => [name, found.length])), failed };
}

/** Sealed bytes for Python to open: envelopes around reports, with keys and contents from the vectors. */
export async function sealedHere({ study: hex, keys, envelopes }) {
  const [study, shuffler] = [fromHex(hex), fromHex(keys.shuffler.public)];
  return Promise.all(
    envelopes.map(async ({ token, report: made }) =>
      toHex(await sealEnvelope(fromHex(made), fromHex(token), { study, shuffler })),
    ),
  );
}

