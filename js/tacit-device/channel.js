// Channels: how one stage turns a trajectory into a body, read from a bundle. What this device cannot encode it refuses
// by its name; nothing is guessed.
//
//   shuffle                          labels of ones, data and noise mixed; noise bits of one bias, or mirrored ones
//   local                            subset selection ("subset") and unary encoding ("oue") of one slot
//   central-totals, central-batch    the trajectory itself, for a curator
//   central-vectors, shuffle-vectors, local-vectors     moments of a row of features (moments.js)

import { claimFrom } from "./claim.js";
import { supportFrom, supportedSlots, supportedSpec } from "./declared.js";
import { NotSupported, require } from "./errors.js";
import { atMost, count, doubleFraction, entries, fraction } from "./fields.js";
import { isObject, isWhole } from "./json.js";
import { directionsFrom, momentsFrom, offsetsOf } from "./moments.js";

const COMMON = ["kind", "claim", "shape", "target", "least"];
const SIZES = ["horizon", "num_states", "num_actions"];
const VECTOR = ["kind", "claim", "statistic", "target", "least"];
const ENTRIES = {
  shuffle: [...COMMON, "query", "honest", "messages", "bits_per_user", "probability", "block", "overflow"],
  local: [...COMMON, "query", "encoding", "mechanism", "outcome", "transition"],
  "central-totals": [...COMMON, "releases", "levels", "unit", "exponent", "variance"],
  "central-batch": [...COMMON, "query", "levels", "unit", "variance"],
  "central-vectors": [...VECTOR, "variance"],
  "shuffle-vectors": [...VECTOR, "honest", "messages", "shift", "bits_per_user", "probability", "block", "overflow"],
  "local-vectors": [...VECTOR, "directions", "chosen", "epsilon"],
};
const ELSEWHERE = ["central-gradient", "central-losses", "local-returns"];
const MECHANISMS = ["subset", "oue"];
const MECHANISMS_ELSEWHERE = ["rr", "laplace", "gaussian"];
const LARGEST_LABEL = 0xffff;
const MOST_NOISE_BITS = 2 ** 24;

/** The channel of a bundle, checked. */
export function channelFrom(plain) {
  const kind = isObject(plain) ? plain.kind : undefined;
  if (ELSEWHERE.includes(kind)) {
    throw new NotSupported(`a device in the browser does not answer a channel '${kind}'; use tacit's Python device`);
  }
  require(typeof kind === "string" && Object.hasOwn(ENTRIES, kind), "a channel must be of a known kind", "another");
  const mirrored = kind === "shuffle" && Object.hasOwn(plain, "mirrored");
  entries(`a channel '${kind}'`, plain, mirrored ? [...ENTRIES[kind], "mirrored"] : ENTRIES[kind]);
  require(!mirrored || plain.mirrored === true, "mirrored must be true, or left out", "another");
  const trust = kind.split("-")[0];
  const claim = claimFrom(plain.claim);
  require(claim.trust === trust, `the claim of this channel must have trust '${trust}'`, claim.trust);
  const [target, least] = [count("target", plain.target), count("least", plain.least)];
  require(least <= target, `least must be at most the target ${target}`, least);
  if (kind.endsWith("-vectors")) return vectors({ kind, trust, claim, target, least, questions: 1 }, plain);
  const shape = shapeFrom(plain.shape);
  const common = { kind, trust, claim, shape, target, least, questions: 1 };
  if (kind === "shuffle") return shuffled({ ...common, mirrored, query: countQuery(plain.query) }, plain);
  if (kind === "local") return local({ ...common, query: countQuery(plain.query) }, plain);
  return central(common, plain);
}

function shapeFrom(plain) {
  const told = isObject(plain) && Object.hasOwn(plain, "support");
  entries("the shape of a channel", plain, [...SIZES, "staged", ...(told ? ["support"] : [])]);
  require(typeof plain.staged === "boolean", "staged must be true or false", "something else");
  const [horizon, states, actions] = SIZES.map((name) => count(name, plain[name]));
  const sizes = { horizon, states, actions, staged: plain.staged };
  return Object.freeze({ ...sizes, support: told ? supportFrom(plain.support, sizes) : null });
}

function countQuery(plain) {
  const asks = isObject(plain) ? plain.asks : undefined;
  if (asks === "totals") {
    entries("running totals", plain, ["asks"]);
    return { kind: "totals", layer: null };
  }
  require(asks === "batch", "a channel of counts must ask for 'totals' or a 'batch'", "another");
  entries("a batch query", plain, ["asks", "layer", "failure_prob"]);
  if (plain.failure_prob !== null) doubleFraction("failure_prob", plain.failure_prob);
  return { kind: "batch", layer: plain.layer === null ? null : count("layer", plain.layer, 0) };
}

function vectors(common, plain) {
  const statistic = momentsFrom(plain.statistic, common.trust);
  const shape = { features: statistic.features, actions: statistic.actions };
  const told = { ...common, statistic, shape, query: { kind: "moments", lots: statistic.lots } };
  require(told.claim.perStage === 1, "a person must report at most once per stage", told.claim.perStage);
  if (told.trust === "local") {
    const found = directionsFrom(plain);
    // A message costs its epsilon, whatever the row: here the device sees for itself that the noise keeps the claim.
    require(atMost(found.epsilon, told.claim.epsilon), "the noise of a stage must keep the claim", "less noise");
    return Object.freeze({ ...told, ...found });
  }
  if (told.trust === "central") {
    const whole = isWhole(plain.variance) && plain.variance > 0;
    require(whole, "variance must be a whole number above 0", "another");
    return Object.freeze(told);
  }
  const { offsets, slots } = offsetsOf(statistic, plain.shift);
  const spec = Object.freeze({ counters: statistic.size, slots });
  return Object.freeze({ ...told, ...labelled({ ...told, mirrored: false }, plain, spec), offsets, shift: plain.shift });
}

function shuffled(common, plain) {
  const { query, shape } = common;
  require(query.kind === "totals" || shape.staged, "single batches must keep the steps apart", "pooled");
  return Object.freeze({ ...common, ...labelled(common, plain, specOf(shape, query.layer)) });
}

/** What all labels of ones have: noise bits, and room for them. */
function labelled(common, plain, spec) {
  require(plain.messages === "ones", "messages of this channel must be 'ones'", "others");
  require(common.least >= 2, "a shuffled stage must have at least 2 people", common.least);
  const honest = count("honest", plain.honest);
  require(honest <= common.least, `honest must be at most the ${common.least} needed`, honest);
  const probability = doubleFraction("probability", plain.probability);
  const overflow = doubleFraction("overflow", plain.overflow);
  require(probability[0] > 0n && probability[0] < probability[1], "probability must be in (0, 1)", "another");
  require(overflow[0] >= 0n && 2n * overflow[0] <= overflow[1], "overflow must be in [0, 0.5]", "another");
  const bitsPerUser = count("bits_per_user", plain.bits_per_user);
  // Mirrored: as many bits of probability 1 - q beside those of probability q.
  const noiseBits = spec.counters * bitsPerUser * (common.mirrored ? 2 : 1);
  require(noiseBits <= MOST_NOISE_BITS, `a device must draw at most ${MOST_NOISE_BITS} noise bits`, noiseBits);
  const block = count("block", plain.block);
  require(block <= noiseBits, `a block must hold at most all ${noiseBits} noise bits`, block);
  require(overflow[0] > 0n || block === noiseBits, "a block that never overflows must hold all noise bits", block);
  const width = spec.counters < 2 ** 16 ? 2 : 4;
  return { honest, probability, overflow, bitsPerUser, block, spec, noiseBits, width };
}

/** Which counters there are: for each family its layers, its cells and where its labels begin. */
function specOf({ horizon: H, states: S, actions: A, support }, layer) {
  require(layer === null || layer < H, `layer must be one of 0..${H - 1}`, layer);
  if (support !== null) return supportedSpec(support, layer);
  const every = Array.from({ length: H }, (_, h) => h);
  const layers = { transitions: [], visits: [], outcomes: [] };
  if (layer === null) Object.assign(layers, { transitions: every.slice(0, -1), outcomes: every });
  else if (layer < H - 1) layers.transitions = [layer];
  else layers.visits = [layer]; // nobody uses the state after the last step, so it is not collected
  const cells = { transitions: S * A * S, visits: S * A, outcomes: S * A * 2 };
  const [families, slots] = [[], Object.values(layers).reduce((sum, one) => sum + one.length, 0)];
  let start = 0;
  for (const name of Object.keys(cells)) {
    families.push({ name, layers: layers[name], start });
    start += layers[name].length * cells[name];
  }
  require(start < 2 ** 32, "a release must have fewer than 2^32 counters", start);
  return Object.freeze({ families, counters: start, slots });
}

function local(common, plain) {
  const { mechanism } = plain;
  require(common.query.kind === "totals", "local messages must be added up to running totals", "another query");
  if (MECHANISMS_ELSEWHERE.includes(mechanism)) {
    throw new NotSupported(`a device in the browser does not draw '${mechanism}'; use tacit's Python device, or subset`);
  }
  require(MECHANISMS.includes(mechanism), "a local mechanism must be a known one", "another");
  require(plain.encoding === "complement", "one slot must be encoded with complements", "another encoding");
  const { horizon: H, states: S, actions: A, staged, support } = common.shape;
  const told = support === null ? null : supportedSlots(support, staged);
  const slots = told?.slots ?? Array.from({ length: 2 * H - 1 }, (_, slot) => slot);
  const cells = told?.cells ?? [2 * S * A, S * A * S];
  const feeding = staged ? [1, 1] : [H, Math.max(1, H - 1)];
  const kinds = ["outcome", "transition"].map((name, place) =>
    slotFrom(mechanism, plain[name], slots.length, feeding[place], Math.max(1, cells[place])),
  );
  // A message costs the epsilon of its slot, once: here the device sees for itself that the noise keeps the claim.
  const larger = (one, other) => (one[0] * other[1] < other[0] * one[1] ? other : one);
  const epsilon = kinds.map((kind) => kind.epsilon).reduce(larger);
  require(atMost(epsilon, common.claim.epsilon), "the noise of a stage must keep the claim", "less noise");
  return Object.freeze({ ...common, mechanism, slots, cells, kinds, told, epsilon });
}

function slotFrom(mechanism, plain, slots, feeding, cells) {
  const subset = mechanism === "subset";
  const names = ["epsilon", "slots", "feeding", ...(subset ? ["cells", "size"] : [])];
  entries(`a mechanism '${mechanism}'`, plain, names);
  const epsilon = doubleFraction("epsilon", plain.epsilon);
  require(epsilon[0] > 0n, "epsilon of one slot must be above 0", "another");
  require(plain.slots === slots && plain.feeding === feeding, `a trajectory must have ${slots} slots`, "others");
  if (!subset) return { epsilon };
  require(plain.cells === cells, `this slot must have ${cells} cells`, "others");
  const size = count("size", plain.size);
  require(size <= Math.max(1, cells - 1), `a subset of ${cells} cells must leave one out`, size);
  return { epsilon, size };
}

function central(common, plain) {
  const levels = count("levels", plain.levels);
  const { states, actions, staged } = common.shape;
  const short = [states, actions, levels].every((size) => size < LARGEST_LABEL);
  require(short, `states, actions and levels must be below ${LARGEST_LABEL}`, "more");
  require(Number.isInteger(Math.log2(levels)), "levels must be a power of two", levels);
  // The curator's own numbers, which have more bits than a device needs to look at.
  const whole = [plain.unit, plain.variance].every((one) => isWhole(one) && one > 0);
  require(whole, "unit and variance must be whole numbers above 0", "others");
  require(BigInt(plain.unit) % BigInt(levels) === 0n, "levels must divide the unit", levels);
  require(common.claim.perStage === 1, "a person must report at most once per stage", common.claim.perStage);
  if (common.kind === "central-totals") {
    count("releases", plain.releases);
    fraction("exponent", plain.exponent);
    return Object.freeze({ ...common, query: { kind: "totals", layer: null }, levels });
  }
  const query = countQuery(plain.query);
  specOf(common.shape, query.layer); // refuses what is not released
  require(query.kind === "batch" && staged, "batches of their own must keep the steps apart", "others");
  return Object.freeze({ ...common, query, levels });
}
