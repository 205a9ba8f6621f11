// Curves of a report: every section.curves holds its numbers as JSON; one uPlot per panel, a slider and a table of
// values beside it. Nothing is fetched, stored or sent, and no style attribute is written as text.
(() => {
  "use strict";
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let printing = false;

  const make = (tag, values, ...inside) => {
    const node = Object.assign(document.createElement(tag), values || {});
    node.append(...inside);
    return node;
  };

  const shown = (value) => {
    if (value === null || value === undefined) return "-";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(2);
    return value.toLocaleString("en", { maximumSignificantDigits: size >= 1000 ? Math.ceil(Math.log10(size)) + 1 : 4 });
  };
  const ticks = (_, splits) => splits.map((v) => (v === null ? "" : v === 0 ? "0" : shown(v)));

  const lightMode = () => printing || !dark.matches;
  const ink = () => (lightMode()
    ? { text: "#59616a", grid: "#e2e5e8" }
    : { text: "#a9b0b8", grid: "#30353a" });
  const colour = (line) => (lightMode() ? line.colour : line.dark);

  // The last checkpoint of a line that is not after the episode: no value is invented between two of them.
  const place = (line, episode) => {
    let found = -1;
    for (let i = 0; i < line.x.length && line.x[i] <= episode; i++) found = i;
    return found;
  };

  // One table for uPlot: x, then per line its mean, the edges of its band, and its seeds if they are wanted.
  const assemble = (panel, state) => {
    const up = (values) => (state.y ? values.map((v) => (v === null ? null : Math.max(v, panel.floor))) : values);
    const series = [{}], bands = [], tables = [];
    panel.lines.forEach((line, number) => {
      const show = !state.hidden.has(number);
      const stroke = colour(line);
      const plain = { show, spanGaps: true, points: { show: false } };
      const table = [line.x];
      if (line.low && !state.seeds) {
        bands.push({ series: [series.length, series.length + 1], fill: stroke + "29" });
        table.push(up(line.high), up(line.low));
        series.push({ ...plain, stroke: "transparent", width: 0 }, { ...plain, stroke: "transparent", width: 0 });
      }
      if (state.seeds) {
        for (const values of line.seeds) {
          table.push(up(values));
          series.push({ ...plain, stroke: stroke + "80", width: 0.8 });
        }
      }
      table.push(up(line.mean));
      series.push({ ...plain, stroke, width: line.width, dash: line.dash });
      tables.push(table);
    });
    return { series, bands, data: uPlot.join(tables) };
  };

  class Panel {
    constructor(root, panel, state) {
      this.panel = panel;
      this.state = { ...state, hidden: new Set() };
      this.chart = root.querySelector(".chart");
      this.xs = [...new Set(panel.lines.flatMap((line) => line.x))].sort((a, b) => a - b);
      this.at = this.xs.length - 1;
      this.build(root.querySelector(".readout"));
      this.draw();
      let width = this.chart.clientWidth;
      new ResizeObserver(() => {
        if (this.chart.clientWidth !== width) {
          width = this.chart.clientWidth;
          this.plot.setSize(this.size());
        }
      }).observe(this.chart);
    }

    size() {
      const width = Math.max(this.chart.clientWidth, 200);
      return { width, height: width < 500 ? 240 : 320 };
    }

    // The slider and the table of values, which is the legend, too.
    build(root) {
      this.slider = make("input", { type: "range", min: 0, max: this.xs.length - 1, value: this.at });
      this.slider.addEventListener("input", () => this.move(Number(this.slider.value), true));
      this.output = make("output");
      const head = make("tr");
      for (const name of ["run", "mean", this.panel.band, "seeds"]) {
        head.append(make("th", { scope: "col", className: name === "run" ? "" : "number", textContent: name }));
      }
      const body = make("tbody");
      this.rows = this.panel.lines.map((line, number) => {
        const box = make("input", { type: "checkbox", checked: true });
        box.addEventListener("change", () => {
          this.state.hidden[box.checked ? "delete" : "add"](number);
          this.draw();
        });
        const swatch = make("canvas", { width: 60, height: 16 });
        swatch.style.width = "30px";
        swatch.style.height = "8px";
        const cells = [1, 2, 3].map(() => make("td", { className: "number" }));
        body.append(make("tr", {}, make("th", { scope: "row" }, make("label", {}, box, swatch, line.name)), ...cells));
        return { swatch, cells };
      });
      const table = make("div", { className: "box", tabIndex: 0 }, make("table", {}, make("thead", {}, head), body));
      table.setAttribute("role", "region");
      table.setAttribute("aria-label", `Values of the ${this.panel.y}, ${this.panel.name}`);
      root.replaceChildren(make("label", { className: "slider" }, "episode", this.slider, this.output), table);
    }

    draw() {
      if (this.plot) this.plot.destroy();
      const { series, bands, data } = assemble(this.panel, this.state);
      const { text, grid } = ink();
      const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, values: ticks };
      const last = Math.max(this.xs[this.xs.length - 1], 2);
      const whole = this.panel.free ? {} : { range: (_, low, high) => [Math.min(0, low), high > low ? high * 1.04 : low + 1] };
      this.plot = new uPlot({
        ...this.size(),
        legend: { show: false },
        cursor: { points: { show: false }, y: false, drag: { x: false, y: false } },
        scales: {
          x: { time: false, distr: this.state.x ? 3 : 1, range: [this.state.x ? 10 ** Math.floor(Math.log10(this.xs[0])) : 0, last] },
          y: this.state.y ? { distr: 3 } : whole,
        },
        series,
        bands,
        axes: [{ ...axis, label: "episode", labelSize: 22, size: 38 }, { ...axis, label: this.panel.y, labelSize: 22, size: 62 }],
        hooks: { setCursor: [(plot) => this.hovered(plot)] },
      }, data, this.chart);
      this.rows.forEach(({ swatch }, number) => this.swatch(swatch, this.panel.lines[number]));
      this.move(this.at, false);
    }

    swatch(canvas, line) {
      const pen = canvas.getContext("2d");
      pen.clearRect(0, 0, canvas.width, canvas.height);
      pen.strokeStyle = colour(line);
      pen.lineWidth = 2 * line.width + 1;
      pen.setLineDash(line.dash.map((v) => 2 * v));
      pen.beginPath();
      pen.moveTo(0, 8);
      pen.lineTo(60, 8);
      pen.stroke();
    }

    hovered(plot) {
      const { idx, left } = plot.cursor;
      if (left >= 0 && idx !== null && idx !== undefined) this.move(this.xs.indexOf(plot.data[0][idx]), false);
    }

    // Show the values at one checkpoint; `mark` puts the cursor there, too.
    move(at, mark) {
      if (at < 0) return;
      this.at = at;
      const episode = this.xs[at];
      const words = episode.toLocaleString("en");
      this.slider.value = at;
      this.slider.setAttribute("aria-valuetext", `episode ${words}`);
      this.output.textContent = words;
      this.rows.forEach(({ cells }, number) => {
        const line = this.panel.lines[number];
        const i = place(line, episode);
        const older = i >= 0 && line.x[i] !== episode ? ` (episode ${line.x[i].toLocaleString("en")})` : "";
        cells[0].textContent = i < 0 ? "-" : shown(line.mean[i]) + older;
        cells[1].textContent = i < 0 || !line.low ? "-" : `${shown(line.low[i])} to ${shown(line.high[i])}`;
        cells[2].textContent = this.seeds(line, i);
      });
      if (mark) this.plot.setCursor({ left: this.plot.valToPos(episode, "x"), top: 10 });
    }

    seeds(line, i) {
      if (i < 0 || line.seeds.length === 0) return "-";
      const values = line.seeds.map((seed) => seed[i]);
      if (this.state.seeds) return values.map((v, k) => `${line.numbers[k]}: ${shown(v)}`).join(", ");
      return `${shown(Math.min(...values))} to ${shown(Math.max(...values))}`;
    }

    set(name, value) {
      this.state[name] = value;
      this.draw();
    }
  }

  const all = [];
  for (const root of document.querySelectorAll("section.curves")) {
    const figure = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
    const state = { x: figure.log.includes("x"), y: figure.log.includes("y") && figure.logs.includes("y"), seeds: false };
    const roots = root.querySelectorAll(".panel");
    const panels = figure.panels.map((panel, i) => new Panel(roots[i], panel, state));
    const names = { x: "log episodes", y: "log values", seeds: "every seed" };
    const offered = [...figure.logs, ...(figure.seeds ? ["seeds"] : [])];
    for (const name of offered) {
      const box = make("input", { type: "checkbox", checked: state[name] });
      box.dataset.option = name;
      box.addEventListener("change", () => panels.forEach((panel) => panel.set(name, box.checked)));
      root.querySelector(".controls").append(make("label", {}, box, names[name]));
    }
    all.push(...panels);
  }

  const redraw = () => all.forEach((panel) => panel.draw());
  dark.addEventListener("change", redraw);
  let closed = [];
  window.addEventListener("beforeprint", () => {
    printing = true;
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((each) => { each.open = true; });
    redraw();
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    closed.forEach((each) => { each.open = false; });
    redraw();
  });
})();
