// Numbers, times and states in words.

const UNKNOWN = "–";

export const number = (value, digits = 2) => {
  if (value === null || value === undefined) return UNKNOWN;
  return value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
};

export const count = (value) => number(value, 0);

export const several = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

export const significant = (value) => {
  if (value === null || value === undefined) return UNKNOWN;
  return value > 0 && value < 0.001 ? value.toExponential(1) : String(Number(value.toPrecision(2)));
};

export const factor = (rate) => `× ${rate === null ? UNKNOWN : Number(rate.toPrecision(3))}`;

export const short = (value) => number(value, value === null || value >= 100 ? 0 : value >= 10 ? 1 : 2);

export const percent = (share) => (share === null ? UNKNOWN : `${Math.round(100 * share)} %`);

export const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString("en-GB");

export const ago = (then, now) => {
  if (!then) return UNKNOWN;
  const seconds = Math.max(0, now - then);
  if (seconds < 3) return "now";
  if (seconds < 100) return `${Math.round(seconds)} s ago`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h ago`;
  return new Date(1000 * then).toLocaleDateString("en-GB");
};

const ACTED = {
  "lower the rate": "slowed",
  "roll back": "rolled back",
  reset: "reset by the guard",
  "raise the rate": "recovering",
  "learn again": "recovering",
};

export const state = ({ state, action, rate }, guarded) => {
  if (state === "broken") return "predicts NaN";
  if (state === "alarm" && action === "leave out") return "shows nothing but noise";
  if (state === "alarm") return `${ACTED[action] ?? "slowed"}, rate ${factor(rate)}`;
  if (state === "unused") return "not used lately";
  return guarded ? "well" : "no guard";
};

export const event = ({ action, cause }) => ({
  what: {
    "lower the rate": "Learns more slowly",
    "roll back": "Rolled back to the last healthy state, bank emptied",
    reset: "Put back to the source model, bank emptied",
    "raise the rate": "Learns faster again",
    "leave out": "Does not learn from these images",
    "learn again": "Learns again",
  }[action] ?? action,
  why: {
    "lost belief": "Less sure than it would be without learning",
    "not finite": "Predicted NaN",
    "too far": "Parameters moved too far",
    "healthy again": "Healthy for long enough",
    "no picture": "They show noise or a single colour",
    "a picture again": "Images show something again",
  }[cause] ?? cause,
});
