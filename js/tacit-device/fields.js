// Fields of a bundle: exact numbers in, the same numbers out, and nothing that is not expected.

import { InvalidInput, require } from "./errors.js";
import { isObject, isWhole, real } from "./json.js";

/** The object, if it has exactly these entries. */
export function entries(what, plain, names) {
  const given = isObject(plain) ? Object.keys(plain).sort() : [];
  const exact = given.length === names.length && [...names].sort().every((name, place) => name === given[place]);
  require(isObject(plain) && exact, `${what} must have exactly the entries ${[...names].sort().join(", ")}`, "others");
  return plain;
}

/** A whole number of at least `least`. */
export function count(name, plain, least = 1) {
  const whole = typeof plain === "number" && Number.isSafeInteger(plain) && plain >= least;
  require(whole, `${name} must be a whole number of at least ${least}`, "another");
  return plain;
}

/** A finite number. */
export function finite(name, plain) {
  const value = real(plain);
  require(Number.isFinite(value), `${name} must be a finite number`, "another");
  return value;
}

/** [numerator, denominator] in lowest terms, as BigInts. */
export function fraction(name, plain) {
  const pair = Array.isArray(plain) && plain.length === 2 && plain.every(isWhole) ? plain.map(BigInt) : null;
  if (pair === null || pair[1] <= 0n) throw new InvalidInput(`${name} must be [numerator, denominator]`);
  require(greatest(pair[0], pair[1]) === 1n, `${name} must be in lowest terms`, "another");
  return pair;
}

/** A fraction that some double equals; the fraction itself, for a double has many roundings and it has none. */
export function doubleFraction(name, plain) {
  const [numerator, denominator] = fraction(name, plain);
  // A double is n/2^k with at most 53 bits in n, k at most 1074, and below 2^1024.
  let size = numerator < 0n ? -numerator : numerator;
  const power = denominator.toString(2);
  const dyadic = /^10*$/.test(power) && power.length <= 1075;
  while (size !== 0n && size % 2n === 0n) size /= 2n;
  const short = size.toString(2).length <= 53 && numerator < denominator << 1024n;
  require(dyadic && short, `${name} must be a double, written as a fraction`, "another");
  return [numerator, denominator];
}

/** Whether one fraction is at most the double `limit`, exactly. */
export function atMost([numerator, denominator], limit) {
  if (limit === Infinity) return true;
  const [n, d] = fractionOf(limit);
  return numerator * d <= n * denominator;
}

/** The sum of fractions, exactly; not in lowest terms. */
export function sumOf(fractions) {
  return fractions.reduce(([n, d], [more, parts]) => [n * parts + more * d, d * parts], [0n, 1n]);
}

/** A double as the fraction it is. */
export function fractionOf(value) {
  if (!Number.isFinite(value)) throw new InvalidInput("a fraction must be of a finite number");
  let [rest, power] = [value, 0n];
  while (!Number.isInteger(rest)) {
    rest *= 2; // exact: nothing leaves the range of doubles before it is whole
    power += 1n;
  }
  return [BigInt(rest), 1n << power];
}

export function greatest(one, other) {
  let [a, b] = [one < 0n ? -one : one, other];
  while (b !== 0n) [a, b] = [b, a % b];
  return a;
}
