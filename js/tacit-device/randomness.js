// Random bytes, and the words that the exact samplers make of them.
//
// There is one door to randomness for people's data: `secureBytes`, which asks the browser's CSPRNG
// (crypto.getRandomValues). Nothing is seeded, nothing is kept between two requests. Tests hand recorded bytes to the
// same samplers, so that what is tested is what runs.

import { require } from "./errors.js";

const MOST_AT_ONCE = 65536;

/** So many bytes from the browser's CSPRNG. */
export function secureBytes(count) {
  const data = new Uint8Array(count);
  for (let start = 0; start < count; start += MOST_AT_ONCE) {
    crypto.getRandomValues(data.subarray(start, Math.min(count, start + MOST_AT_ONCE)));
  }
  return data;
}

/**
 * Words: `count` independent integers, uniform on [0, 2^width), in 1, 8, 16 or 32 bits as Numbers, in 64 as BigInts.
 *
 * A word takes the fewest whole bytes of 1, 2, 4 or 8 that hold it, little endian; its highest bits are dropped. Single
 * bits come eight from a byte, the highest first.
 */
export function words(bytes, count, width) {
  if (width === 1) {
    const packed = bytes(Math.ceil(count / 8));
    return Uint8Array.from({ length: count }, (_, place) => (packed[place >> 3] >> (7 - (place & 7))) & 1);
  }
  const size = [1, 2, 4, 8].find((one) => width <= 8 * one);
  require(size !== undefined, "a word must have at most 64 bits", width);
  const data = bytes(count * size);
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  if (size === 8) {
    const mask = (1n << BigInt(width)) - 1n;
    return Array.from({ length: count }, (_, place) => view.getBigUint64(8 * place, true) & mask);
  }
  const found = new Uint32Array(count);
  for (let place = 0; place < count; place += 1) {
    if (size === 1) found[place] = data[place];
    else found[place] = size === 2 ? view.getUint16(2 * place, true) : view.getUint32(4 * place, true);
  }
  // A double holds 2^32, where shifts of 32 bits do not.
  if (width < 8 * size) for (let place = 0; place < count; place += 1) found[place] %= 2 ** width;
  return found;
}

/** A uniform multiple of 2^-53 in [0, 1): for lots that protect nobody (which action, which course of a game). */
export function uniform(bytes = secureBytes) {
  const [low, high] = words(bytes, 2, 32);
  return ((high % 2 ** 21) * 2 ** 32 + low) / 2 ** 53;
}
