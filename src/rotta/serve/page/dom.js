// Making and filling elements.

export const make = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
};

export const draw = (name, attributes = {}, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

// Text that did not change is left alone: a screen reader would say it again.
export const write = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

export const show = (element, text) => {
  element.hidden = !text;
  write(element, text ?? "");
};

export const fill = (id) => {
  const main = document.getElementById("content");
  main.replaceChildren(document.getElementById(id).content.cloneNode(true));
  return main;
};
