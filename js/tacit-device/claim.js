// The claim: what is promised to whom. Nothing has a default, and what is missing or unknown is refused.

import { require } from "./errors.js";
import { count, entries, finite } from "./fields.js";
import { isObject } from "./json.js";

const NAMES = ["trust", "epsilon", "delta", "unit", "neighbours", "output"];
const OUTPUTS = {
  central: ["other-users-actions", "final-policy"],
  shuffle: ["shuffled-transcript"],
  local: ["every-message"],
};
export const LARGEST_DELTA = 1e-3;

/** The claim that was written; devices of a study are always promised something, so trust 'none' is refused. */
export function claimFrom(plain) {
  const large = isObject(plain) && Object.hasOwn(plain, "allow_large_delta");
  entries("a claim", plain, large ? [...NAMES, "allow_large_delta"] : NAMES);
  const known = typeof plain.trust === "string" && Object.hasOwn(OUTPUTS, plain.trust);
  require(known, `trust must be one of ${Object.keys(OUTPUTS).join(", ")}`, "another");
  require(OUTPUTS[plain.trust].includes(plain.output), `the output must be one under trust '${plain.trust}'`, "another");
  const neighbours = ["replace-one", "zero-out"].includes(plain.neighbours);
  require(neighbours, "neighbours must be replace-one or zero-out", "others");
  const unit = entries("the unit of a claim", plain.unit, ["reports", "per_stage"]);
  const [reports, perStage] = [count("reports", unit.reports), count("reports per stage", unit.per_stage)];
  require(perStage <= reports, `reports per stage must be at most the ${reports} reports in all`, "more");
  const [epsilon, delta] = [finite("epsilon", plain.epsilon), finite("delta", plain.delta)];
  require(epsilon > 0, "epsilon must be above 0", "another");
  const allowed = delta >= 0 && (delta <= LARGEST_DELTA || (plain.allow_large_delta === true && delta < 1));
  require(allowed, `delta must lie in [0, ${LARGEST_DELTA}]`, "another");
  const { trust, neighbours: compared, output } = plain;
  return Object.freeze({ trust, epsilon, delta, reports, perStage, neighbours: compared, output });
}

export function sameClaim(one, other) {
  return Object.keys(one).every((name) => one[name] === other[name]);
}
