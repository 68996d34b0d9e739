(() => {
  "use strict";
  document.documentElement.classList.add("script");

  const element = (name, text) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const tip = element("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);

  const hiddenIn = new WeakMap(); // from a run to the names of the curves that are switched off
  for (const run of document.querySelectorAll(".run")) {
    const hidden = new Set();
    hiddenIn.set(run, hidden);
    for (const button of run.querySelectorAll(".legend button")) {
      button.addEventListener("click", () => {
        const name = button.dataset.series;
        if (!hidden.delete(name)) hidden.add(name);
        button.setAttribute("aria-pressed", String(!hidden.has(name)));
        for (const curve of run.querySelectorAll(".series")) {
          if (curve.dataset.series === name) curve.style.display = hidden.has(name) ? "none" : "";
        }
      });
    }
  }

  const line = (name, value, data, colour) => {
    const made = element("div");
    if (colour) {
      const square = element("i");
      square.style.background = colour;
      made.append(square);
    }
    made.append(element("span", name), element("b", value === null ? "–" : value.toFixed(data.digits) + data.unit));
    return made;
  };

  const nearest = (xs, x) => {
    let best = 0;
    for (let i = 1; i < xs.length; i++) if (Math.abs(xs[i] - x) < Math.abs(xs[best] - x)) best = i;
    return best;
  };

  const place = (x, y) => {
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = x + 16 + width > innerWidth ? x - 16 - width : x + 16;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, Math.min(y + 12, innerHeight - height - 4)) + "px";
  };

  const showWindow = (data, at, hidden) => {
    const shown = data.entries.filter((e) => !hidden.has(e.name) && e.values[at] !== null);
    shown.sort((a, b) => b.values[at] - a.values[at]);
    tip.replaceChildren(
      element("p", data.places[at]),
      ...shown.map((e) => line(e.name, e.values[at], data, e.colour)),
    );
  };

  const showCell = (data, row, column) => {
    const value = data.values[row][column];
    tip.replaceChildren(element("p", data.columns[column]), line(data.rows[row], value, data));
  };

  for (const chart of document.querySelectorAll("[data-hover]")) {
    const data = JSON.parse(chart.dataset.hover);
    const svg = chart.querySelector("svg");
    const hidden = hiddenIn.get(chart.closest(".run"));
    const title = svg.querySelector("title"); // a browser would show it over the values
    svg.setAttribute("aria-label", title.textContent);
    title.remove();

    const marked = new Map(); // from a mark to its words, which a browser would show beside the tip
    for (const mark of svg.querySelectorAll(".mark")) {
      const words = mark.querySelector("title");
      mark.setAttribute("aria-label", words.textContent);
      marked.set(mark, words.textContent);
      words.remove();
    }

    const cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
    cursor.setAttribute("class", "cursor");
    svg.append(cursor);
    const leave = () => {
      tip.hidden = true;
      cursor.removeAttribute("d");
    };
    const scale = () => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    let last = 0;

    const atWindow = (index, y) => {
      last = index;
      cursor.setAttribute("d", `M${data.x[index]} ${data.top}V${data.base}`);
      showWindow(data, index, hidden);
      place(svg.getBoundingClientRect().left + data.x[index] * scale(), y);
    };
    const follow = (event) => {
      if (marked.has(event.target)) {
        cursor.removeAttribute("d");
        tip.replaceChildren(element("span", marked.get(event.target)));
        return place(event.clientX, event.clientY);
      }
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / scale();
      const y = (event.clientY - box.top) / scale();
      if (data.kind === "windows") return atWindow(nearest(data.x, x), event.clientY);
      const column = Math.floor((x - data.left) / data.wide);
      const row = Math.floor((y - data.top) / data.tall);
      if (!(data.rows[row] !== undefined && data.columns[column] !== undefined)) return leave();
      showCell(data, row, column);
      place(event.clientX, event.clientY);
    };
    svg.addEventListener("pointermove", follow);
    svg.addEventListener("pointerdown", follow);
    svg.addEventListener("pointerleave", leave);

    if (data.kind !== "windows") continue;
    svg.setAttribute("tabindex", "0");
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const index = Math.min(data.x.length - 1, Math.max(0, last + step));
      atWindow(index, svg.getBoundingClientRect().top + 20);
    });
  }
})();
