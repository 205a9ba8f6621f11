// The stage bundle: what a learner hands to everybody before a stage, read as strictly as tacit's Python device does.
//
//   parseBundle(data)                    every entry known, of its type, in canonical JSON
//   requireSigned(bundle, pin)           Ed25519, against the pinned key
//   requireOrder(bundle, seen)           nothing goes back, nothing forks
//   requirePrivate(bundle, limits)       the person's own limits, cap and floor
//   requireUnspent(bundle, left, limits) the same over all reports that have left
//
// What is not here is the accountant. That the noise of a shuffled or central stage keeps the stated epsilon is derived
// by tacit in Python ('tacit verify'), which anybody can run on the same bundle. A browser checks what is stated: the
// claim, the person's cap and floor, the signature and the chain. Under local trust it checks the noise itself.

import { policyFrom, ticketsOf } from "./act.js";
import { fromHex } from "./bytes.js";
import { channelFrom } from "./channel.js";
import { claimFrom, LARGEST_DELTA, sameClaim } from "./claim.js";
import { featuresFrom } from "./declared.js";
import { InvalidInput, require } from "./errors.js";
import { atMost, count, entries, finite, sumOf } from "./fields.js";
import { isObject, isWhole, parseCanonical } from "./json.js";
import { rowsFrom } from "./rows.js";
import { digest, examine } from "./signature.js";

const FORMAT = "tacit-stage";
const VERSION = 1;
const LARGEST_BUNDLE = 64 * 2 ** 20;
const NAMES = [
  ...["format", "version", "study", "name", "states", "actions", "horizon", "rewards", "claim"],
  ...["stage", "slot", "question", "questions", "query", "channel", "target", "least", "policies", "fallback"],
  ...["kill", "head", "previous"],
];
const OPTIONAL = ["sees", "features", "keys", "signature"];
const SEALED = [["learner"], ["learner", "mixer"]];
const QUERIES = { totals: ["kind", "every"], batch: ["kind", "layer", "failure_prob"], moments: ["kind", "lots"] };
const HEAD = /^(0|[1-9]\d{0,15}):([0-9a-f]{64})$/;
const LAST_STAGE = 2 ** 32 - 1;

/** The head of whoever has seen no release yet. */
export const NOWHERE = `0:${"0".repeat(64)}`;

/** The bundle in these bytes. */
export async function parseBundle(data) {
  require(data.length <= LARGEST_BUNDLE, `a bundle must have at most ${LARGEST_BUNDLE} bytes`, data.length);
  const content = parseCanonical(data, "a bundle");
  const known = isObject(content) && content.format === FORMAT && content.version === VERSION;
  require(known, `a bundle must be a ${FORMAT} of version ${VERSION}`, "something else");
  const unknown = Object.keys(content).filter((name) => !NAMES.includes(name) && !OPTIONAL.includes(name));
  require(unknown.length === 0, "a bundle must have no unknown entries", `${unknown.length} of them`, "update tacit");
  const missing = NAMES.filter((name) => !Object.hasOwn(content, name));
  require(missing.length === 0, "a bundle must be complete", `no ${missing.join(", ")}`);
  return Object.freeze({ ...read(content), content, digest: await digest(content) });
}

function read(content) {
  const [stage, question] = ["stage", "question"].map((name) => count(`${name} of a bundle`, content[name], 0));
  require(stage <= LAST_STAGE, `stage must be at most ${LAST_STAGE}`, stage);
  const questions = count("questions of a bundle", content.questions);
  require(question < questions, `the question must be below ${questions}`, question);
  const horizon = count("horizon of a bundle", content.horizon);
  for (const name of ["states", "actions"]) {
    const names = content[name];
    const texts = Array.isArray(names) && names.length > 0 && names.every((one) => typeof one === "string");
    require(texts && new Set(names).size === names.length, `${name} must be different names`, "others");
  }
  require(typeof content.name === "string", "the name of a study must be a text", "something else");
  const pair = Array.isArray(content.rewards) && content.rewards.length === 2;
  require(pair, "rewards must have two bounds", "others");
  const rewards = content.rewards.map((bound) => finite("bounds of rewards", bound));
  require(rewards[0] < rewards[1], "rewards must have two bounds, the lower one first", "others");
  require(typeof content.kill === "boolean", "kill must be true or false", "something else");
  const sees = Object.hasOwn(content, "sees") ? featuresFrom(content.sees, content.states) : null;
  const rows = Object.hasOwn(content, "features") ? rowsFrom(content.features) : null;
  const single = horizon === 1 && content.states.length === 1 && sees === null;
  require(rows === null || single, "a bundle over rows of features must have one state and one step", "others");
  const sizes = [horizon, (sees?.names ?? content.states).length, content.actions.length];
  const asked = askedOf(content, sizes, questions, rows);
  if (Object.hasOwn(content, "keys")) requireKeys(content.keys, asked.channel);
  const { arms, weights } = armsOf(content.policies, sizes, rows);
  const head = HEAD.exec(content.head);
  if (head === null) throw new InvalidInput("a head must be NUMBER:DIGEST with 64 hexadecimal digits");
  for (const name of ["study", "previous"]) {
    require(fromHex(content[name]).length === 32, `${name} must be a SHA-256 digest`, "something else");
  }
  const { study, name, states, actions, kill, previous } = content;
  return {
    ...{ study, name, states, actions, sees, rows, horizon, rewards, stage, question, questions, kill, previous },
    ...asked,
    ...{ arms, weights, fallback: policyFrom(content.fallback, sizes, rows), head: headFrom(content.head) },
  };
}

/** Claim, query and channel, which belong together. */
function askedOf(content, [horizon, states, actions], questions, rows) {
  const asks = content.query !== null;
  for (const name of ["channel", "slot", "target", "least"]) {
    require((content[name] !== null) === asks, `a bundle must have a ${name} where it has a query`, "otherwise");
  }
  require(!(content.kill && asks), "a bundle that ends a study must ask nothing", "a query");
  const claim = claimFrom(content.claim);
  if (!asks) return { claim, channel: null };
  count("slot of a bundle", content.slot, 0);
  const channel = channelFrom(content.channel);
  const kind = isObject(content.query) ? content.query.kind : undefined;
  require(typeof kind === "string" && Object.hasOwn(QUERIES, kind), "a query must be of a known kind", "another");
  entries(`a ${kind} query`, content.query, QUERIES[kind]);
  const same =
    channel.target === content.target &&
    channel.least === content.least &&
    channel.questions === questions &&
    channel.query.kind === kind;
  require(same, "sizes and questions of a bundle must be those of its channel", "others");
  require(sameClaim(channel.claim, claim), "the claim of a bundle must be that of its channel", "another");
  require(kind !== "moments" || content.query.lots === channel.query.lots, "lots must be those of the channel", "others");
  const { shape } = channel;
  const over = rows === null ? shape.horizon === horizon && shape.states === states : shape.features === rows.dimension;
  const fits = over && shape.actions === actions;
  require(fits, "the shape of a channel must be that of its bundle", "another");
  return { claim, channel };
}

/** Signed documents of the learner and, if there is one, the mixer; whether they are believed is up to `stageKeys`. */
function requireKeys(keys, channel) {
  const named = isObject(keys) && Object.values(keys).every(isObject) ? Object.keys(keys).sort().join() : "";
  const known = channel?.trust === "shuffle" && SEALED.some((parties) => parties.join() === named);
  require(known, "keys must be those of learner, or learner and mixer, under shuffle trust", "others");
}

function armsOf(plain, sizes, rows) {
  require(Array.isArray(plain) && plain.length > 0, "a bundle must have policies", "none");
  const weights = plain.map((arm) => {
    const pair = Array.isArray(arm) && arm.length === 2 && Array.isArray(arm[1]) && arm[1].length === 2;
    const whole = pair && arm[1].every(isWhole);
    require(whole, "a policy of a bundle must have a weight [numerator, denominator]", "something else");
    return arm[1].map(BigInt);
  });
  const positive = weights.every(([numerator, denominator]) => numerator > 0n && denominator > 0n);
  require(positive, "the weights of a bundle's policies must be positive", "others");
  const common = ticketsOf(weights);
  const sum = weights.reduce((all, [numerator, denominator]) => all + (numerator * common) / denominator, 0n);
  require(sum === common, "the weights of a bundle's policies must add up to 1", "others");
  return { weights, arms: plain.map(([policy]) => policyFrom(policy, sizes, rows)) };
}

/** A place in the collector's ledger. */
export function headFrom(text) {
  const found = typeof text === "string" ? HEAD.exec(text) : null;
  if (found === null) throw new InvalidInput("a head must be NUMBER:DIGEST with 64 hexadecimal digits");
  return { number: Number(found[1]), digest: found[2], text };
}

/** Refuse a signature that does not fit and, where a raw key is pinned, any other key's. */
export async function requireSigned(bundle, pin) {
  const signed = await examine(bundle.content, pin);
  const given = bundle.content.signature !== undefined && bundle.content.signature !== null;
  require(!given || signed.valid, "a bundle must have a signature that fits", signed.words);
  require(pin === null || signed.pinned, "a bundle must be signed by the pinned key", signed.words);
}

/** Refuse what goes back, or forks; `seen` is {study, claim, stage, digest, head, questions}, or null at first. */
export function requireOrder(bundle, seen) {
  require(bundle.question === 0, "devices must be asked once per stage", "a later question");
  if (seen === null) return;
  require(bundle.study === seen.study, "a device takes part in one study", "another study");
  require(sameClaim(bundle.claim, seen.claim), "the claim of a study must not change", "another claim");
  require(bundle.stage >= seen.stage, `a stage must not be below stage ${seen.stage}, which was seen`, bundle.stage);
  const same = bundle.stage > seen.stage || bundle.digest === seen.digest;
  require(same, "a stage must have one bundle for everybody", "another one");
  // Bundles of later questions are not for devices, so only a stage of one question is followed by its successor.
  const follows = seen.questions === 1 && bundle.stage === seen.stage + 1;
  require(!follows || bundle.previous === seen.digest, "a bundle must name the one before it", "another one");
  const head = headFrom(seen.head);
  const back = bundle.head.number < head.number || (bundle.head.number === head.number && bundle.head.text !== head.text);
  require(!back, "the ledger of a study must not go back", `record ${bundle.head.number}`);
}

/** Refuse what is above the person's cap or below the person's floor. */
export function requirePrivate({ claim, channel }, { cap, floor }) {
  if (channel === null) return;
  require(claim.trust === channel.trust, "a bundle must claim the trust of its channel", claim.trust);
  require(claim.epsilon <= cap, `epsilon must be at most ${cap}, the cap of this device`, claim.epsilon);
  require(claim.delta <= LARGEST_DELTA, `delta must be at most ${LARGEST_DELTA} for a device`, claim.delta);
  require(channel.least >= floor, `a stage must have at least ${floor} people, the floor of this device`, channel.least);
}

/** The reports that count beside one of this bundle; `left` are {slot, epsilon}. */
export function othersOf({ channel, content }, left) {
  return channel.trust === "local" ? left : left.filter(({ slot }) => slot !== content.slot);
}

/** Refuse a report beyond the claim's unit or, under local trust, beyond its epsilon; and what is beyond the limits. */
export function requireUnspent(bundle, left, limits) {
  const { claim, channel } = bundle;
  requirePrivate(bundle, limits);
  const others = othersOf(bundle, left);
  const rest = "the device follows the policy and sends nothing more";
  const few = others.length < claim.reports;
  const gone = `${others.length} reports that have left`;
  require(few, `a person of this study must report at most ${claim.reports} times`, gone, rest);
  if (channel.trust !== "local") return;
  const spent = sumOf([...others.map(({ epsilon }) => epsilon), channel.epsilon]);
  const kept = atMost(spent, claim.epsilon);
  require(kept, `all reports must cost at most epsilon ${claim.epsilon}`, "more with this one", rest);
}
