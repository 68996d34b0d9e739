// A shape for each state, so that none is told by colour alone.
import { draw } from "./dom.js";

const SHAPES = {
  broken: ["M5.5 1.5h5l4 4v5l-4 4h-5l-4-4v-5z", "M5.5 5.5l5 5M10.5 5.5l-5 5"],
  alarm: ["M8 1.8L15 14.2H1z", "M8 6.2v3.6M8 12v.2"],
  well: ["M8 1.5a6.5 6.5 0 1 0 .01 0z", "M5 8.2l2.2 2.2L11 6"],
  "no-guard": ["M8 1.5a6.5 6.5 0 1 0 .01 0z", ""],
  unused: ["", "M4 8h8"],
  frozen: ["", "M8 1.5v13M2.4 4.8l11.2 6.4M13.6 4.8L2.4 11.2M6 2.6l2 1.8 2-1.8M6 13.4l2-1.8 2 1.8"],
};

export const icon = (name) => {
  const [outline, inner] = SHAPES[name];
  const svg = draw("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true", class: `icon ${name}` });
  if (outline) svg.append(draw("path", { d: outline, class: "outline" }));
  if (inner) svg.append(draw("path", { d: inner, class: "inner" }));
  return svg;
};

export const iconOf = (state, guarded) => (state === "well" && !guarded ? "no-guard" : state);
