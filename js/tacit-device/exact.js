// Exact samplers: coins, uniform integers and permutations with the stated law and nothing else.
//
// Every coin is [U < p] with a uniform real U whose binary digits are drawn as far as the comparison needs them:
// with the first b bits u of U and whole numbers lower <= 2^b p <= upper,
//
//     u < lower  =>  U < p            u >= upper  =>  U >= p            else draw more digits, enclose p more narrowly
//
// Whole numbers are BigInts and every rounding is outwards: no floating-point number decides about anything but dyadic
// ones that it holds exactly. Bytes are taken in the order in which tacit's Python samplers take them, so that the same
// bytes give the same result in both.

import { InvalidInput, require } from "./errors.js";
import { secureBytes, words } from "./randomness.js";

const COIN = 16;
const GUARD = 64;
const LANES = 65536;
const HALVINGS = 5;
const MOST_TABLES = 64;

const ceilDiv = (numerator, denominator) => (numerator + denominator - 1n) / denominator;

/** P(1) = numerator/denominator, strictly between 0 and 1. */
export class RationalCoin {
  constructor(numerator, denominator) {
    [this.numerator, this.denominator] = [BigInt(numerator), BigInt(denominator)];
    const inside = this.numerator > 0n && this.numerator < this.denominator;
    require(inside, "a probability must be above 0 and below 1", "another");
    this.name = `p ${this.numerator}/${this.denominator}`;
  }

  /** Enclosures of the weights of 0 and 1, in units of 2^-(bits + GUARD). */
  weights(bits) {
    const one = 1n << BigInt(bits + GUARD);
    const scaled = this.numerator * one;
    const [low, high] = [scaled / this.denominator, ceilDiv(scaled, this.denominator)];
    return { lower: [one - high, low], upper: [one - low, high] };
  }
}

/** P(1) = o e^-g/(1 + o e^-g), where gamma g >= 0 and the odds o > 0 are fractions [numerator, denominator]. */
export class LogisticCoin {
  constructor(gamma, odds = [1n, 1n]) {
    this.gamma = gamma.map(BigInt);
    this.odds = odds.map(BigInt);
    const inside = this.gamma[0] >= 0n && this.gamma[1] > 0n && this.odds[0] > 0n && this.odds[1] > 0n;
    require(inside, "odds and exponents must be fractions of whole numbers", "others");
    this.name = `g ${this.gamma} ${this.odds}`;
  }

  weights(bits) {
    const one = 1n << BigInt(bits + GUARD);
    const [low, high] = expEnclosure(this.gamma, bits + GUARD);
    const [n, d] = this.odds;
    return { lower: [one, (low * n) / d], upper: [one, ceilDiv(high * n, d)] };
  }
}

/** Whole numbers around 2^bits e^-g for a fraction g = [numerator, denominator] >= 0. */
export function expEnclosure([numerator, denominator], bits) {
  if (numerator === 0n) return [1n << BigInt(bits), 1n << BigInt(bits)];
  if (numerator >= BigInt(bits) * denominator) return [0n, 1n]; // 2^bits e^-bits < 1, because e > 2
  // e^-g = (e^-y)^(2^s), y = g/2^s; a squaring at most doubles the error, so s guard bits (and a few) pay for it.
  const s = BigInt(ceilDiv(numerator, denominator).toString(2).length + HALVINGS);
  const working = BigInt(bits) + s + 8n;
  let [lower, upper] = taylor(numerator, denominator << s, working);
  for (let step = 0n; step < s; step += 1n) {
    lower = (lower * lower) >> working;
    upper = ceilDiv(upper * upper, 1n << working);
  }
  const spare = working - BigInt(bits);
  return [lower >> spare, ceilDiv(upper, 1n << spare)];
}

// e^-y = sum (-y)^k/k! for y in (0, 1): alternating with decreasing terms, so the rest is at most the last term.
function taylor(numerator, denominator, bits) {
  const one = 1n << bits;
  let [lowTerm, highTerm, lowSum, highSum] = [one, one, one, one];
  for (let k = 1n; highTerm > 1n; k += 1n) {
    lowTerm = (lowTerm * numerator) / (denominator * k);
    highTerm = ceilDiv(highTerm * numerator, denominator * k);
    if (k % 2n === 1n) [lowSum, highSum] = [lowSum - highTerm, highSum - lowTerm];
    else [lowSum, highSum] = [lowSum + lowTerm, highSum + highTerm];
  }
  const low = lowSum - highTerm;
  return [low > 0n ? low : 0n, highSum + highTerm];
}

const tables = new Map(); // of public numbers only

/** Whole numbers around 2^bits P(1). */
function thresholds(coin, bits) {
  const name = `${bits} ${coin.name}`;
  if (!tables.has(name)) {
    if (tables.size >= MOST_TABLES) tables.clear();
    const { lower, upper } = coin.weights(bits);
    const one = 1n << BigInt(bits);
    // P(1) = w1/(w1 + w0) grows with w1 and falls with w0.
    const low = (lower[1] * one) / (lower[1] + upper[0]);
    const high = ceilDiv(upper[1] * one, upper[1] + lower[0]);
    tables.set(name, [low, high < one ? high : one]);
  }
  return tables.get(name);
}

/** `count` independent bits of a coin. */
export function coins(coin, count, bytes = secureBytes) {
  const bits = new Uint8Array(count);
  const [low, high] = thresholds(coin, COIN).map(Number);
  for (let start = 0; start < count; start += LANES) {
    const some = words(bytes, Math.min(LANES, count - start), COIN);
    for (let lane = 0; lane < some.length; lane += 1) bits[start + lane] = some[lane] < low ? 1 : 0;
    for (let lane = 0; lane < some.length; lane += 1) {
      if (some[lane] >= low && some[lane] < high) bits[start + lane] = extended(coin, BigInt(some[lane]), bytes);
    }
  }
  return bits;
}

function extended(coin, first, bytes) {
  let [u, known] = [first, COIN];
  for (;;) {
    const [low, high] = thresholds(coin, known);
    if (u < low) return 1;
    if (u >= high) return 0;
    u = (u << BigInt(COIN)) | BigInt(words(bytes, 1, COIN)[0]);
    known += COIN;
  }
}

/** `count` independent bits with P(1) = numerator/denominator, exactly. */
export function bernoulli(count, [numerator, denominator], bytes = secureBytes) {
  const [n, d] = [BigInt(numerator), BigInt(denominator)];
  const inside = d > 0n && n >= 0n && n <= d;
  require(inside, "a probability must be a fraction in [0, 1]", "another");
  if (n === 0n || n === d) return new Uint8Array(count).fill(n === d ? 1 : 0);
  return coins(new RationalCoin(n, d), count, bytes);
}

/** `count` fair bits, eight from every byte. */
export const fairBits = (count, bytes = secureBytes) => words(bytes, count, 1);

/**
 * One bit per double in `probabilities`, 1 with that probability, exactly; clipped to [0, 1], NaN counts as 0.
 *
 * Probabilities may be private, so the work does not depend on them: every lane compares a word, 1 has the digits
 * 0.111..., and a lane whose word equals its digit (probability 2^-16, whatever p is) compares another one.
 */
export function bernoulliEach(probabilities, bytes = secureBytes) {
  const bits = new Uint8Array(probabilities.length);
  let pending = Array.from(probabilities, (p, lane) => ({ lane, rest: p > 0 ? Math.min(p, 1) : 0 }));
  while (pending.length > 0) {
    const some = words(bytes, pending.length, COIN);
    const tied = [];
    pending.forEach(({ lane, rest }, place) => {
      // A double is a dyadic fraction: scaling by 2^16, floor and remainder are exact.
      const scaled = rest * 2 ** COIN;
      const digit = Math.min(Math.floor(scaled), 2 ** COIN - 1);
      bits[lane] = some[place] < digit ? 1 : 0;
      if (some[place] === digit) tied.push({ lane, rest: scaled - digit });
    });
    pending = tied;
  }
  return bits;
}

/** A uniform whole number below `limit`, at most 2^32: words of just enough bits, drawn again where they are not below. */
export function below(limit, bytes = secureBytes) {
  const inside = Number.isInteger(limit) && limit >= 1 && limit <= 2 ** 32;
  require(inside, "a limit must be a whole number from 1 to 2^32", "another");
  const width = limit === 1 ? 0 : (limit - 1).toString(2).length;
  if (width === 0) return 0;
  for (;;) {
    const [word] = words(bytes, 1, width);
    if (word < limit) return word;
  }
}

/** A uniform order of 0, ..., count - 1, by sorting keys of 64 bits that are all different. */
export function permutation(count, bytes = secureBytes) {
  if (!Number.isInteger(count) || count < 0) throw new InvalidInput("a number of things must be whole");
  for (;;) {
    const keys = words(bytes, count, 64);
    const order = Array.from(keys, (_, place) => place);
    order.sort((one, other) => (keys[one] < keys[other] ? -1 : Number(keys[one] > keys[other])));
    if (order.every((place, rank) => rank === 0 || keys[place] !== keys[order[rank - 1]])) return order;
  }
}
