// One stream: how it does over time, what it saw, what it keeps, and what can be done to it.
import { actionsFor, deletion } from "./actions.js";
import { NoAnswer, Refused, ask, streamPath } from "./asking.js";
import { lineChart, shareChart } from "./chart.js";
import { confirmed } from "./confirming.js";
import { fill, make, show, write } from "./dom.js";
import { stateMarks } from "./overview.js";
import { poll } from "./polling.js";
import { sharesOf } from "./shares.js";
import * as words from "./words.js";

export const streamPage = (page, name) => {
  const main = fill("stream");
  const view = { main, name, path: streamPath(name), charts: newCharts(), info: null, pictured: null };
  write(main.querySelector("h1"), name);
  main.querySelector(".charts").append(...Object.values(view.charts).map((chart) => chart.root));
  const polling = poll((stopped) => page.carefully(() => update(page, view, stopped), problemTo(view)));
  for (const button of main.querySelectorAll("[data-do]")) {
    button.addEventListener("click", () => act(page, view, button.dataset.do, polling));
  }
  return { stop: polling.stop, focus: () => main.querySelector("h1").focus() };
};

const newCharts = () => ({
  entropy: lineChart("Entropy", "Mean of each request's predictions, in nats.", (v) => words.number(v)),
  shares: shareChart("Classes", "Shares of the predicted classes over the last requests."),
  latency: lineChart("Latency", "From decoded images to the answer, in ms.", (v) => words.number(v, 1)),
  statistics: lineChart("Drift of the statistics", "The teacher's distance from the source's, relative.", words.significant),
  parameters: lineChart("Drift of γ and β", "The teacher's distance from the source's, relative.", words.significant),
  rate: lineChart("Learning rate", "What the guard multiplies it by, after each update.", words.factor),
});

const update = async (page, view, stopped) => {
  const [info, history, all, classes] = await Promise.all([
    ask(view.path),
    ask(`${view.path}/history`),
    ask("v1/overview?limit=1"),
    page.classes(),
  ]);
  if (stopped()) return;
  view.info = info;
  page.health(all);
  show(view.main.querySelector(".alert"), null);
  fillHead(view, all.guarded);
  fillCharts(view.charts, history, classes);
  fillFacts(view.main.querySelector(".facts"), info, history, all.time);
  fillEvents(view.main, info.events, all.guarded);
  const seen = `${info.requests} ${info.updates} ${info.bank_ages.length}`;
  if (seen === view.pictured) return;
  const [inputs, bank] = await Promise.all([ask(`${view.path}/inputs`), ask(`${view.path}/bank`)]);
  if (stopped()) return;
  view.pictured = seen;
  fillInputs(view.main.querySelector(".inputs"), inputs.inputs);
  fillBank(view.main.querySelector(".bank"), bank.held, classes);
};

// What the server says about this stream belongs here; the rest concerns the whole page.
const problemTo = (view) => (error) => {
  if (!(error instanceof Refused) || ![404, 409, 422].includes(error.status)) return false;
  show(view.main.querySelector(".alert"), sentence(error.message));
  for (const button of view.main.querySelectorAll("[data-do]")) button.disabled = error.status !== 409 || button.dataset.do !== "delete";
  return true;
};

const sentence = (message) => `${message[0].toUpperCase()}${message.slice(1)}.`;

const act = async (page, view, what, polling) => {
  // a stream whose state is damaged tells nothing of itself, and can only be deleted
  const action = view.info ? actionsFor(view.info)[what] : deletion(view.name, "what it has learnt and counted");
  if (!(await confirmed(action))) return;
  try {
    await ask(view.path + action.path, action.method);
    page.say(action.done);
    if (what === "delete") location.hash = "#/";
    else polling.now();
  } catch (error) {
    const why = error instanceof NoAnswer ? "the server does not answer" : error.message;
    page.say(`That did not work: ${why}.`, true);
  }
};

const alarmed = ({ rate, events }) => rate < 1 || events.at(-1)?.action === "leave out";

const standingOf = (info) => ({
  ...info,
  state: info.entropy === null && info.requests > 0 ? "broken" : alarmed(info) ? "alarm" : "well",
  action: info.events.at(-1)?.action ?? null,
});

const fillHead = ({ main, info }, guarded) => {
  const place = main.querySelector(".state");
  const marks = make("span", {}, ...stateMarks(standingOf(info), guarded));
  if (place.textContent !== marks.textContent) place.replaceChildren(...marks.childNodes);
  write(main.querySelector("[data-do=freeze]"), info.frozen ? "Unfreeze" : "Freeze");
  for (const button of main.querySelectorAll("[data-do]")) button.disabled = false;
};

const fillCharts = (charts, { moments, drift }, classes) => {
  const times = moments.map(({ time }) => time);
  charts.entropy.fillWith(times, moments.map(({ entropy }) => entropy));
  charts.latency.fillWith(times, moments.map(({ latency_ms }) => latency_ms));
  for (const name of ["statistics", "parameters", "rate"]) {
    charts[name].fillWith(drift.map(({ time }) => time), drift.map((point) => point[name]));
  }
  const { names, stacks } = sharesOf(moments, classes, words.clock);
  charts.shares.fillWith(names, stacks);
};

const fillFacts = (list, info, history, now) => {
  const facts = {
    Requests: words.count(info.requests),
    "Images learnt from": words.count(info.samples),
    Updates: words.count(info.updates),
    "Images per second, over its last requests": words.number(history.images_per_second, 1),
    "Learning rate": words.factor(info.rate),
    "Last seen": words.ago(info.last_used, now),
    Saved: info.saved_as_of === null ? "not since the server started" : `as of ${words.ago(info.saved_as_of, now)}`,
    Place: info.resident ? "in memory" : "in the store alone",
  };
  if (!list.childElementCount) {
    for (const name of Object.keys(facts)) list.append(make("div", {}, make("dt", {}, name), make("dd")));
  }
  Object.values(facts).forEach((value, at) => write(list.children[at].lastChild, value));
};

const fillInputs = (list, inputs) => {
  const entries = inputs.toReversed().map(({ label, image, confidence }) => {
    const bar = make("i", { class: "sure" });
    bar.style.setProperty("--share", confidence ?? 0);
    const guess = make("p", {}, make("b", { title: label }, label), ` ${words.percent(confidence)}`);
    return make("li", {}, make("img", { src: image, alt: "" }), guess, bar);
  });
  list.replaceChildren(...(entries.length ? entries : [make("li", { class: "empty" }, "None lately.")]));
};

const fillBank = (place, held, classes) => {
  const oldest = Math.max(1, ...held.map(({ age }) => age));
  const groups = Map.groupBy(held, (each) => each.class);
  const rows = [...groups.keys()].sort((a, b) => a - b).map((number) => {
    const pictures = groups.get(number).sort((a, b) => a.age - b.age).map((each) => heldPicture(each, oldest));
    const title = make("h3", {}, make("b", {}, classes[number]), ` ${pictures.length}`);
    return make("div", { class: "group" }, title, make("ul", {}, ...pictures));
  });
  const missing = classes.filter((_, number) => !groups.has(number));
  if (!held.length) rows.push(make("p", { class: "empty" }, "Empty."));
  else if (missing.length && missing.length <= 20) rows.push(make("p", { class: "faint" }, `Nothing of ${missing.join(", ")}.`));
  place.replaceChildren(...rows);
};

const heldPicture = ({ image, age }, oldest) => {
  const number = make("span", { class: "age" }, make("span", { class: "unseen" }, "age "), words.count(age));
  const root = make("li", {}, make("img", { src: image, alt: "" }), number);
  root.style.setProperty("--old", (age / oldest).toFixed(2));
  return root;
};

const fillEvents = (main, events, guarded) => {
  const none = guarded ? "Nothing: it found no reason to." : "No guard watches this server's streams: start it with --method rotta:guard=true for one.";
  const section = main.querySelector(".events").closest("section");
  show(section.querySelector(".empty"), events.length ? null : none);
  section.querySelector(".scroll").hidden = !events.length;
  const rows = events.toReversed().map((event) => {
    const { what, why } = words.event(event);
    const numbers = [words.factor(event.rate), words.percent(event.signals["lost belief"] ?? null), words.number(event.signals.entropy), words.significant(event.signals["parameter distance"])];
    return make("tr", {}, make("th", { scope: "row" }, words.count(event.batch)), make("td", {}, what), make("td", {}, why), ...numbers.map((text) => make("td", { class: "number" }, text)));
  });
  const body = main.querySelector(".events tbody");
  if (body.childElementCount !== rows.length) body.replaceChildren(...rows);
};
