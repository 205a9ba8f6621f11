// tacit-device: a person's side of a study, in the browser.

export { act, actionOf, armOf, drawArm } from "./act.js";
export { NOWHERE, parseBundle, requireOrder, requirePrivate, requireSigned } from "./bundle.js";
export { Device, WAITING } from "./device.js";
export { encode, trajectoryFrom } from "./encode.js";
export { InvalidInput, NotSupported } from "./errors.js";
export { readKeys } from "./keys.js";
export { uniform } from "./randomness.js";
export { knownCredential, openName, report, sealBody, sealEnvelope } from "./seal.js";
export { pinFrom } from "./signature.js";
export { BrowserStore, MemoryStore } from "./store.js";
