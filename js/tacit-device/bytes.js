// Bytes: joining, comparing, and the three spellings that cross the wire (hexadecimal, base64, little endian).

import { InvalidInput, require } from "./errors.js";

const HEX = /^(?:[0-9a-f]{2})*$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

export const utf8 = (text) => new TextEncoder().encode(text);

/** One array of the bytes of all. */
export function concat(...parts) {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let place = 0;
  for (const part of parts) {
    whole.set(part, place);
    place += part.length;
  }
  return whole;
}

export function equal(one, other) {
  return one.length === other.length && one.every((byte, place) => byte === other[place]);
}

export function toHex(data) {
  return Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Lower case only: a digest has one spelling. */
export function fromHex(text) {
  if (typeof text !== "string" || !HEX.test(text)) {
    throw new InvalidInput("bytes must be written in lower-case hexadecimal digits");
  }
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

export function toBase64(data) {
  let text = "";
  for (const byte of data) text += String.fromCharCode(byte);
  return btoa(text);
}

/** With padding, without white space, and in the one spelling that these bytes have. */
export function fromBase64(text) {
  if (typeof text !== "string" || !BASE64.test(text)) throw new InvalidInput("bytes must be written in base64");
  const data = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  require(toBase64(data) === text, "bytes must be written in base64", "another spelling of it");
  return data;
}

export function u16(value) {
  return Uint8Array.of(value & 255, (value >> 8) & 255);
}

export function u32(value) {
  const whole = Number.isInteger(value) && value >= 0 && value < 2 ** 32;
  require(whole, "a stage must be a whole number below 2^32", "another");
  return Uint8Array.of(value & 255, (value >>> 8) & 255, (value >>> 16) & 255, value >>> 24);
}

export async function sha256(data) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", data));
}
