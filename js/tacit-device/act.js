// Acting: the policy of a bundle, followed offline. Which policy of a mixture a person follows is drawn once per stage.
//
// Lots are drawn from the CSPRNG, too; they protect nobody, the noise of a report does.

import { seenOf } from "./declared.js";
import { InvalidInput, NotSupported, require } from "./errors.js";
import { entries, greatest } from "./fields.js";
import { below } from "./exact.js";
import { isObject, real } from "./json.js";
import { secureBytes, uniform } from "./randomness.js";
import { best, encodeRow, linearFrom } from "./rows.js";

const ELSEWHERE = ["layered", "gaussian"];
const SLACK = 1e-9;
const MOST_TICKETS = 2n ** 32n;

/** A policy as probabilities[step][state][action], if it is a table that fits these sizes; or linear, over rows. */
export function policyFrom(plain, [H, S, A], rows = null) {
  const kind = isObject(plain) ? plain.kind : undefined;
  if (kind === "linear" && rows !== null) return linearFrom(plain, A, rows.dimension);
  if (ELSEWHERE.includes(kind)) {
    throw new NotSupported(`a device in the browser follows tables of actions, not a ${kind} policy`);
  }
  if (kind === "deterministic") {
    entries("a deterministic policy", plain, ["kind", "actions"]);
    return table(plain.actions, [H, S], (action) => {
      const known = typeof action === "number" && Number.isInteger(action) && action >= 0 && action < A;
      require(known, `actions of a policy must be below ${A}`, "others");
      return Array.from({ length: A }, (_, one) => (one === action ? 1 : 0));
    });
  }
  require(kind === "stochastic", "a policy must be of a known kind", "another");
  entries("a stochastic policy", plain, ["kind", "table"]);
  return table(plain.table, [H, S], (row) => {
    const numbers = Array.isArray(row) && row.length === A ? row.map(real) : [];
    const inside = numbers.length === A && numbers.every((p) => Number.isFinite(p) && p >= 0);
    const whole = Math.abs(numbers.reduce((sum, p) => sum + p, 0) - 1) <= SLACK;
    require(inside && whole, `a policy must have ${A} probabilities that add up to 1`, "others");
    return numbers;
  });
}

function table(rows, [H, S], read) {
  const shaped = Array.isArray(rows) && rows.length === H && rows.every((row) => Array.isArray(row) && row.length === S);
  require(shaped, `a policy must have ${H} steps and ${S} states`, "another shape");
  return rows.map((row) => row.map(read));
}

/** Which of the weighted policies a ticket buys; weights are fractions that add up to 1. */
export function armOf(weights, ticket) {
  const common = ticketsOf(weights);
  let left = BigInt(ticket);
  for (const [place, [numerator, denominator]] of weights.entries()) {
    left -= (numerator * common) / denominator;
    if (left < 0n) return place;
  }
  throw new InvalidInput("the weights of a bundle's policies must add up to 1");
}

/** How many tickets there are: the least common denominator. */
export function ticketsOf(weights) {
  return weights.reduce((all, [, denominator]) => (all * denominator) / greatest(all, denominator), 1n);
}

/** One of the weighted policies, exactly with these weights. */
export function drawArm(weights, bytes = secureBytes) {
  if (weights.length === 1) return 0;
  const common = ticketsOf(weights);
  if (common > MOST_TICKETS) throw new NotSupported("a device in the browser draws weights of at most 2^32 tickets");
  return armOf(weights, below(Number(common), bytes));
}

/** The number of the action that a uniform number in [0, 1) chooses from a row of probabilities. */
export function actionOf(row, lot) {
  const certain = row.indexOf(1);
  if (certain >= 0) return certain;
  // The first possible action whose cumulative probability exceeds the lot.
  let [sum, last] = [0, 0];
  for (const [action, p] of row.entries()) {
    if (p > 0) {
      sum += p;
      last = action;
      if (lot < sum) return action;
    }
  }
  return last;
}

/** The name of the action to take at a step (from 0) in a state, by name or number; over features, for a row. */
export function act(bundle, policy, step, state, bytes = secureBytes) {
  const reached = Number.isInteger(step) && step >= 0 && step < bundle.horizon;
  require(reached, `step must be a whole number below ${bundle.horizon}`, "another");
  if (bundle.rows !== null) {
    const x = encodeRow(bundle.rows, state);
    if (policy.linear !== true) return bundle.actions[actionOf(policy[0][0], uniform(bytes))];
    return bundle.actions[policy.uniform ? below(bundle.actions.length, bytes) : best(policy, x)];
  }
  const s = typeof state === "string" ? bundle.states.indexOf(state) : state;
  const known = Number.isInteger(s) && s >= 0 && s < bundle.states.length;
  require(known, "state must be one of the study's states, or its number", "another");
  return bundle.actions[actionOf(policy[step][seenOf(bundle, s)], uniform(bytes))];
}
