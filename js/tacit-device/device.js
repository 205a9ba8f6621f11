// The device: one person's side of a study. It decides whether a bundle is worth an answer, follows its policy, and
// reports once.
//
//   const device = await Device.open({ shuffler, pins, name, cap, floor, store });
//   await device.refresh();                   bundle and keys, fetched and verified
//   device.act(step, state);                  offline
//   await device.report(trajectory);          frozen in IndexedDB; or device.cover()
//   await device.send();                      the same bytes until there is an answer
//
// D1  Refused are a forged or unpinned signature, another study, another claim, a stage below one that was seen, another
//     bundle for the same stage or one that does not follow it, an unknown entry, an epsilon above the person's cap,
//     fewer people than the person's floor, a ledger that went back, and a sealed stage whose bundle does not hold the
//     signed keys of learner (and mixer): messages are sealed to those and to no others. A refusal changes nothing.
// D2  Report, seals, id and envelope are frozen before the first byte leaves: asked again, in whatever tab, the device
//     draws nothing. Two reports of one trajectory would have less noise than one.
// D3  A cover report has the length of a real one.
// D4  Nothing about what a person did is ever thrown, logged or shown.
// D5  A report counts from the moment it is frozen, and no more are made than the claim's unit has. Under local trust
//     whatever left has left, also when it was refused. Under central and shuffle trust a slot counts once, since only
//     void stages are asked for again, and a report that the collector did not take counts no more.

import { act, drawArm } from "./act.js";
import { equal, fromHex, utf8 } from "./bytes.js";
import { othersOf, parseBundle, requireOrder, requirePrivate, requireSigned, requireUnspent } from "./bundle.js";
import { encode, trajectoryFrom } from "./encode.js";
import { InvalidInput, NotSupported, require } from "./errors.js";
import { canonical } from "./json.js";
import { readKeys, stageKeys } from "./keys.js";
import { knownCredential, openName, report, sealBody, sealEnvelope } from "./seal.js";
import { ask, backoff, problemOf, understood } from "./send.js";
import { pinFrom } from "./signature.js";
import { BrowserStore, Overtaken } from "./store.js";

const LARGEST_BUNDLE = 64 * 2 ** 20;
const LAYOUT = 2;
const TRIES = 8;
const NOTHING = { report: null, envelope: null, answer: "" };
const FIRST = { layout: LAYOUT, version: 0, seen: null, bundle: null, arm: 0, documents: {}, left: [], ...NOTHING };
const NOT_TAKEN = ["late", "full"];
const PINNED = ["learner", "shuffler", "mixer"];

/** There is no answer yet; the frozen bytes are there for the next `send`. */
export const WAITING = "waiting";

export class Device {
  /**
   * A device that trusts the pinned keys: PEM texts that the person, or the page, has from elsewhere, by party.
   *
   * `name` is for studies that are open to anybody (demonstrations), `credential` for studies that know their people.
   * `cap` and `floor` are the person's own limits and have no default. `place` names the state in the `store`.
   */
  static async open(options) {
    const device = new Device(options);
    await device.recall();
    return device;
  }

  /** For `Device.open`, which also reads what was kept. */
  constructor({ shuffler, pins, store = new BrowserStore(), place = null, over = ask, sleep = pause, ...person }) {
    this.shuffler = String(shuffler).replace(/\/+$/, "");
    require(/^https?:\/\//.test(this.shuffler), "the shuffler must have an address http(s)://...", "another");
    Object.assign(this, { store, over, sleep, pins: pinsFrom(pins), badge: badgeOf(person), ...limitsOf(person) });
    this.place = place ?? this.shuffler;
    this.state = FIRST;
    this.bundle = null;
    this.keys = null;
  }

  /** What is kept under this place: also what another tab has written since. */
  async recall() {
    const found = await this.store.recall(this.place);
    require(found === null || found.layout === LAYOUT, "a kept state must be of this version", "another", OTHER);
    const bundle = found?.bundle ? await parseBundle(utf8(found.bundle)) : null;
    [this.state, this.bundle, this.keys] = [found ?? FIRST, bundle, null];
  }

  // offline

  /** Follow this bundle from now on, or refuse it and change nothing (D1). */
  async accept(data) {
    const found = await parseBundle(data);
    await requireSigned(found, this.pins.learner);
    await this.change(async (state) => {
      requireOrder(found, state.seen);
      if (state.seen?.digest === found.digest) return null;
      requirePrivate(found, this);
      const named = Object.keys(await stageKeys(found, this.pins, state.documents));
      const texts = Object.fromEntries(named.map((party) => [party, canonical(found.content.keys[party])]));
      const documents = { ...state.documents, ...texts };
      const { study, stage, digest, questions } = found;
      const seen = { study, stage, digest, questions, claim: found.claim, head: found.head.text };
      const text = new TextDecoder().decode(data);
      return { ...state, ...NOTHING, seen, documents, bundle: text, arm: drawArm(found.weights) };
    });
    this.bundle = found;
    return found;
  }

  /** The policy of this person in this stage; the fall-back policy where the study was ended. */
  get policy() {
    const bundle = this.accepted();
    return bundle.kill ? bundle.fallback : bundle.arms[this.state.arm];
  }

  /** The name of the action to take at a step (from 0) in a state, by name or number. */
  act(step, state) {
    return act(this.accepted(), this.policy, step, state);
  }

  /** Whether this stage wants a report, and this person may still send one. */
  get asks() {
    try {
      this.asked();
      return true;
    } catch (error) {
      if (error instanceof InvalidInput) return false;
      throw error;
    }
  }

  /** How the report of this stage ended, or nothing yet. */
  get answer() {
    return this.state.answer;
  }

  /** Whether there is a report of this stage that has no answer yet. */
  get frozen() {
    return this.state.report !== null;
  }

  /** Freeze the report of this stage (D2); one that is frozen stays as it is. */
  async report(trajectory) {
    const bundle = this.asked();
    await this.freeze(bundle, trajectoryFrom(bundle, trajectory));
  }

  /** Freeze a report that says nothing, of the same length (D3). */
  async cover() {
    await this.freeze(this.asked(), null);
  }

  // over the network

  /** Fetch and verify bundle and keys; refused ones change nothing. */
  async refresh() {
    const found = await this.over(`${this.shuffler}/v1/bundle`, { most: LARGEST_BUNDLE });
    const bundle = await this.accept(contentOf(found, "a bundle"));
    if (bundle.channel !== null) await this.fetchKeys();
    return bundle;
  }

  /** Send the frozen report until there is an answer, or until so many seconds are over ("waiting"). */
  async send({ within = Infinity, first = 0.5, most = 60 } = {}) {
    const end = performance.now() + 1000 * within;
    for (let attempt = 0; ; attempt += 1) {
      await this.recall(); // another tab may have had an answer
      if (this.state.answer !== "") return this.state.answer;
      const { envelope } = this.state;
      require(envelope !== null, "a report must be frozen before it is sent", "none", "report or cover first");
      const reply = await this.over(`${this.shuffler}/v1/reports`, { method: "POST", body: envelope });
      const { next, word, after } = understood(reply);
      if (["done", "refused", "over"].includes(next)) await this.end(word);
      else if (next !== "rekey" || !(await this.rekeyed())) {
        const seconds = backoff(attempt, after, { first, most });
        if (performance.now() + 1000 * seconds >= end) return WAITING;
        await this.sleep(seconds);
      }
    }
  }

  // inside

  accepted() {
    if (this.bundle === null) throw new InvalidInput("a device must accept a bundle first; call refresh");
    return this.bundle;
  }

  asked() {
    const bundle = this.accepted();
    require(!bundle.kill, "a study that was ended must not be answered", "a bundle that ends it");
    require(bundle.channel !== null, "a stage must ask something to be answered", "a bundle that asks nothing");
    if (this.state.report === null && this.state.answer === "") requireUnspent(bundle, this.state.left, this);
    return bundle;
  }

  async freeze(bundle, trajectory) {
    const { channel, stage } = bundle;
    const study = fromHex(bundle.study);
    const shuffler = (await this.shufflerKeys()).active;
    const documents = Object.entries(await stageKeys(bundle, this.pins, this.state.documents));
    const named = Object.fromEntries(documents.map(([party, { active }]) => [party, active]));
    await this.change(async (state) => {
      require(state.seen?.digest === bundle.digest, "a report must be of the present stage", "another", "refresh");
      if (state.report !== null || state.answer !== "") return null;
      requireUnspent(bundle, state.left, this);
      const left = [...othersOf(bundle, state.left), { slot: bundle.content.slot, epsilon: channel.epsilon ?? null }];
      // A lot was drawn before there was a row.
      const drawn = trajectory !== null && channel.query.lots === true;
      const body = encode(channel, drawn ? { ...trajectory, lot: state.arm } : trajectory);
      const sealed = channel.trust === "shuffle" ? await sealBody(channel, body, { study, stage, ...named }) : body;
      const made = report(study, stage, sealed);
      return { ...state, left, report: made, envelope: await sealEnvelope(made, this.badge, { study, shuffler }) };
    });
  }

  /** Whether the shuffler has another key by now: then a new envelope goes around the same report. */
  async rekeyed() {
    const bundle = this.asked();
    const before = (await this.shufflerKeys()).active;
    await this.fetchKeys();
    const { active } = await this.shufflerKeys();
    if (equal(active, before)) return false;
    await this.change(async (state) => {
      if (state.report === null) return null;
      const study = fromHex(bundle.study);
      return { ...state, envelope: await sealEnvelope(state.report, this.badge, { study, shuffler: active }) };
    });
    return true;
  }

  /** Keep the last word about a report and drop its bytes. */
  async end(word) {
    const bundle = this.accepted();
    await this.change((state) => {
      if (state.seen.digest !== bundle.digest) return null;
      const back = NOT_TAKEN.includes(word) && bundle.channel.trust !== "local";
      return { ...state, ...NOTHING, answer: word, left: back ? othersOf(bundle, state.left) : state.left };
    });
  }

  async fetchKeys() {
    const reply = await this.over(`${this.shuffler}/v1/keys/shuffler`);
    const kept = Object.hasOwn(this.state.documents, "shuffler");
    if (kept && (reply === null || reply.status >= 500)) return;
    const data = contentOf(reply, "the keys of the shuffler");
    await this.change(async (state) => {
      const seen = Object.hasOwn(state.documents, "shuffler") ? await this.shufflerKeys() : null;
      this.keys = await this.readShuffler(data, seen);
      return { ...state, documents: { ...state.documents, shuffler: new TextDecoder().decode(data) } };
    });
  }

  async shufflerKeys() {
    const text = this.state.documents.shuffler;
    require(text !== undefined, "a device must have the keys of the shuffler before it reports", "none", "refresh");
    this.keys ??= await this.readShuffler(utf8(text), null);
    return this.keys;
  }

  readShuffler(data, seen) {
    return readKeys(data, { party: "shuffler", study: this.accepted().study, pin: this.pins.shuffler, seen });
  }

  /** Write down, then believe: what `make` makes of the state, unless another tab was faster; then once more. */
  async change(make) {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const next = await make(this.state);
      if (next === null) return;
      const kept = { ...next, version: this.state.version + 1 };
      try {
        await this.store.keep(this.place, kept);
        this.state = kept;
        return;
      } catch (error) {
        if (!(error instanceof Overtaken)) throw error;
        await this.recall();
      }
    }
    throw new Overtaken();
  }
}

const OTHER = "states of other versions do not tell how many reports have left: take part in another study";
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

function pinsFrom(pins) {
  const given = Object.keys(pins ?? {});
  if (given.includes("issuer")) throw tokens();
  const known = ["learner", "shuffler"].every((party) => given.includes(party));
  require(known && given.every((party) => PINNED.includes(party)), "keys of learner and shuffler must be pinned", given);
  return Object.fromEntries(PINNED.map((party) => [party, given.includes(party) ? pinFrom(pins[party]) : null]));
}

/** What stands in an envelope in the place of a token. */
function badgeOf({ name = null, credential = null, issuer = null }) {
  if (issuer !== null) throw tokens();
  require((name === null) !== (credential === null), "a device must have either a credential or a name", "both or none");
  return name === null ? knownCredential(credential) : openName(name);
}

const tokens = () =>
  new NotSupported(
    'a device in the browser has no blind tokens yet (people = "issuer"); use tacit\'s Python device, or a study whose ' +
      'people are "known" or "open"',
  );

function limitsOf({ name, credential, issuer, cap, floor, ...others }) {
  require(Object.keys(others).length === 0, "a device must be opened with known options", Object.keys(others));
  const missing = Object.entries({ cap, floor }).flatMap(([limit, given]) => (given === undefined ? [limit] : []));
  const hint = "give the largest epsilon (cap) and the fewest people (floor)";
  require(missing.length === 0, "a device must be given cap and floor", `no ${missing.join(", ")}`, hint);
  require(typeof cap === "number" && cap >= 0, "cap must be an epsilon", "another");
  require(Number.isInteger(floor) && floor >= 1, "floor must be a number of people", "another");
  return { cap, floor };
}

/** The bytes of a good reply. */
function contentOf(reply, what) {
  require(reply !== null, `${what} must come from the shuffler`, "no answer", "try again later");
  const word = `status ${reply.status} (${problemOf(reply) || "something else"})`;
  require(reply.status === 200, `${what} must come from the shuffler`, word);
  return reply.content;
}
