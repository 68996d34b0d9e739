// Which view is shown, what concerns all of them, and the keys.
import { NoAnswer, Refused, ask, token } from "./asking.js";
import { show, write } from "./dom.js";
import { overview } from "./overview.js";
import { streamPage } from "./stream.js";
import { tokenForm } from "./token.js";
import { clock } from "./words.js";

const STREAM = /^#\/streams\/([^/]+)$/;
const part = (id) => document.getElementById(id);

const SAID_FOR = 10_000; // milliseconds

let view = null;
let quiet = 0;
let entered = 0; // views so far
let shownStream = null;
let answeredAt = null; // in seconds
let classes = null;

const page = {
  // Do some asking; where it fails, say so and go on.
  carefully: async (work, own = () => false) => {
    const asking = entered;
    try {
      await work();
      answeredAt = Date.now() / 1000;
      show(part("lost"), null);
    } catch (error) {
      if (asking === entered && !own(error)) failed(error);
    }
  },
  health: ({ health, totals, model, guarded }) => {
    const chip = part("health");
    chip.hidden = false;
    chip.className = `chip ${health.status}`;
    write(chip, { ok: "✓ Server is well", degraded: "▲ Server degraded", failed: "✕ Server failed" }[health.status]);
    show(part("reason"), health.reason && `${health.reason[0].toUpperCase()}${health.reason.slice(1)}.`);
    write(part("model"), `${model}${guarded ? ", guarded" : ""}`);
    document.title = totals.in_trouble ? `(${totals.in_trouble}) rotta` : "rotta";
  },
  classes: async () => (classes ??= (await ask("v1/model")).classes),
  say: (words, bad = false) => {
    part("said").classList.toggle("bad", bad);
    write(part("said"), words);
    clearTimeout(quiet);
    quiet = setTimeout(() => write(part("said"), ""), SAID_FOR);
  },
};

const failed = (error) => {
  if (error instanceof Refused && error.status === 401) {
    const wrong = token.get() ? "That is not this server's token." : null;
    token.forget();
    part("health").hidden = true;
    enter(() => tokenForm(wrong, () => enter(viewOfAddress)));
    view.focus();
  } else if (error instanceof NoAnswer) {
    const since = answeredAt ? ` What is shown is of ${clock(answeredAt)}.` : "";
    show(part("lost"), `The server does not answer. Trying again every 2 seconds.${since}`);
    part("health").hidden = true;
    classes = null; // another one may come up in its place
  } else if (error instanceof Refused) {
    show(part("lost"), `The server refuses: ${error.message}.`);
  } else {
    throw error;
  }
};

const enter = (open) => {
  view?.stop();
  entered += 1;
  view = open();
  part("forget").hidden = !token.get();
};

const viewOfAddress = () => {
  const found = location.hash.match(STREAM);
  const cameFrom = shownStream;
  shownStream = found ? decodeURIComponent(found[1]) : null;
  return found ? streamPage(page, shownStream) : overview(page, cameFrom);
};

const moved = () => {
  if (location.hash && !location.hash.startsWith("#/")) return; // the skip link
  enter(viewOfAddress);
  view.focus();
};

const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";

const nameTheButton = () => {
  const [sign, label] = part("theme").children;
  write(sign, isDark() ? "☀" : "☾");
  write(label, isDark() ? "Light" : "Dark");
  part("theme").setAttribute("aria-label", isDark() ? "Light colours" : "Dark colours");
};

// What the system wants anyway is no choice to be kept.
part("theme").addEventListener("click", () => {
  const dark = !isDark();
  if (dark === system.matches) {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem("rotta-theme");
  } else {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    localStorage.setItem("rotta-theme", document.documentElement.dataset.theme);
  }
  nameTheButton();
});
system.addEventListener("change", nameTheButton);
part("forget").addEventListener("click", () => {
  token.forget();
  enter(viewOfAddress);
});
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "/" && !typing && part("part")) {
    event.preventDefault();
    part("part").focus();
  } else if (event.key === "Escape" && !part("confirm").open && shownStream) {
    location.hash = "#/";
  }
});
addEventListener("hashchange", moved);
nameTheButton();
enter(viewOfAddress);
