// Asking the server, with the token if there is one.

const KEY = "rotta-token";
const PATIENCE = 10_000; // milliseconds

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export class NoAnswer extends Error {}

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

export const ask = async (path, method = "GET") => {
  const headers = token.get() ? { Authorization: `Bearer ${token.get()}` } : {};
  let answer;
  let body = null;
  try {
    answer = await fetch(path, { method, headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
    if (answer.status !== 204) body = await answer.json();
  } catch {
    throw new NoAnswer("The server does not answer.");
  }
  if (!answer.ok) throw new Refused(answer.status, body?.error ?? `the server answered ${answer.status}`);
  return body;
};

export const streamPath = (name) => `v1/streams/${encodeURIComponent(name)}`;
