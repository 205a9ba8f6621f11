// Bodies of reports: what leaves a person, in whole numbers. `null` instead of a trajectory is a cover report.
//
// Nothing here looks at what a person did but to encode it: states and actions are clipped into the public sizes, rewards
// into [0, 1], NaN is 0. Noise is exact and comes from the browser's CSPRNG; `bytes` is another source for tests only.

import { concat } from "./bytes.js";
import { seenOf } from "./declared.js";
import { InvalidInput, NotSupported, require } from "./errors.js";
import { LogisticCoin, below, bernoulli, bernoulliEach, coins, fairBits, permutation } from "./exact.js";
import { encodeCurator, encodeDirection, onesOf } from "./moments.js";
import { secureBytes } from "./randomness.js";
import { encodeRow } from "./rows.js";

const COVER = 0xff;

/** One report's body. */
export function encode(channel, trajectory, bytes = secureBytes) {
  if (channel.kind === "central-vectors") return encodeCurator(channel, trajectory, bytes);
  if (channel.kind === "local-vectors") return encodeDirection(channel, trajectory, bytes);
  if (channel.kind === "shuffle-vectors") {
    const often = onesOf(channel, trajectory, bytes);
    return mixed(channel, often.flatMap((times, label) => new Array(times).fill(label)), bytes);
  }
  if (trajectory !== null) requireLengths(channel.shape, trajectory);
  switch (channel.kind) {
    case "shuffle":
      return encodeShuffle(channel, trajectory, bytes);
    case "local":
      return encodeLocal(channel, trajectory, bytes);
    case "central-totals":
    case "central-batch":
      return encodeCentral(channel, trajectory, bytes);
    default:
      throw new NotSupported("a device in the browser does not encode for this kind of channel");
  }
}

/**
 * A trajectory in the study's numbers: names become numbers, rewards go from their public bounds to [0, 1], and where
 * features are declared, states become what is seen of them.
 *
 * Numbers out of range are clipped, and a reward that is missing is the lowest one. What is no trajectory of this study
 * at all (another length, a name that it does not have) is refused, without a word about what it was.
 */
export function trajectoryFrom(bundle, given) {
  const { states, actions, rewards } = given ?? {};
  const lists = [states, actions, rewards].every((part) => Array.isArray(part));
  require(lists, "a trajectory must have lists of states, actions and rewards", "something else");
  const H = bundle.horizon;
  const fits = actions.length === H && rewards.length === H && [H, H + 1].includes(states.length);
  require(fits, `a trajectory must have ${H} steps, and one state more or as many`, "another length");
  const [low, high] = bundle.rewards;
  if (bundle.rows !== null) {
    const [reward] = scaledRewards(rewards, low, high);
    return { x: encodeRow(bundle.rows, states[0]), action: numberOf(actions[0], bundle.actions), reward, lot: -1 };
  }
  return {
    states: states.map((one) => seenOf(bundle, numberOf(one, bundle.states))),
    actions: actions.map((one) => numberOf(one, bundle.actions)),
    rewards: scaledRewards(rewards, low, high),
  };
}

const scaledRewards = (rewards, low, high) =>
  rewards.map((one) => {
    const missing = one === null || one === undefined;
    require(missing || typeof one === "number", "rewards must be numbers", "something else");
    return missing ? 0 : clippedReward((one - low) / (high - low));
  });

function numberOf(given, names) {
  if (typeof given === "number" && Number.isInteger(given)) return clip(given, names.length);
  const place = typeof given === "string" ? names.indexOf(given) : -1;
  require(place >= 0, "states and actions must have names of this study, or be their numbers", "others");
  return place;
}

const clip = (index, size) => Math.max(0, Math.min(index, size - 1));
const clippedReward = (reward) => (reward > 0 ? Math.min(reward, 1) : 0); // a comparison with NaN is false

function requireLengths({ horizon: H }, { states, actions, rewards }) {
  const fits = actions.length === H && rewards.length === H && [H, H + 1].includes(states.length);
  require(fits, `a trajectory must have ${H} steps, and one state more or as many`, "another length");
  const whole = [...states, ...actions].every((one) => Number.isInteger(one));
  require(whole, "states and actions must be whole numbers", "others");
}

// Shuffle: labels of data and noise, sorted, dummies last

function encodeShuffle(channel, trajectory, bytes) {
  return mixed(channel, trajectory === null ? [] : labels(channel, trajectory, bytes), bytes);
}

/** Labels of data among those of noise, and dummies. */
function mixed(channel, ones, bytes) {
  const { spec, bitsPerUser, block, noiseBits, probability, mirrored = false } = channel;
  const fair = probability[0] === 1n && probability[1] === 2n;
  const rare = mirrored ? noiseBits / 2 : noiseBits;
  const draw = () => (fair ? fairBits(rare, bytes) : bernoulli(rare, probability, bytes));
  // m noise bits for counter 0, m for counter 1, ...; then those of the opposite bias, in the same order
  const raised = [];
  draw().forEach((bit, place) => bit === 1 && raised.push(Math.floor(place / bitsPerUser)));
  if (mirrored) draw().forEach((bit, place) => bit === 0 && raised.push(Math.floor(place / bitsPerUser)));
  const blocks = Math.max(1, Math.ceil(raised.length / block));
  const sent = new Uint32Array(spec.slots + blocks * block).fill(spec.counters);
  sent.set(ones);
  sent.set(raised, spec.slots);
  sent.sort();
  return littleEndian(sent, channel.width);
}

/** The labels of the counters that a trajectory sets to one. */
function labels({ spec, shape }, { states, actions, rewards }, bytes) {
  const { states: S, actions: A } = shape;
  const earned = bernoulliEach(rewards.map(clippedReward), bytes);
  if (shape.support !== null) {
    return spec.labels(states.map((one) => clip(one, S)), actions.map((one) => clip(one, A)), earned);
  }
  const found = [];
  for (const { name, layers, start } of spec.families) {
    layers.forEach((h, row) => {
      // Row-major over [layer, s, a] and then s' or r.
      let cell = (row * S + clip(states[h], S)) * A + clip(actions[h], A);
      if (name === "transitions") cell = cell * S + clip(states[h + 1], S);
      if (name === "outcomes") cell = cell * 2 + earned[h];
      found.push(start + cell);
    });
  }
  return found;
}

function littleEndian(values, width) {
  const data = new Uint8Array(values.length * width);
  const view = new DataView(data.buffer);
  values.forEach((value, place) => {
    if (width === 2) view.setUint16(2 * place, value, true);
    else view.setUint32(4 * place, value, true);
  });
  return data;
}

// Local: the number of a slot, drawn without looking at the data, and the randomized bits of its vector

function encodeLocal(channel, trajectory, bytes) {
  const { slots, cells, mechanism } = channel;
  const slot = slots[below(slots.length, bytes)];
  const [kind, size] = [channel.kinds[slot % 2], cells[slot % 2]];
  const hot = trajectory === null ? coverCell(mechanism, size, bytes) : hotCell(channel, slot, trajectory, bytes);
  const bits = mechanism === "subset" ? subsetBits(kind, size, hot, bytes) : unaryBits(kind, size, hot, bytes);
  const longest = slots.length > 1 ? Math.max(...cells) : cells[0];
  const packed = new Uint8Array(Math.ceil(longest / 8));
  bits.forEach((bit, place) => {
    packed[place >> 3] |= bit << (place & 7);
  });
  return concat(2 * channel.shape.horizon - 1 <= 256 ? Uint8Array.of(slot) : Uint8Array.of(slot & 255, slot >> 8), packed);
}

/** The true cell of a slot: an outcome (s, a, r) at even slots, a transition (s, a, s') at odd ones. */
function hotCell({ told, shape: { states: S, actions: A } }, slot, { states, actions, rewards }, bytes) {
  const earned = bernoulliEach(rewards.map(clippedReward), bytes);
  if (told !== null) {
    return told.hot(slot, states.map((one) => clip(one, S)), actions.map((one) => clip(one, A)), earned);
  }
  const h = slot >> 1;
  const cell = clip(states[h], S) * A + clip(actions[h], A);
  if (slot % 2 === 1) return cell * S + clip(states[h + 1], S);
  return earned[h] === 1 ? cell : S * A + cell;
}

/** The cell of nobody: none, or any where there must be one. */
const coverCell = (mechanism, size, bytes) => (mechanism === "subset" ? below(size, bytes) : -1);

function subsetBits({ epsilon, size }, cells, hot, bytes) {
  // The true cell is left out with odds (d - k) e^-eps to k; at d = k = 1 it never is.
  const left = cells === size ? 0 : coins(new LogisticCoin(epsilon, [BigInt(cells - size), BigInt(size)]), 1, bytes)[0];
  const others = Array.from({ length: cells - 1 }, (_, place) => (place < hot ? place : place + 1));
  const bits = new Uint8Array(cells);
  for (const place of permutation(cells - 1, bytes).slice(0, size - 1 + left)) bits[others[place]] = 1;
  bits[hot] = 1 - left;
  return bits;
}

function unaryBits({ epsilon }, cells, hot, bytes) {
  // An extra cell holds the one of an empty vector and stays at home.
  const [size, true_] = hot < 0 ? [cells + 1, cells] : [cells, hot];
  const bits = coins(new LogisticCoin(epsilon), size, bytes);
  bits[true_] = fairBits(1, bytes)[0];
  return bits.subarray(0, cells);
}

// Central: the trajectory for a curator, with rewards on a public grid

function encodeCentral({ shape, levels }, trajectory, bytes) {
  const { horizon: H, states: S, actions: A } = shape;
  if (trajectory === null) return new Uint8Array(6 * H + 2).fill(COVER);
  const body = new Uint32Array(3 * H + 1);
  trajectory.states.forEach((one, h) => (body[h] = clip(one, S)));
  trajectory.actions.forEach((one, h) => (body[H + 1 + h] = clip(one, A)));
  // k = floor(r levels) plus a coin of the remainder; both are exact, because levels is a power of two.
  const scaled = trajectory.rewards.map((reward) => clippedReward(reward) * levels);
  const up = bernoulliEach(scaled.map((one) => one - Math.floor(one)), bytes);
  scaled.forEach((one, h) => (body[2 * H + 1 + h] = Math.floor(one) + up[h]));
  return littleEndian(body, 2);
}

/** Raise unless a body has a length that this channel can have. */
export function bodyMessages(channel, body) {
  if (channel.trust !== "shuffle") throw new InvalidInput("only labels of shuffled stages are single messages");
  const found = body.length / channel.width;
  const extra = (found - channel.spec.slots) / channel.block;
  const fits = Number.isInteger(extra) && extra >= 1 && extra <= Math.ceil(channel.noiseBits / channel.block);
  require(fits, "a body must have a length that some device could send", "another");
  return found;
}
