// What a study declares in public: the support of its world (which counters can move), and features of its states.
//
// Both are tables: whatever a person does, what is encoded is a function of them and of the trajectory, and a step that
// contradicts the support sets no counter of its own. So no guarantee depends on their being true.

import { count, entries } from "./fields.js";
import { require } from "./errors.js";

const MOST_CELLS = 2 ** 24;

/** The features of the states of a bundle: names, and of[s], the number of what is seen of state s. */
export function featuresFrom(plain, states) {
  entries("what is seen", plain, ["features", "of"]);
  const { features: names, of } = plain;
  const texts = Array.isArray(names) && names.every((one) => typeof one === "string" && one.trim() !== "");
  require(texts && new Set(names).size === names.length, "features must have names, each of them once", "others");
  const listed = Array.isArray(of) && of.length === states.length;
  const known = listed && of.every((one) => isBelow(one, names.length));
  require(known, `every one of the ${states.length} states must have the number of a feature`, "others");
  require(new Set(of).size === names.length, "every feature must be seen somewhere", "others");
  return Object.freeze({ names, of });
}

/** What policies and channel of a bundle see of a state: its feature where some are declared, else the state. */
export const seenOf = ({ sees }, state) => (sees === null ? state : sees.of[state]);

const isBelow = (one, size) => Number.isSafeInteger(one) && one >= 0 && one < size;

/** A support: led[h][row] are the states that can follow, pays[h][s][a] is 1 or 0, reach[h][s] whether s can be met. */
export function supportFrom(plain, { horizon: H, states: S, actions: A }) {
  entries("a support", plain, ["horizon", "moves", "rewards", "stages", "starts"]);
  require(plain.horizon === H, `a support must have the horizon ${H}`, "another");
  const stages = count("stages of a support", plain.stages);
  require(stages === 1 || stages === H, "the moves of a support must be of one step or of all", stages);
  const starts = bits("starts of a support", plain.starts, S);
  require(starts.includes(1), "an episode must be able to begin somewhere", "no first state");
  const shaped = Array.isArray(plain.rewards) && [1, H].includes(plain.rewards.length);
  require(shaped, "the rewards of a support must be of one step or of all", "others");
  const pays = plain.rewards.map((rows) => {
    require(Array.isArray(rows) && rows.length === S, `rewards of a support must have ${S} states`, "others");
    return rows.map((row) => bits("rewards of a support", row, A));
  });
  const moves = movesFrom(plain.moves, stages, S, A);
  require(H * plain.moves.length <= stages * MOST_CELLS, "a support must be small enough for a browser", "a larger one");
  const led = Array.from({ length: H }, (_, h) => moves[Math.min(h, stages - 1)]);
  const reach = [starts.map((one) => one === 1)];
  for (let h = 0; h < H - 1; h += 1) {
    const next = new Array(S).fill(false);
    led[h].forEach((row, place) => reach[h][Math.floor(place / A)] && row.forEach((one) => (next[one] = true)));
    reach.push(next);
  }
  return Object.freeze({ led, reach, pays: led.map((_, h) => pays[Math.min(h, pays.length - 1)]), sizes: [H, S, A] });
}

function bits(what, plain, size) {
  const good = Array.isArray(plain) && plain.length === size && plain.every((one) => one === 0 || one === 1);
  require(good, `${what} must be ${size} zeros and ones`, "others");
  return plain;
}

/** moves[stage][s * A + a]: the states that can follow, in order. */
function movesFrom(plain, stages, S, A) {
  const sizes = [stages, S, A, S];
  require(Array.isArray(plain) && plain.length >= stages * S * A, "a support must allow something in every row", "less");
  require(plain.length <= MOST_CELLS, `a support must have at most ${MOST_CELLS} moves`, plain.length);
  const led = Array.from({ length: stages }, () => Array.from({ length: S * A }, () => []));
  let last = -1;
  for (const move of plain) {
    const inside = Array.isArray(move) && move.length === 4 && move.every((one, place) => isBelow(one, sizes[place]));
    require(inside, "a move of a support must be [step, state, action, next state]", "another");
    const [stage, s, a, next] = move;
    const cell = ((stage * S + s) * A + a) * S + next;
    require(cell > last, "the moves of a support must be in order, each of them once", "another");
    led[stage][s * A + a].push(next);
    last = cell;
  }
  const whole = led.every((rows) => rows.every((row) => row.length > 0));
  require(whole, "a support must allow something in every row", "less");
  return led;
}

/**
 * The counters of these steps together: rows that can be met (zeros), rows that can earn (ones), and transitions of rows
 * with several successors; a row with one has none: whoever was there went there.
 */
function cellsOf({ led, reach, pays, sizes: [H, S, A] }, steps) {
  const [zeros, ones, after] = [new Set(), new Set(), new Map()];
  for (const h of steps) {
    for (let row = 0; row < S * A; row += 1) {
      if (!reach[h][Math.floor(row / A)]) continue;
      zeros.add(row);
      if (pays[h][Math.floor(row / A)][row % A] === 1) ones.add(row);
      if (h < H - 1) after.set(row, new Set([...(after.get(row) ?? []), ...led[h][row]]));
    }
  }
  const open = [...after].filter(([, next]) => next.size > 1);
  const moves = open.flatMap(([row, next]) => [...next].map((one) => row * S + one));
  return { moves: inOrder(moves), ones: inOrder(ones), zeros: inOrder(zeros) };
}

const inOrder = (cells) => [...cells].sort((one, other) => one - other);
const everyStep = ({ sizes: [H] }) => Array.from({ length: H }, (_, h) => h);
const placed = (cells, first) => new Map(cells.map((cell, place) => [cell, first + place]));

/** Shuffled labels over a support, of all steps (layer null) or of one: how many, data slots, and those of a trajectory. */
export function supportedSpec(support, layer) {
  return Object.freeze(layer === null ? everything(support) : oneLayer(support, layer));
}

function everything(support) {
  const [H, S, A] = support.sizes;
  const steps = everyStep(support).map((h) => cellsOf(support, [h]));
  const [moves, ones, zeros] = [
    steps.flatMap((cells, h) => cells.moves.map((cell) => h * S * A * S + cell)),
    ...["ones", "zeros"].map((name) => steps.flatMap((cells, h) => cells[name].map((row) => h * S * A + row))),
  ];
  const [moved, earned] = [placed(moves, 0), placed(ones, moves.length)];
  const idle = placed(zeros, moves.length + ones.length);
  return {
    counters: moves.length + ones.length + zeros.length,
    slots: H + steps.filter((cells) => cells.moves.length > 0).length,
    labels: (states, actions, rewards) =>
      everyStep(support)
        .flatMap((h) => {
          const row = (h * S + states[h]) * A + actions[h];
          // A reward where none can be counts as a visit without one.
          const met = (rewards[h] === 1 ? earned.get(row) : undefined) ?? idle.get(row);
          return [h < H - 1 ? moved.get(row * S + states[h + 1]) : undefined, met];
        })
        .filter((label) => label !== undefined),
  };
}

/** One step alone: every transition that can happen there, or the visits of the last step. */
function oneLayer(support, layer) {
  const [H, S, A] = support.sizes;
  const rows = cellsOf(support, [layer]).zeros;
  const last = layer === H - 1;
  const cells = last ? rows : rows.flatMap((row) => support.led[layer][row].map((one) => row * S + one));
  const known = placed(cells, 0);
  return {
    counters: cells.length,
    slots: 1,
    labels: (states, actions) => {
      const row = states[layer] * A + actions[layer];
      const label = known.get(last ? row : row * S + states[layer + 1]);
      return label === undefined ? [] : [label];
    },
  };
}

/**
 * Slots of local messages over a support: their numbers, how many categories a slot of outcomes and of transitions has,
 * and the true one of a trajectory. Who sets no counter is in the first of the categories that nobody reads.
 */
export function supportedSlots(support, staged) {
  const [H, S, A] = support.sizes;
  const every = everyStep(support);
  const stages = (staged ? every.map((h) => [h]) : [every]).map((steps) => cellsOf(support, steps));
  const at = (h) => stages[Math.min(h, stages.length - 1)];
  const moving = every.slice(0, -1).filter((h) => at(h).moves.length > 0);
  const slots = inOrder([...every.map((h) => 2 * h), ...moving.map((h) => 2 * h + 1)]);
  const most = (sizes) => sizes.reduce((one, other) => Math.max(one, other), 0);
  // One more wherever somebody may set no counter.
  const outcomes = most(stages.map(({ ones, zeros }) => ones.length + zeros.length + Number(zeros.length < S * A)));
  const moved = most(stages.map(({ moves }) => moves.length + Number(moves.length < S * A * S)));
  const hot = (slot, states, actions, rewards) => {
    const [h, row] = [slot >> 1, states[slot >> 1] * A + actions[slot >> 1]];
    const { moves, ones, zeros } = at(h);
    if (slot % 2 === 1) {
      const place = moves.indexOf(row * S + states[h + 1]);
      return place >= 0 ? place : moves.length;
    }
    const earned = rewards[h] === 1 ? ones.indexOf(row) : -1;
    if (earned >= 0) return earned;
    const idle = zeros.indexOf(row);
    return ones.length + (idle >= 0 ? idle : zeros.length);
  };
  return Object.freeze({ slots, cells: [outcomes, moving.length === 0 ? 0 : moved], hot });
}
