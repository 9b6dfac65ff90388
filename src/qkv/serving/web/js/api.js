// The server: questions as JSON, answers as JSON, errors as one sentence.

/** What went wrong, in words for the reader of the page. */
export class ServerError extends Error {
  constructor(message) {
    super(message);
    this.name = "ServerError";
  }
}

/** Return the models that the server offers. */
export const models = async () => (await json("/v1/models")).data;

/** Return the live figures of the server. */
export const stats = () => json("/v1/stats");

/** Ask a model: { answers, warnings }, an answer for each text of the body. */
export const ask = (verb, body, signal) => json(`/v1/${verb}`, body, signal);

/** Ask a model, and call `hear` with each event as it comes. */
export async function stream(verb, body, signal, hear) {
  const response = await send(`/v1/${verb}`, { ...body, stream: true }, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split(/\r?\n\r?\n/);
    rest = events.pop();
    for (const event of events) {
      const data = event.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart()).join("\n");
      if (data === "[DONE]") return;
      if (!data) continue;
      const told = JSON.parse(data);
      if (told.error) throw new ServerError(sentence(told.error.message));
      hear(told);
    }
  }
}

async function json(path, body, signal) {
  return (await send(path, body, signal)).json();
}

async function send(path, body, signal) {
  const options = body ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) } : {};
  let response;
  try {
    response = await fetch(path, { ...options, signal }); // the browser adds the key that it asked for
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError("The server does not answer. Is qkv serve still running?");
  }
  if (!response.ok) throw new ServerError(await reason(response));
  return response;
}

/** Say why the server refused. */
async function reason(response) {
  if (response.status === 429) {
    const wait = Number(response.headers.get("Retry-After"));
    return `The server is busy. Try again in ${wait > 1 ? `${wait} seconds` : "a second"}.`;
  }
  const told = await response.json().catch(() => null);
  if (told?.error?.message) return sentence(told.error.message);
  return `The server answered with status ${response.status} and no reason.`;
}

/** Write a message as a sentence. The name of a field stays as it is. */
const sentence = (text) => `${/^\w+_/.test(text) ? text.charAt(0) : text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
