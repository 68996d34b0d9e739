// From single requests to shares of classes in a few columns.

const COLUMNS = 40;
const COLOURS = 9; // and one for all others

export const sharesOf = (moments, classes, clock) => {
  const totals = new Map();
  for (const { classes: counts } of moments) {
    for (const [key, count] of Object.entries(counts)) totals.set(key, (totals.get(key) ?? 0) + count);
  }
  const shown = namedOnes(totals, classes);
  const size = Math.max(1, Math.ceil(moments.length / COLUMNS));
  const stacks = [];
  for (let at = 0; at < moments.length; at += size) {
    const part = moments.slice(at, at + size);
    stacks.push({ label: clock(part.at(-1).time), shares: shares(part, shown) });
  }
  const names = shown.map((key) => classes[key]);
  return { names: totals.size > shown.length ? [...names, "others"] : names, stacks };
};

// A class keeps its colour while there are few; of many, the most frequent have one.
const namedOnes = (totals, classes) => {
  if (classes.length <= COLOURS + 1) return classes.map((_, at) => String(at));
  const byCount = [...totals.keys()].sort((a, b) => totals.get(b) - totals.get(a));
  return byCount.slice(0, COLOURS).sort((a, b) => a - b);
};

const shares = (moments, shown) => {
  const counts = [...shown, null].map(() => 0);
  let total = 0;
  for (const { classes } of moments) {
    for (const [key, count] of Object.entries(classes)) {
      const at = shown.indexOf(key);
      counts[at < 0 ? shown.length : at] += count;
      total += count;
    }
  }
  return counts.map((count) => count / total);
};
