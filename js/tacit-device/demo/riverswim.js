// RiverSwim as tacit has it ('riverswim'): four places, six steps, against the current. The page plays the world; what
// happens in it stays in the page.

import { uniform } from "../index.js";

export const HORIZON = 6;
export const START = 0;

// Chances of the next place, by place and action (0: drift, 1: swim).
export const NEXT = [
  [[1, 0, 0, 0], [0.4, 0.6, 0, 0]],
  [[1, 0, 0, 0], [0.05, 0.6, 0.35, 0]],
  [[0, 1, 0, 0], [0, 0.05, 0.6, 0.35]],
  [[0, 0, 1, 0], [0, 0, 0.4, 0.6]],
];

// Chances of a reward of 1, by place and action.
export const REWARD = [[0.005, 0], [0, 0], [0, 0], [0, 1]];

/** One step: the reward and the next place. */
export function step(place, action) {
  const reward = uniform() < REWARD[place][action] ? 1 : 0;
  let lot = uniform();
  const next = NEXT[place][action].findIndex((chance) => (lot -= chance) < 0);
  return { reward, next: next < 0 ? place : next };
}
