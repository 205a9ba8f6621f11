// node test/run.js device.json sealing.json      prints what was checked, as JSON

import { readFile } from "node:fs/promises";
import { checkVectors, sealedHere } from "./vectors.js";

const [device, sealing] = await Promise.all(process.argv.slice(2).map(async (path) => JSON.parse(await readFile(path))));
console.log(JSON.stringify({ ...(await checkVectors(device, sealing)), sealed: await sealedHere(sealing) }));
