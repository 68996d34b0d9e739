// Curves and shares over time. Pointer and arrow keys read values, which the caption says.
import { draw, make, write } from "./dom.js";
import { clock, significant } from "./words.js";

const TALL = 170;
const LEFT = 52;
const RIGHT = 8;
const TOP = 8;
const BASE = 144;

const frame = (title, about) => {
  const readout = make("p", { class: "readout" });
  const plot = draw("svg", { tabindex: "0", role: "img", "aria-label": title, height: TALL });
  const caption = make("figcaption", {}, make("h2", {}, title), make("p", { class: "faint" }, about), readout);
  const root = make("figure", {}, caption, plot);
  const chart = { root, plot, readout, title, columns: [], at: -1 };
  plot.addEventListener("pointermove", (event) => {
    const x = event.clientX - plot.getBoundingClientRect().left;
    read(chart, nearest(chart.columns, x));
  });
  plot.addEventListener("pointerleave", () => read(chart, -1));
  plot.addEventListener("blur", () => {
    readout.removeAttribute("aria-live"); // else every new value would be said
    read(chart, -1);
  });
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !chart.columns.length) return;
    event.preventDefault();
    readout.setAttribute("aria-live", "polite");
    const from = chart.at < 0 ? (step > 0 ? -1 : chart.columns.length) : chart.at;
    read(chart, Math.min(chart.columns.length - 1, Math.max(0, from + step)));
  });
  return chart;
};

const nearest = (columns, x) =>
  columns.reduce((best, column, at) => (best < 0 || Math.abs(column.x - x) < Math.abs(columns[best].x - x) ? at : best), -1);

const read = (chart, at) => {
  chart.at = at;
  const column = chart.columns[at];
  chart.plot.querySelector(".cursor")?.setAttribute("d", column ? `M${column.x} ${TOP}V${BASE}` : "");
  write(chart.readout, column?.words ?? chart.latest ?? "");
};

// Everything is drawn anew for the width that there is: text must not shrink on a small screen.
const begin = (chart) => {
  const wide = Math.max(240, chart.plot.clientWidth || chart.root.clientWidth || 560);
  chart.plot.setAttribute("viewBox", `0 0 ${wide} ${TALL}`);
  chart.plot.replaceChildren();
  return wide;
};

const end = (chart, columns, latest) => {
  chart.plot.append(draw("path", { class: "cursor" }));
  chart.columns = columns;
  chart.latest = latest;
  chart.plot.setAttribute("aria-label", latest ? `${chart.title}: ${latest}` : `${chart.title}: nothing yet`);
  read(chart, chart.at < columns.length ? chart.at : -1);
  if (!columns.length) chart.plot.append(draw("text", { x: LEFT, y: TALL / 2, class: "faint" }, "nothing yet"));
};

const text = (x, y, words, kind) => draw("text", { x, y, class: kind }, words);

const axes = (chart, wide, most, unit, from, until) => {
  for (const share of [0, 0.5, 1]) {
    const y = BASE - (BASE - TOP) * share;
    chart.plot.append(draw("path", { d: `M${LEFT} ${y}H${wide - RIGHT}`, class: "grid" }));
    chart.plot.append(text(LEFT - 6, y + 4, `${significant(most * share)}${unit}`, "end faint"));
  }
  chart.plot.append(text(LEFT, TALL - 8, from, "faint"), text(wide - RIGHT, TALL - 8, until, "end faint"));
};

const roundUp = (value) => {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value * (1 - 1e-9));
};

// fillWith(times, values): in seconds, and a value or null for each.
export const lineChart = (title, about, format) => {
  const chart = frame(title, about);
  const fillWith = (times, values) => {
    const wide = begin(chart);
    const most = roundUp(Math.max(0, ...values.filter((value) => value !== null)));
    if (times.length) axes(chart, wide, most, "", clock(times[0]), clock(times.at(-1)));
    const span = times.at(-1) - times[0] || 1;
    const xs = times.map((time) => LEFT + ((wide - LEFT - RIGHT) * (time - times[0])) / span);
    chart.plot.append(draw("path", { d: pathOf(xs, values, most), class: "line" }));
    const columns = times.map((time, at) => ({ x: xs[at], words: `${clock(time)}: ${format(values[at])}` }));
    end(chart, columns, times.length ? `now ${format(values.at(-1))}` : null);
  };
  return { root: chart.root, fillWith };
};

const pathOf = (xs, curve, most) => {
  let path = "";
  let goesOn = false;
  curve.forEach((value, at) => {
    if (value !== null) {
      path += `${goesOn ? "L" : "M"}${xs[at].toFixed(1)} ${(BASE - (BASE - TOP) * Math.min(1, value / most)).toFixed(1)}`;
      if (!goesOn) path += "h.01";
    }
    goesOn = value !== null;
  });
  return path;
};

// fillWith(names, stacks): each {label, shares: of each name}, oldest first.
export const shareChart = (title, about) => {
  const chart = frame(title, about);
  const legend = make("ul", { class: "legend" });
  chart.root.append(legend);
  const fillWith = (names, stacks) => {
    const wide = begin(chart);
    if (stacks.length) axes(chart, wide, 100, " %", stacks[0].label, stacks.at(-1).label);
    const step = (wide - LEFT - RIGHT) / Math.max(1, stacks.length);
    const columns = stacks.map(({ label, shares }, at) => {
      let y = BASE;
      shares.forEach((share, which) => {
        const height = share * (BASE - TOP);
        y -= height;
        if (height > 0) chart.plot.append(draw("rect", { x: LEFT + at * step, y, width: Math.max(0.5, step - 0.6), height, class: `part k${which}` }));
      });
      const parts = shares.map((share, which) => ({ share, name: names[which] })).filter(({ share }) => share > 0);
      parts.sort((a, b) => b.share - a.share);
      const said = parts.slice(0, 3).map(({ share, name }) => `${name} (${Math.round(100 * share)} %)`).join(", ");
      return { x: LEFT + (at + 0.5) * step, words: `${label}: ${said}`, said };
    });
    if (legend.childElementCount !== names.length) {
      legend.replaceChildren(...names.map((name, at) => make("li", { class: `k${at}` }, make("i"), name)));
    }
    end(chart, columns, columns.length ? `now ${columns.at(-1).said}` : null);
  };
  return { root: chart.root, fillWith };
};
