// What is shown, as the part of the address after "#": a link brings it back.

const LONGEST = 8000; // characters; longer addresses are cut by some mail programs

/** Read the address: { panel, model, values }. */
export function readLink() {
  const found = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const { panel = null, model = null, ...values } = found;
  return { panel, model, values };
}

/** Write what is shown into the address. Returns whether it fits; texts that do not are left out. */
export function writeLink({ panel, model, values }) {
  const given = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const whole = new URLSearchParams({ panel, model, ...Object.fromEntries(given) }).toString();
  const fits = whole.length <= LONGEST;
  history.replaceState(null, "", `#${fits ? whole : new URLSearchParams({ panel, model })}`);
  return fits;
}
