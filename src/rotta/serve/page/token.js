// Ask for the token, once.
import { token } from "./asking.js";
import { fill, show } from "./dom.js";

export const tokenForm = (wrong, goOn) => {
  const main = fill("token");
  const secret = main.querySelector("#secret");
  const say = (problem) => show(main.querySelector("#wrong"), problem);
  say(wrong);
  main.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!/^[\x20-\x7e]+$/.test(secret.value)) {
      say("A token is made of printable ASCII characters: look at it again.");
      return;
    }
    token.set(secret.value.trim());
    goOn();
  });
  return { stop: () => {}, focus: () => secret.focus() };
};
