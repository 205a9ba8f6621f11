// Canonical JSON: sorted keys, no spaces, one spelling of every number and text, as tacit writes it.
//
// A reader of its own, because JSON.parse rounds: the noise of a channel stands in fractions whose whole numbers have up
// to a thousand bits, and 1.0 and 1 are different bytes under a signature.
//
//   whole numbers   a Number where it is safe, else a BigInt
//   other numbers   a Float, which knows its value
//
// Objects have no prototype, so that no name in a file is a method of ours.

import { InvalidInput } from "./errors.js";

const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPES = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
const DEEPEST = 64;
const LONGEST_NUMBER = 4300;

/** A number that was written with a point or an exponent. */
export class Float {
  constructor(value) {
    this.value = value;
    Object.freeze(this);
  }
}

/** The value of a number that was read, or NaN for anything else. */
export function real(plain) {
  if (typeof plain === "number") return plain;
  if (typeof plain === "bigint") return Number(plain);
  return plain instanceof Float ? plain.value : NaN;
}

/** Whether something that was read is a whole number. */
export const isWhole = (plain) => typeof plain === "number" || typeof plain === "bigint";

/** Whether something that was read is an object with names. */
export const isObject = (plain) =>
  plain !== null && typeof plain === "object" && !Array.isArray(plain) && !(plain instanceof Float);

/** What stands in a JSON text. */
export function parse(text) {
  const reader = new Reader(text);
  reader.space();
  const found = reader.value(0);
  reader.space();
  if (reader.place !== text.length) reader.fail();
  return found;
}

/** What stands in these bytes if they are the canonical JSON of it; `what` names it in the refusal. */
export function parseCanonical(data, what) {
  let found;
  let same = false;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
    found = parse(text);
    same = canonical(found) === text;
  } catch {
    throw new InvalidInput(`${what} must be JSON as tacit writes it`);
  }
  if (!same) throw new InvalidInput(`${what} must be canonical JSON, got 'another spelling of it'`);
  return found;
}

/** The one text of a value. */
export function canonical(plain) {
  if (plain === null || typeof plain === "boolean") return String(plain);
  if (typeof plain === "string") return quoted(plain);
  if (isWhole(plain)) {
    if (typeof plain === "number" && !Number.isSafeInteger(plain)) throw new InvalidInput("numbers must be exact");
    return String(plain === 0 ? 0 : plain);
  }
  if (plain instanceof Float) return floatText(plain.value);
  if (Array.isArray(plain)) return `[${plain.map(canonical).join(",")}]`;
  const names = Object.keys(plain).sort(byCodePoint);
  return `{${names.map((name) => `${quoted(name)}:${canonical(plain[name])}`).join(",")}}`;
}

/** A double with the fewest digits that give it back, as Python writes it: 1e-06, 0.0001, 1.0, 1e+16. */
export function floatText(value) {
  if (!Number.isFinite(value)) throw new InvalidInput("numbers must be finite");
  const sign = value < 0 || Object.is(value, -0) ? "-" : "";
  const [mantissa, power] = Math.abs(value).toExponential().split("e");
  const digits = mantissa.replace(".", "");
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) {
    const rest = digits.length > 1 ? `.${digits.slice(1)}` : "";
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${sign}${digits[0]}${rest}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${sign}${whole}.${digits.slice(exponent + 1) || "0"}`;
}

function quoted(text) {
  // Half of a pair has no bytes in UTF-8.
  if (!text.isWellFormed()) throw new InvalidInput("texts must be whole characters");
  return JSON.stringify(text);
}

function byCodePoint(one, other) {
  const left = Array.from(one);
  const right = Array.from(other);
  const shared = Math.min(left.length, right.length);
  for (let place = 0; place < shared; place += 1) {
    const difference = left[place].codePointAt(0) - right[place].codePointAt(0);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

class Reader {
  constructor(text) {
    this.text = text;
    this.place = 0;
  }

  fail() {
    throw new InvalidInput("a text must be JSON");
  }

  space() {
    while (" \t\n\r".includes(this.text[this.place] ?? "x")) this.place += 1;
  }

  take(word) {
    if (!this.text.startsWith(word, this.place)) this.fail();
    this.place += word.length;
  }

  value(depth) {
    if (depth > DEEPEST) this.fail();
    switch (this.text[this.place]) {
      case "{":
        return this.object(depth);
      case "[":
        return this.list(depth);
      case '"':
        return this.string();
      case "t":
        this.take("true");
        return true;
      case "f":
        this.take("false");
        return false;
      case "n":
        this.take("null");
        return null;
      default:
        return this.number();
    }
  }

  object(depth) {
    const found = Object.create(null);
    this.items("{", "}", () => {
      const name = this.string();
      this.space();
      this.take(":");
      this.space();
      found[name] = this.value(depth + 1);
    });
    return found;
  }

  list(depth) {
    const found = [];
    this.items("[", "]", () => found.push(this.value(depth + 1)));
    return found;
  }

  items(first, last, one) {
    this.take(first);
    this.space();
    if (this.text[this.place] === last) {
      this.place += 1;
      return;
    }
    for (;;) {
      this.space();
      one();
      this.space();
      if (this.text[this.place] !== ",") break;
      this.place += 1;
    }
    this.take(last);
  }

  string() {
    this.take('"');
    let found = "";
    for (;;) {
      PLAIN.lastIndex = this.place;
      const [some] = PLAIN.exec(this.text);
      found += some;
      this.place += some.length;
      const next = this.text[this.place];
      if (next === '"') {
        this.place += 1;
        return found;
      }
      if (next !== "\\") this.fail();
      found += this.escaped();
    }
  }

  escaped() {
    const kind = this.text[this.place + 1];
    if (kind === "u") {
      const digits = this.text.slice(this.place + 2, this.place + 6);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.fail();
      this.place += 6;
      return String.fromCharCode(parseInt(digits, 16));
    }
    if (!Object.hasOwn(ESCAPES, kind ?? "")) this.fail();
    this.place += 2;
    return ESCAPES[kind];
  }

  number() {
    NUMBER.lastIndex = this.place;
    const found = NUMBER.exec(this.text);
    if (found === null || found[0].length > LONGEST_NUMBER) this.fail();
    this.place += found[0].length;
    if (found[1] !== undefined || found[2] !== undefined) return new Float(Number(found[0]));
    const exact = BigInt(found[0]);
    const near = Number(exact);
    return Number.isSafeInteger(near) ? near : exact;
  }
}
