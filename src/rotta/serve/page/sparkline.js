// A curve the size of a word; the number beside it is what a screen reader says.
import { draw } from "./dom.js";

const WIDE = 88;
const TALL = 24;
const EDGE = 2;

export const sparkline = () =>
  draw("svg", { viewBox: `0 0 ${WIDE} ${TALL}`, width: WIDE, height: TALL, class: "spark", "aria-hidden": "true" }, draw("path"));

export const drawSparkline = (svg, values, most) => {
  const step = (WIDE - 2 * EDGE) / (values.length - 1);
  const y = (value) => TALL - EDGE - (TALL - 2 * EDGE) * (most > 0 ? Math.min(1, value / most) : 0);
  let path = "";
  values.forEach((value, at) => {
    if (value === null) return;
    const goesOn = at > 0 && values[at - 1] !== null;
    path += `${goesOn ? "L" : "M"}${(EDGE + at * step).toFixed(1)} ${y(value).toFixed(1)}`;
    if (!goesOn) path += "h.01"; // alone it is a dot
  });
  svg.firstChild.setAttribute("d", path);
};

export const largest = (curves) => Math.max(0, ...curves.flat().filter((value) => value !== null));
