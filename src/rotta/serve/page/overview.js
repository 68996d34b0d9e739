// All streams in a table that is filled anew every two seconds.
import { ask } from "./asking.js";
import { fill, make, show, write } from "./dom.js";
import { icon, iconOf } from "./icons.js";
import { poll } from "./polling.js";
import { drawSparkline, largest, sparkline } from "./sparkline.js";
import * as words from "./words.js";

const LIMIT = 50;
const CURVES = ["entropy", "classes", "images_per_second", "latency_ms"];
const DIGITS = { entropy: 2, classes: 1, images_per_second: 1, latency_ms: 1 };
const LARGEST_FIRST = new Set(["entropy", "images_per_second", "latency_ms", "used"]);

// what was asked for is kept while a stream is looked at
const asked = { part: "", only: "all", sort: "state", descending: false, offset: 0 };

export const overview = (page, cameFrom) => {
  const main = fill("overview");
  const rows = new Map();
  const body = main.querySelector("tbody");
  const polling = poll((stopped) =>
    page.carefully(async () => {
      const answer = await ask(`v1/overview?${new URLSearchParams({ ...asked, limit: LIMIT })}`);
      if (stopped()) return;
      page.health(answer);
      const first = !body.childElementCount;
      fillTotals(main, answer.totals);
      fillRows(body, rows, answer);
      fillFooter(main, answer);
      if (first) rows.get(cameFrom)?.root.querySelector("a").focus();
    }),
  );
  const change = (changes) => {
    Object.assign(asked, { offset: 0 }, changes);
    markSort(main);
    polling.now();
  };
  listen(main, change);
  markSort(main);
  return {
    stop: polling.stop,
    focus: () => main.querySelector("h1").focus(),
  };
};

const listen = (main, change) => {
  const part = main.querySelector("#part");
  const only = main.querySelector("#only");
  let timer = 0;
  part.value = asked.part;
  only.value = asked.only;
  part.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => change({ part: part.value.trim() }), 150);
  });
  part.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !part.value) return;
    event.stopPropagation();
    part.value = "";
    change({ part: "" });
  });
  only.addEventListener("change", () => change({ only: only.value }));
  main.querySelector(".tools").addEventListener("submit", (event) => event.preventDefault());
  for (const head of main.querySelectorAll("[data-sort]")) {
    const sort = head.dataset.sort;
    head.firstElementChild.addEventListener("click", () =>
      change({ sort, descending: asked.sort === sort ? !asked.descending : LARGEST_FIRST.has(sort) }),
    );
  }
  for (const button of main.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => change({ offset: Math.max(0, asked.offset + LIMIT * Number(button.dataset.step)) }));
  }
  main.querySelector("tbody").addEventListener("keydown", (event) => {
    const next = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const link = next && event.target.closest("tr")?.[next]?.querySelector("a");
    if (!link) return;
    event.preventDefault();
    link.focus();
  });
};

const markSort = (main) => {
  for (const head of main.querySelectorAll("[data-sort]")) {
    if (head.dataset.sort === asked.sort) head.setAttribute("aria-sort", asked.descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
};

const fillTotals = (main, totals) => {
  for (const place of main.querySelectorAll("[data-of]")) {
    const value = totals[place.dataset.of];
    write(place, Number.isInteger(value) ? words.count(value) : words.short(value));
  }
  main.querySelector('[data-card="in_trouble"]').classList.toggle("bad", totals.in_trouble > 0);
};

// Rows are kept by name and moved, so that focus stays where it is.
const fillRows = (body, rows, answer) => {
  const most = {};
  for (const name of CURVES) most[name] = largest(answer.streams.map((stream) => stream.curves?.[name] ?? []));
  const wanted = new Set(answer.streams.map(({ stream }) => stream));
  for (const [name, row] of rows) {
    if (wanted.has(name)) continue;
    row.root.remove();
    rows.delete(name);
  }
  answer.streams.forEach((stream, at) => {
    if (!rows.has(stream.stream)) rows.set(stream.stream, newRow(stream.stream));
    const row = rows.get(stream.stream);
    fillRow(row, stream, answer, most);
    if (body.children[at] !== row.root) moveTo(body, row.root, at);
  });
};

const moveTo = (body, root, at) => {
  const focused = root.contains(document.activeElement) ? document.activeElement : null;
  body.insertBefore(root, body.children[at] ?? null);
  focused?.focus({ preventScroll: true });
};

const newRow = (name) => {
  const link = make("a", { href: `#/streams/${name}` }, name);
  const state = make("span", { class: "state" });
  const used = make("td", { class: "used" });
  const updates = make("td", { class: "wide number" });
  const measures = {};
  const cells = CURVES.map((curve) => {
    measures[curve] = { svg: sparkline(), text: make("span", { class: "value" }) };
    return make("td", { class: curve === "entropy" ? "measure" : "measure wide" }, measures[curve].svg, measures[curve].text);
  });
  const root = make("tr", {}, make("th", { scope: "row" }, link), make("td", {}, state), ...cells, updates, used);
  return { root, state, used, updates, measures, drawn: "" };
};

const fillRow = (row, stream, { time, guarded }, most) => {
  fillState(row, stream, guarded);
  row.root.className = stream.state;
  for (const curve of CURVES) {
    drawSparkline(row.measures[curve].svg, stream.curves?.[curve] ?? [null, null], most[curve]);
    write(row.measures[curve].text, words.number(stream[curve], DIGITS[curve]));
  }
  write(row.updates, words.count(stream.updates));
  write(row.used, words.ago(stream.last_used, time));
};

const fillState = (row, stream, guarded) => {
  const said = words.state(stream, guarded) + stream.frozen;
  if (row.drawn === said) return;
  row.drawn = said;
  row.state.replaceChildren(...stateMarks(stream, guarded));
};

export const stateMarks = (stream, guarded) => {
  const marks = [make("span", { class: `mark ${stream.state}` }, icon(iconOf(stream.state, guarded)), words.state(stream, guarded))];
  if (stream.frozen) marks.push(make("span", { class: "mark cold" }, icon("frozen"), "frozen"));
  return marks;
};

const fillFooter = (main, { matching, totals, streams }) => {
  const none = asked.part || asked.only !== "all" ? "No stream is like that." : "No stream yet: the first prediction makes one.";
  show(main.querySelector(".empty"), matching === 0 ? none : null);
  main.querySelector(".scroll").hidden = matching === 0;
  write(main.querySelector("#matching"), matching < totals.known ? `${words.count(matching)} of ${words.count(totals.known)} streams` : "");
  const pages = main.querySelector(".pages");
  pages.hidden = matching <= LIMIT && asked.offset === 0;
  write(pages.querySelector("span"), `${words.count(Math.min(asked.offset + 1, matching))} to ${words.count(asked.offset + streams.length)} of ${words.count(matching)}`);
  pages.querySelector('[data-step="-1"]').disabled = asked.offset === 0;
  pages.querySelector('[data-step="1"]').disabled = asked.offset + LIMIT >= matching;
};
