// Errors: what must hold, what was given, what to do. No message contains what a person did.

/** Input that cannot be taken. */
export class InvalidInput extends Error {
  constructor(message) {
    super(message);
    this.name = "InvalidInput";
  }
}

/** Something that tacit has, and this device does not. */
export class NotSupported extends Error {
  constructor(message) {
    super(message);
    this.name = "NotSupported";
  }
}

/** Throw unless `holds`: "must hold, got 'given'; hint". */
export function require(holds, must, given, hint = "") {
  if (holds !== true) {
    throw new InvalidInput(`${must}, got '${given}'${hint ? `; ${hint}` : ""}`);
  }
}
