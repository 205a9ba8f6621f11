// Where a device keeps what it has seen and sent: IndexedDB in a page, memory in tests.
//
// A state has a version. `keep` writes the next one only if nobody else has, in one transaction, and returns once it is
// on the disk: two tabs of one person freeze one report, and what was frozen is there before the first byte is sent.

import { InvalidInput } from "./errors.js";

const STATES = "states";

/** Somebody else (another tab) has written since this device read. */
export class Overtaken extends Error {
  constructor() {
    super("another tab has changed the state of this device; read it again");
    this.name = "Overtaken";
  }
}

/** States in memory: forgotten with the page. */
export class MemoryStore {
  constructor() {
    this.states = new Map();
  }

  async recall(name) {
    return structuredClone(this.states.get(name) ?? null);
  }

  async keep(name, state) {
    const found = this.states.get(name) ?? null;
    if ((found?.version ?? 0) !== state.version - 1) throw new Overtaken();
    this.states.set(name, structuredClone(state));
  }
}

/** States in IndexedDB, under a name each. */
export class BrowserStore {
  constructor(database = "tacit-device") {
    this.database = database;
    this.opened = null;
  }

  async recall(name) {
    const database = await this.open();
    const asked = database.transaction(STATES, "readonly").objectStore(STATES).get(name);
    return (await done(asked)) ?? null;
  }

  async keep(name, state) {
    const database = await this.open();
    const writing = database.transaction(STATES, "readwrite", { durability: "strict" });
    const states = writing.objectStore(STATES);
    const finished = new Promise((resolve, reject) => {
      writing.oncomplete = () => resolve();
      writing.onerror = () => reject(broken());
      writing.onabort = () => reject(writing.overtaken === true ? new Overtaken() : broken());
    });
    const found = states.get(name);
    found.onsuccess = () => {
      if ((found.result?.version ?? 0) === state.version - 1) states.put(state, name);
      else {
        writing.overtaken = true;
        writing.abort();
      }
    };
    await finished;
  }

  async open() {
    if (this.opened === null) {
      const asked = indexedDB.open(this.database, 1);
      asked.onupgradeneeded = () => asked.result.createObjectStore(STATES);
      this.opened = await done(asked);
      this.opened.onversionchange = () => {
        this.opened?.close();
        this.opened = null;
      };
    }
    return this.opened;
  }
}

const broken = () => new InvalidInput("a device must be able to write to IndexedDB; leave private browsing, or free space");

function done(asked) {
  return new Promise((resolve, reject) => {
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(broken());
  });
}
