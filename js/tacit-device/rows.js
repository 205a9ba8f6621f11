// Rows of features: a public declaration, a person's row as numbers, and what a linear policy does with it.
//
//   rowsFrom(plain)           the declaration of a bundle: columns, products, intercept, norm, missing
//   encodeRow(rows, given)    x of length at most 1: the same doubles as tacit's Features.encode
//   linearFrom(plain, ...)    coefficients of one draw, one line per action; `best` is the action with the largest score
//
// Numbers are clipped into their bounds. A row that is none (a column missing, a name that is not declared) is refused,
// without a word about what it was.

import { count, entries, finite } from "./fields.js";
import { isObject, real } from "./json.js";
import { require } from "./errors.js";

const FORMAT = "tacit-features";
const VERSION = 1;
const MOST = 200;
const KINDS = ["number", "bool", "category"];

/** A declaration as it stands in a bundle. */
export function rowsFrom(plain) {
  const names = ["format", "format_version", "columns", "products", "intercept", "norm", "missing"];
  entries("a declaration of features", plain, names);
  const known = plain.format === FORMAT && plain.format_version === VERSION;
  require(known, `a declaration must be ${FORMAT} of version ${VERSION}`, "another document");
  require(typeof plain.intercept === "boolean", "intercept must be true or false", "something else");
  const norm = finite("norm", plain.norm);
  require(norm > 0, "norm must be above 0", "another");
  require(Array.isArray(plain.columns) && plain.columns.length > 0, "features must have a column", "none");
  const columns = plain.columns.map(columnFrom);
  const places = new Map(columns.map(({ name }, place) => [name, place]));
  require(places.size === columns.length, "a feature must be declared once", "one twice");
  require(Array.isArray(plain.products), "products must be lists of names", "others");
  const products = plain.products.map((product) => {
    const listed = Array.isArray(product) && product.length > 1 && product.every((name) => places.has(name));
    require(listed, "a product must name at least two declared features", "others");
    return product.map((name) => places.get(name));
  });
  require(isObject(plain.missing), "missing must be values by name", "something else");
  const missing = new Map(Object.entries(plain.missing));
  require([...missing.keys()].every((name) => places.has(name)), "missing must name declared features", "others");
  for (const [name, value] of missing) numbersOf(columns[places.get(name)], value); // refuses what is not declared
  const width = ({ kind, values }) => (kind === "category" ? values.length : 1);
  const widths = columns.map(width);
  const product = (one) => one.reduce((all, place) => all * widths[place], 1);
  const sum = (numbers) => numbers.reduce((all, one) => all + one, 0);
  const dimension = Number(plain.intercept) + sum(widths) + sum(products.map(product));
  require(dimension <= MOST, `features must be at most ${MOST} numbers`, dimension);
  return Object.freeze({ columns, products, intercept: plain.intercept, norm, missing, dimension });
}

function columnFrom(plain) {
  const whole = Array.isArray(plain) && plain.length === 3 && typeof plain[0] === "string" && Array.isArray(plain[2]);
  require(whole && KINDS.includes(plain[1]), "a column must have a name, a kind and values", "something else");
  const [name, kind, given] = plain;
  if (kind === "bool") {
    require(given.length === 0, "truth values must have no values", "some");
    return { name, kind, values: [] };
  }
  if (kind === "number") {
    const values = given.map((bound) => finite(`a bound of '${name}'`, bound));
    require(values.length === 2 && values[0] < values[1], `the bounds of '${name}' must be low < high`, "others");
    return { name, kind, values };
  }
  const texts = given.every((one) => typeof one === "string" || Number.isSafeInteger(one));
  const apart = new Set(given.map(String)).size === given.length;
  require(texts && apart && given.length > 1, `'${name}' must have at least two categories`, "others");
  return { name, kind, values: given };
}

/** The numbers of one value of a column. */
function numbersOf({ name, kind, values }, value) {
  if (kind === "category") {
    const place = values.indexOf(value);
    require(place >= 0, `every category of the column '${name}' must be declared`, "another one");
    return values.map((_, one) => (one === place ? 1 : 0));
  }
  const number = typeof value === "boolean" ? Number(value) : real(value);
  require(!Number.isNaN(number), `the column '${name}' must hold numbers`, "another type, or none");
  if (kind === "bool") {
    require(number === 0 || number === 1, `the column '${name}' must hold true or false (1 or 0)`, "something else");
    return [number];
  }
  const [low, high] = values;
  // 2 (x - low)/(high - low) - 1
  return [(Math.min(Math.max(number, low), high) - low) * (2 / (high - low)) - 1];
}

/** A person's row, by name, as d numbers of length at most 1. */
export function encodeRow({ columns, products, intercept, norm, missing }, given) {
  require(isObject(given), "a row must be an object of features by name", "something else");
  const blocks = columns.map((column) => {
    require(Object.hasOwn(given, column.name), `a row must have the column '${column.name}'`, "none");
    const value = given[column.name];
    const absent = value === null || value === undefined || (typeof value === "number" && Number.isNaN(value));
    const instead = missing.has(column.name) ? missing.get(column.name) : NaN;
    return numbersOf(column, absent ? instead : value);
  });
  const times = (one, other) => one.flatMap((a) => other.map((b) => a * b));
  const raw = [...(intercept ? [1] : []), ...blocks.flat()];
  raw.push(...products.flatMap((product) => product.map((place) => blocks[place]).reduce(times)));
  const scaled = raw.map((one) => one / norm);
  const length = Math.sqrt(scaled.reduce((sum, one) => sum + one * one, 0));
  const divisor = Math.max(1, length * (1 + 1e-15));
  return scaled.map((one) => one / divisor);
}

/** A linear policy of one draw for A actions and d features. */
export function linearFrom(plain, A, d) {
  entries("a linear policy", plain, ["kind", "coefficients", "actions", "widths", "uniform"]);
  require(count("actions of a policy", plain.actions) === A, `a policy must have ${A} actions`, "others");
  require(typeof plain.uniform === "boolean", "uniform must be true or false", "something else");
  const numbers = (row) => {
    require(Array.isArray(row) && row.length === d, `a linear policy must have ${d} features`, "others");
    return row.map((one) => finite("a coefficient", one));
  };
  const lines = (rows, read) => {
    require(Array.isArray(rows) && rows.length === A, `a linear policy must have ${A} actions`, "others");
    return rows.map(read);
  };
  const one = Array.isArray(plain.coefficients) && plain.coefficients.length === 1;
  require(one, "a linear policy of a bundle must be one draw", "several");
  const coefficients = lines(plain.coefficients[0], numbers);
  const square = (rows) => {
    require(Array.isArray(rows) && rows.length === d, `widths must have ${d} rows`, "others");
    return rows.map(numbers);
  };
  const widths = plain.widths === null ? null : lines(plain.widths, square);
  return Object.freeze({ linear: true, coefficients, widths, uniform: plain.uniform });
}

/** The action with the largest score c_a·x + |F_a' x|, the first of equal ones. */
export function best({ coefficients, widths }, x) {
  const dot = (one) => one.reduce((sum, value, place) => sum + value * x[place], 0);
  const scores = coefficients.map((line, a) => {
    if (widths === null) return dot(line);
    const wide = x.map((_, j) => widths[a].reduce((sum, row, i) => sum + x[i] * row[j], 0));
    return dot(line) + Math.sqrt(wide.reduce((sum, one) => sum + one * one, 0));
  });
  return scores.reduce((found, score, a) => (score > scores[found] ? a : found), 0);
}
