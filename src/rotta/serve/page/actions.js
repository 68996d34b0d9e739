// What can be done to a stream, and what is lost by it.
import { several } from "./words.js";

export const actionsFor = (info) => {
  const { stream } = info;
  const learnt = `${several(info.updates, "update")} and a bank of ${several(info.bank_ages.length, "image")}`;
  return {
    freeze: info.frozen
      ? {
          title: `Let ${stream} learn again?`,
          text: "Nothing is lost: it goes on from what it had learnt when it was frozen.",
          button: "Unfreeze",
          method: "POST",
          path: "/freeze?frozen=false",
          done: `${stream} learns again.`,
        }
      : {
          title: `Freeze ${stream}?`,
          text: "Nothing is lost: it goes on predicting, and learns nothing from what comes until it is unfrozen.",
          button: "Freeze",
          method: "POST",
          path: "/freeze?frozen=true",
          done: `${stream} is frozen.`,
        },
    reset: {
      title: `Reset ${stream}?`,
      text: `All that it has learnt is lost, in memory and in the store: ${learnt}. It starts from the source model again${info.frozen ? ", and stays frozen" : ""}. This cannot be undone.`,
      button: "Reset",
      danger: true,
      method: "POST",
      path: "/reset",
      done: `${stream} starts from the source model again.`,
    },
    delete: deletion(stream, `${learnt}, its counters and its history`),
  };
};

export const deletion = (stream, lost) => ({
  title: `Delete ${stream}?`,
  text: `All of it is lost, in memory and in the store: ${lost}. With its next request a stream of this name starts anew. This cannot be undone.`,
  button: "Delete",
  danger: true,
  method: "DELETE",
  path: "",
  done: `${stream} is deleted.`,
});
