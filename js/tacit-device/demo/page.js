// The page: a person plays, and takes part in the study if they like.
//
// study.json beside this page says where the study is and whom it trusts:
//   {"shuffler": "https://...", "pins": {"learner": PEM, "shuffler": PEM}, "cap": 2, "floor": 50}

import { Device } from "../index.js";
import { HORIZON, START, step } from "./riverswim.js";

const NAME = "tacit-demo-name";
const PATIENCE = 60;
const WORDS = {
  counted: "Counted. Thank you.",
  again: "Counted before. Thank you.",
  waiting: "No answer yet. The same report will be sent when you open this page again.",
  late: "This stage is over; nothing was counted.",
  full: "This stage has all the reports that it wants.",
  twice: "You have reported in this stage.",
};

const part = (id) => document.getElementById(id);
const say = (text) => {
  part("status").textContent = text;
};

let device = null;
let lived = null;

function myName() {
  let name = localStorage.getItem(NAME);
  if (name === null) {
    name = crypto.randomUUID();
    localStorage.setItem(NAME, name);
  }
  return name;
}

function promiseOf({ name, claim, channel, kill }) {
  if (kill) return `The study “${name}” has ended.`;
  if (channel === null) return `The study “${name}” asks nothing at present. You can play all the same.`;
  const trusted = { shuffle: "the shuffler mixes", local: "nobody is trusted", central: "the curator is trusted" };
  return (
    `The study “${name}” promises epsilon ${claim.epsilon} and delta ${claim.delta} ` +
    `among at least ${channel.least} people (${trusted[claim.trust]}).`
  );
}

function draw() {
  const { states, actions } = device.bundle;
  const at = lived.states.at(-1);
  const over = lived.actions.length === HORIZON;
  part("river").replaceChildren(
    ...states.map((name, place) => {
      const one = document.createElement("li");
      one.textContent = name;
      if (place === at) one.setAttribute("aria-current", "location");
      return one;
    }),
  );
  const earned = lived.rewards.reduce((sum, one) => sum + one, 0);
  const open = device.asks && device.answer === "" && !device.frozen;
  part("told").textContent = `Step ${lived.actions.length} of ${HORIZON}. You have earned ${earned}.`;
  const advised = over ? null : device.act(lived.actions.length, at);
  part("advice").textContent = over ? "The swim is over." : `The study suggests: ${advised}.`;
  part("actions").replaceChildren(
    ...actions.map((name, action) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.className = !over && name === advised ? "move advised" : "move";
      button.disabled = over;
      button.addEventListener("click", () => move(action));
      return button;
    }),
  );
  part("report").disabled = !(over && open);
  part("cover").disabled = !open;
}

function move(action) {
  const { reward, next } = step(lived.states.at(-1), action);
  lived.actions.push(action);
  lived.rewards.push(reward);
  lived.states.push(next);
  draw();
  const buttons = part("actions").children;
  if (!buttons[action].disabled) buttons[action].focus();
}

async function send() {
  say("Sending …");
  const word = await device.send({ within: PATIENCE });
  say(WORDS[word] ?? `The report was refused: ${word}.`);
  draw();
}

async function takePart(freeze) {
  for (const id of ["report", "cover"]) part(id).disabled = true;
  try {
    say("Adding noise and sealing …");
    await freeze();
    await send();
  } catch (error) {
    say(`${error.message}.`);
  }
}

async function begin() {
  const found = await fetch("study.json", { cache: "no-store" });
  if (!found.ok) throw new Error("This page has no study: study.json is missing");
  const { shuffler, pins, cap, floor } = await found.json();
  device = await Device.open({ shuffler, pins, cap, floor, name: myName() });
  const bundle = await device.refresh();
  if (bundle.horizon !== HORIZON || bundle.states.length !== 4 || bundle.actions.length !== 2) {
    throw new Error("This study is not about the river");
  }
  part("promise").textContent = promiseOf(bundle);
  lived = { states: [START], actions: [], rewards: [] };
  part("report").addEventListener("click", () => takePart(() => device.report(lived)));
  part("cover").addEventListener("click", () => takePart(() => device.cover()));
  draw();
  if (device.frozen) await send();
  else if (device.answer !== "") say(WORDS[device.answer] ?? `The report was refused: ${device.answer}.`);
}

begin().catch((error) => {
  part("promise").textContent = `${error.message}.`;
});
