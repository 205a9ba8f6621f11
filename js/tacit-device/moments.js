// Moments of a person's row: x x' and 2 x (r - 1/2) in whole numbers, under central, shuffle and local trust.
//
//   central-vectors    the row in whole numbers, slot, level and lot, for a curator
//   shuffle-vectors    public offsets and dithered entries as labels of ones, among noise bits
//   local-vectors      the number of one of M public random directions, drawn with all of epsilon

import { concat } from "./bytes.js";
import { LogisticCoin, below, bernoulliEach, coins } from "./exact.js";
import { count, doubleFraction, entries } from "./fields.js";
import { require } from "./errors.js";

const GRID = 1024;
const LEVELS = 16;
const DIAGONAL = 181;
const BESIDE = 256;
const SCALE = BESIDE * GRID * GRID;
const MOST = 200;
const SEED = 16;
/** The longest vector of a person: isqrt(3/8 (2 SCALE)²) + 1 with second moments, SCALE without. */
const LONGEST = 328_764_949;

/** The statistic of a channel, checked. */
export function momentsFrom(plain, trust) {
  entries("a statistic", plain, ["name", "shape", "gram", "lots"]);
  require(plain.name === "moments", "a statistic must be 'moments'", "another");
  entries("the shape of moments", plain.shape, ["features", "actions", "shared", "grid"]);
  const features = count("features", plain.shape.features);
  const actions = count("actions", plain.shape.actions);
  require(features <= MOST, `features must be at most ${MOST} numbers`, features);
  require(plain.shape.shared === false && plain.shape.grid === GRID, "a bundle has one parameter per action", "others");
  require(plain.gram === (trust !== "local"), "second moments are released unless trust is local", "otherwise");
  require(typeof plain.lots === "boolean", "lots must be true or false", "something else");
  const strata = plain.lots && !plain.gram ? actions : 1;
  const width = features + (plain.gram ? (features * (features + 1)) / 2 : 0);
  const size = width * (actions / strata);
  return Object.freeze({ features, actions, gram: plain.gram, lots: plain.lots, strata, width, size });
}

/** The public offsets of one slot, and how many ones a person has at most (see tacit's ShuffleVectors). */
export function offsetsOf(statistic, shift) {
  const { features: d, width: D, actions } = statistic;
  require(Number.isInteger(shift) && shift >= 0 && 2 ** shift <= 2 * SCALE, "rounding must be finer than a change", shift);
  const up = (value) => Math.ceil(value / 2 ** shift);
  const offsets = [];
  for (let i = 0; i < d; i += 1) for (let j = i; j < d; j += 1) offsets.push(i === j ? 0 : up((BESIDE / 2) * GRID * GRID));
  for (let i = 0; i < d; i += 1) offsets.push(up(SCALE));
  const inAll = actions * offsets.reduce((sum, one) => sum + one, 0);
  // isqrt(D m²), without rounding
  const square = D * (up(LONGEST) + 1) ** 2;
  let root = Math.floor(Math.sqrt(square));
  while (root * root > square) root -= 1;
  while ((root + 1) ** 2 <= square) root += 1;
  return { offsets, slots: inAll + root + 1 + D };
}

/** Row in whole numbers, slot, level by a coin, and lot: what a device may say of a person. */
function person(statistic, { x, action, reward, lot }, bytes) {
  require(x.length === statistic.features, `a row must have ${statistic.features} numbers`, "others");
  const finite = x.map((one) => (Number.isFinite(one) ? one : 0));
  const length = Math.max(Math.sqrt(finite.reduce((sum, one) => sum + one * one, 0)), 1);
  const clip = (index) => Math.max(0, Math.min(index, statistic.actions - 1));
  const slot = clip(action);
  const counts = statistic.strata === 1 || slot === lot; // who took another action than the lot counts for nothing
  const whole = finite.map((one) => (counts ? Math.trunc((one / length) * GRID) + 0 : 0));
  const level = (reward > 0 ? Math.min(reward, 1) : 0) * LEVELS;
  const [up] = bernoulliEach([level - Math.floor(level)], bytes);
  return { x: whole, slot, level: Math.floor(level) + up, lot };
}

/** The numbers that a person adds, in units of 1/SCALE: the triangle row by row, then the rewards. */
function amounts({ gram }, { x, level }) {
  const found = [];
  if (gram) {
    for (let i = 0; i < x.length; i += 1) {
      for (let j = i; j < x.length; j += 1) found.push(x[i] * x[j] * (i === j ? DIAGONAL : BESIDE));
    }
  }
  for (const one of x) found.push(one * (2 * level - LEVELS) * ((BESIDE * GRID) / LEVELS));
  return found;
}

/** The body for a curator: 16 bits each, little endian; a cover report is all ones. */
export function encodeCurator({ statistic }, told, bytes) {
  const data = new Uint8Array(2 * (statistic.features + 3)).fill(0xff);
  if (told === null) return data;
  const { x, slot, level, lot } = person(statistic, told, bytes);
  const view = new DataView(data.buffer);
  [...x, slot, level, lot].forEach((one, place) => view.setInt16(2 * place, one, true));
  return data;
}

/** How often each label of a slot comes: public offsets, and the dithered entries of a person. */
export function onesOf({ statistic, offsets, shift }, told, bytes) {
  const found = [];
  for (let slot = 0; slot < statistic.actions; slot += 1) found.push(...offsets);
  if (told === null) return found;
  const made = person(statistic, told, bytes);
  const start = made.slot * statistic.width;
  amounts(statistic, made).forEach((one, place) => {
    found[start + place] += Math.floor((one + below(2 ** shift, bytes)) / 2 ** shift);
  });
  return found;
}

/** Local trust: the entries of directions and how many of them, checked. */
export function directionsFrom(plain) {
  const directions = count("directions", plain.directions, 2);
  require(directions <= 256 && directions % 2 === 0, "directions must be pairs, at most 256", directions);
  const chosen = count("chosen", plain.chosen);
  require(2 * chosen <= directions, `chosen must be at most ${directions / 2}`, chosen);
  const epsilon = doubleFraction("epsilon", plain.epsilon);
  require(epsilon[0] > 0n, "epsilon of a message must be above 0", "another");
  return { directions, chosen, epsilon };
}

/** One index among public random directions; the seed is drawn before the row is looked at. */
export function encodeDirection({ statistic, directions: M, chosen: k, epsilon }, told, bytes) {
  const { size, strata } = statistic;
  const seed = Uint8Array.from({ length: SEED }, () => below(256, bytes));
  const v = new Array(size).fill(0);
  let stratum = -1;
  if (told !== null) {
    const made = person(statistic, told, bytes);
    stratum = strata > 1 ? made.lot : 0;
    const start = strata > 1 ? 0 : made.slot * statistic.width;
    if (stratum >= 0) amounts(statistic, made).forEach((one, place) => (v[start + place] = one));
  }
  if (stratum < 0) stratum = below(strata, bytes);
  const half = Array.from({ length: M / 2 }, (_, j) => dot(directionOf(seed, j, size), v));
  let scores = [...half, ...half.map((one) => -one)];
  // + with probability (1 + |v|/longest)/2: a fair coin, and another chance where it is lost
  const square = v.reduce((sum, one) => sum + BigInt(one) ** 2n, 0n);
  if (below(2, bytes) === 0 && BigInt(below(SCALE, bytes)) ** 2n >= square) scores = scores.map((one) => -one);
  const ranked = scores.map((_, place) => place).sort((one, other) => scores[other] - scores[one]);
  const others = coins(new LogisticCoin(epsilon, [BigInt(M - k), BigInt(k)]), 1, bytes)[0];
  const place = others ? k + below(M - k, bytes) : below(k, bytes);
  return concat(Uint8Array.of(stratum & 255, stratum >> 8), seed, Uint8Array.of(ranked[place]));
}

const dot = (one, other) => one.reduce((sum, value, place) => sum + value * other[place], 0);

/** Entries of a direction: bits of SHA-256(seed, number, entry) that are one, less 128. */
export function directionOf(seed, number, size) {
  return Array.from({ length: size }, (_, i) => onesIn(concat(seed, Uint8Array.of(number, i & 255, i >> 8))) - 128);
}

// SHA-256 of at most 55 bytes, here because the browser's own one is asynchronous; FIPS 180-4

const primes = (() => {
  const found = [];
  for (let n = 2; found.length < 64; n += 1) if (found.every((p) => n % p !== 0)) found.push(n);
  return found;
})();
/** The first 32 bits of the fraction of a root of a whole number, exactly. */
const fractionBits = (n, power) => {
  const target = BigInt(n) << BigInt(32 * power);
  let [low, high] = [0n, 1n << 40n];
  while (low < high) {
    const middle = (low + high + 1n) >> 1n;
    if (middle ** BigInt(power) <= target) low = middle;
    else high = middle - 1n;
  }
  return Number(low & 0xffffffffn) | 0;
};
const ROUND = primes.map((p) => fractionBits(p, 3));
const START = primes.slice(0, 8).map((p) => fractionBits(p, 2));
const turned = (value, by) => (value >>> by) | (value << (32 - by));

function onesIn(data) {
  const block = new DataView(new ArrayBuffer(64));
  data.forEach((byte, place) => block.setUint8(place, byte));
  block.setUint8(data.length, 0x80);
  block.setUint32(60, 8 * data.length);
  const w = new Int32Array(64);
  for (let t = 0; t < 16; t += 1) w[t] = block.getInt32(4 * t);
  for (let t = 16; t < 64; t += 1) {
    const [one, other] = [w[t - 15], w[t - 2]];
    const s0 = turned(one, 7) ^ turned(one, 18) ^ (one >>> 3);
    const s1 = turned(other, 17) ^ turned(other, 19) ^ (other >>> 10);
    w[t] = (w[t - 16] + s0 + w[t - 7] + s1) | 0;
  }
  let [a, b, c, d, e, f, g, h] = START;
  for (let t = 0; t < 64; t += 1) {
    const s1 = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
    const first = (h + s1 + ((e & f) ^ (~e & g)) + ROUND[t] + w[t]) | 0;
    const s0 = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
    const second = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  return [a, b, c, d, e, f, g, h].reduce((sum, one, place) => sum + bitsIn((one + START[place]) | 0), 0);
}

function bitsIn(word) {
  let rest = word;
  rest -= (rest >>> 1) & 0x55555555;
  rest = (rest & 0x33333333) + ((rest >>> 2) & 0x33333333);
  return (((rest + (rest >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24;
}
