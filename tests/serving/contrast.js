// Find texts of too little contrast: WCAG 2.2, 4.5 to 1, and 3 to 1 for large ones.
() => {
  const parse = (colour) => {
    const numbers = colour.match(/-?[\d.]+(e-?\d+)?/g).map(Number);
    const scale = colour.startsWith("color(") ? 255 : 1;
    return [numbers[0] * scale, numbers[1] * scale, numbers[2] * scale, numbers[3] ?? 1];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const ground = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    const field = node.matches("input:not([type=file]), select, textarea");
    if (!(own || field) || node.matches("option, noscript, .unseen, .unseen *") || !node.checkVisibility()) continue;
    const style = getComputedStyle(node), below = ground(node);
    const [a, b] = [light(over(parse(style.color), below)), light(below)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), size = parseFloat(style.fontSize);
    const needed = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    if (ratio < needed) found.push(`${node.tagName} .${node.className} “${node.textContent.slice(0, 30)}” ${ratio.toFixed(2)}`);
  }
  return found;
}
