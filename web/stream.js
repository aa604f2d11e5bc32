// Talks to the server: JSON answers, server-sent frames, and refusals in one shape.
// Guarantee: a stream either ends with its [DONE] or throws; nothing is repaired in silence.

// An answer that is no answer: OpenAI's error object, a hint, and where it belongs.
export class Refusal extends Error {
  constructor({ message, hint, param, status, retry }) {
    super(message);
    this.hint = hint ?? null;
    this.param = param ?? null;
    this.status = status ?? null;
    this.retry = retry ?? null;
  }
}

const refusal = (error, status, retry) => {
  let message = typeof error === "string" ? error : String(error?.message ?? "the server gave no reason");
  let hint = error?.hint ?? null;
  const tail = /^([\s\S]*?)\n+hint: ([\s\S]*)$/.exec(message);
  if (tail) [message, hint] = [tail[1], hint ?? tail[2].trim()];
  if (retry) hint = [hint, `Try again in ${retry} s.`].filter(Boolean).join(" ");
  return new Refusal({ message, hint, param: error?.param, status, retry });
};

const read = async (response) => {
  const text = await response.text();
  let found;
  try {
    found = JSON.parse(text).error;
  } catch {
    found = null;
  }
  found ??= `the server answered ${response.status} ${response.statusText}: ${text.slice(0, 200)}`;
  return refusal(found, response.status, response.headers.get("Retry-After"));
};

const ask = async (path, { body, signal, key } = {}) => {
  const headers = {};
  if (body) headers["Content-Type"] = "application/json";
  if (key) headers.Authorization = `Bearer ${key}`;
  let response;
  try {
    response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal({ message: "the server did not answer", hint: "Is treasure serve still running?" });
  }
  if (!response.ok) throw await read(response);
  return response;
};

export const json = async (path, options) => (await ask(path, options)).json();

// Yields every JSON frame of a streamed answer.
export async function* frames(path, options) {
  const response = await ask(path, { ...options, body: { ...options.body, stream: true, diffusing: true } });
  for await (const data of events(response.body)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw refusal(chunk.error);
    yield chunk;
  }
  throw new Refusal({ message: "the connection ended before the answer", hint: "Is treasure serve still running?" });
}

// The data of each server-sent event; comments keep the connection alive and say nothing.
export async function* events(stream) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "", data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      // A lone CR at the end may be half of a CRLF: it waits for the next piece.
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      for (const line of lines) {
        if (line === "") {
          if (data.length) yield data.join("\n");
          data = [];
        } else if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        }
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
