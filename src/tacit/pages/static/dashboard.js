// The live page: draws its charts, and asks for itself again when the server says that something has changed.
// What is shown is what the server wrote; nothing is computed of people, stored or sent.
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const light = document.querySelector("#live");
const charts = new Map();

const ink = () => (dark.matches
  ? { text: "#a9b0b8", grid: "#30353a", line: "#5cb3ea", band: "#5cb3ea33" }
  : { text: "#59616a", grid: "#e2e5e8", line: "#0072b2", band: "#0072b226" });
const shown = (value) => Number(value.toPrecision(4)).toLocaleString("en");

const options = (node, kind, data) => {
  const { text, grid, line, band } = ink();
  const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
  const size = { width: Math.max(node.clientWidth, 200), height: 210 };
  const common = { ...size, legend: { show: false }, cursor: { show: false } };
  if (kind === "minutes") {
    return {
      ...common,
      scales: { x: { time: false, range: [-60, 0.6] }, y: { range: (_, low, high) => [0, Math.max(high * 1.08, 4)] } },
      series: [{}, { stroke: line, fill: band, width: 1, paths: uPlot.paths.bars({ size: [0.7, 24] }), points: { show: false } }],
      axes: [
        { ...axis, label: "minutes ago", labelSize: 20, size: 34, values: (_, splits) => splits.map((v) => (v > 0 ? "" : shown(-v))) },
        { ...axis, size: 52, values: (_, splits) => splits.map((v) => (Number.isInteger(v) ? shown(v) : "")) },
      ],
    };
  }
  const last = data[0][data[0].length - 1];
  const edge = { stroke: "transparent", width: 0, points: { show: false } };
  return {
    ...common,
    scales: { x: { time: false, range: [data[0][0] - 0.4, last + 0.4] } },
    bands: [{ series: [2, 3], fill: band }],
    series: [{}, { stroke: line, width: 2, points: { show: true, size: 8, fill: line } }, edge, edge],
    axes: [
      { ...axis, label: "stage", labelSize: 20, size: 34, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000], values: (_, splits) => splits.map((v) => (Number.isInteger(v) ? shown(v) : "")) },
      { ...axis, size: 58, values: (_, splits) => splits.map(shown) },
    ],
  };
};

const draw = (node) => {
  const data = JSON.parse(node.dataset.values);
  charts.get(node)?.destroy();
  charts.delete(node);
  if (data[0].length === 0) return;
  charts.set(node, new uPlot(options(node, node.dataset.chart, data), data, node));
};
const drawAll = () => {
  for (const node of charts.keys()) if (!node.isConnected) charts.delete(node);
  document.querySelectorAll("[data-chart]").forEach((node) => { if (!charts.has(node)) draw(node); });
};
const redraw = () => { charts.forEach((_, node) => draw(node)); };

// Sections of the new page take the places of the old ones; whatever somebody is typing into stays.
const replace = (fresh) => {
  for (const section of fresh.querySelectorAll("[data-live]")) {
    const old = document.getElementById(section.id);
    if (!old || old.dataset.live === section.dataset.live) continue;
    if (old.contains(document.activeElement) && document.activeElement.matches("input, textarea")) continue;
    const open = new Set([...old.querySelectorAll("details[open]")].map((node) => node.id));
    section.querySelectorAll("details").forEach((node) => { if (open.has(node.id)) node.open = true; });
    const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
    old.replaceWith(section);
    if (focused) document.getElementById(focused)?.focus();
  }
  document.documentElement.dataset.version = fresh.documentElement.dataset.version;
  drawAll();
};

let busy = false, again = false;
const refresh = async () => {
  if (busy) { again = true; return; }
  busy = true;
  try {
    const reply = await fetch(location.pathname, { headers: { accept: "text/html" } });
    if (reply.status === 401) { say("session over: enter again"); return; }
    if (reply.ok) replace(new DOMParser().parseFromString(await reply.text(), "text/html"));
  } catch { say("not reached"); } finally {
    busy = false;
    if (again) { again = false; setTimeout(refresh, 400); }
  }
};

const say = (words) => {
  light.textContent = words;
  light.dataset.state = words === "live" ? "live" : "away";
};

drawAll();
dark.addEventListener("change", redraw);
let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth !== width) { width = window.innerWidth; redraw(); }
});
const events = new EventSource("/events");
events.addEventListener("open", () => say("live"));
events.addEventListener("error", () => say("reconnecting"));
events.addEventListener("change", (event) => {
  if (event.data !== document.documentElement.dataset.version) refresh();
});
window.addEventListener("pagehide", () => events.close());
