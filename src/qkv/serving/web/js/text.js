// Text as Python counts it: in code points, not in the UTF-16 units of JavaScript.

export const characters = (text) => [...text];

/**
 * Cut a text at spans of characters ({ start, end }, in order, not overlapping).
 * Returns its pieces: { text, span }, where span is null between the spans.
 */
export function pieces(text, spans) {
  const all = characters(text), found = [];
  let done = 0;
  for (const span of spans) {
    if (span.start > done) found.push({ text: all.slice(done, span.start).join(""), span: null });
    found.push({ text: all.slice(span.start, span.end).join(""), span });
    done = span.end;
  }
  if (done < all.length) found.push({ text: all.slice(done).join(""), span: null });
  return found;
}

// The white space of Python's str.split.
const GAP = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;

/** Return the words of a text and what is between them: word, gap, word, …; a gap is { gap }, a word { word }. */
export function words(text) {
  return text.split(new RegExp(`(${GAP.source})`)).filter(Boolean).map((part) => (GAP.test(part) ? { gap: part } : { word: part }));
}

/** Return the lines that are not empty. */
export const lines = (text) => text.split("\n").filter((line) => line.trim());

/**
 * Find tokens in the text that they make up: the text of each, "" for one that is not in it.
 * White space before a token belongs to it; tokens that are halves of a character share it with the first of them.
 */
export function placed(text, tokens) {
  const found = tokens.map(() => "");
  let done = 0, waiting = -1; // the first of the tokens that are not found yet
  tokens.forEach((token, number) => {
    const at = token.trim() ? text.indexOf(token, done) : text.startsWith(token, done) ? done : -1;
    const reach = waiting < 0 ? 0 : 4 * (number - waiting);
    if (at < 0 || text.slice(done, at).trim().length > reach) {
      if (waiting < 0) waiting = number;
      return;
    }
    const start = waiting < 0 ? done : at;
    if (waiting >= 0) found[waiting] = text.slice(done, at);
    found[number] = text.slice(start, at + token.length);
    [done, waiting] = [at + token.length, -1];
  });
  if (waiting >= 0) found[waiting] = text.slice(done);
  return found;
}

export const percent = (share) => (share >= 0.0995 ? `${Math.round(100 * share)} %` : `${(100 * share).toFixed(1)} %`);

export const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;

/** Write milliseconds as people do: 8.4 ms, 120 ms, 2.1 s. */
export function duration(ms) {
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`;
}

export const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

/** Write a large number: 5.5 M, 13 M, 840 k. */
export function compact(number) {
  const [size, sign] = number >= 1e9 ? [1e9, "B"] : number >= 1e6 ? [1e6, "M"] : [1e3, "k"];
  return number < 1000 ? `${number}` : `${(number / size).toFixed(number / size < 10 ? 1 : 0)} ${sign}`;
}
