// Do something now and every two seconds, one after the other, while somebody looks.

const EVERY = 2000; // milliseconds

export const poll = (work) => {
  let timer = 0;
  let running = false;
  let wanted = false;
  let stopped = false;

  const turn = async () => {
    clearTimeout(timer);
    if (stopped) return;
    if (running) {
      wanted = true;
      return;
    }
    running = true;
    wanted = false;
    try {
      await work(() => stopped);
    } finally {
      running = false;
      if (wanted) turn();
      else if (!document.hidden) timer = setTimeout(turn, EVERY);
    }
  };
  const looked = () => {
    if (document.hidden) clearTimeout(timer);
    else turn();
  };
  document.addEventListener("visibilitychange", looked);
  turn();
  return {
    now: turn,
    stop: () => {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", looked);
    },
  };
};
