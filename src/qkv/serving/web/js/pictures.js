// Example pictures, drawn on the spot: digits for a model of digits, else small scenes.

const SIDE = 96;

const painted = (paint) => () => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = SIDE;
  paint(canvas.getContext("2d"));
  return new Promise((done) => canvas.toBlob(done, "image/png"));
};

function fill(brush, colour, ...shapes) {
  brush.fillStyle = colour;
  for (const [first, ...rest] of shapes) {
    brush.beginPath();
    brush.moveTo(...first);
    for (const point of rest) brush.lineTo(...point);
    brush.fill();
  }
}

function disc(brush, colour, x, y, radius) {
  brush.fillStyle = colour;
  brush.beginPath();
  brush.arc(x, y, radius, 0, 2 * Math.PI);
  brush.fill();
}

const square = (x, y, width, height) => [[x, y], [x + width, y], [x + width, y + height], [x, y + height]];

const digit = (sign) => ({
  name: `A ${sign}`,
  draw: painted((brush) => {
    fill(brush, "#000", square(0, 0, SIDE, SIDE));
    brush.fillStyle = "#fff";
    brush.font = "76px 'Comic Sans MS', 'Segoe Print', sans-serif";
    brush.textAlign = "center";
    brush.textBaseline = "middle";
    brush.fillText(sign, SIDE / 2, SIDE / 2 + 4);
  }),
});

const SCENES = [
  { name: "A ship at sea", draw: painted((brush) => {
    fill(brush, "#a9d3ee", square(0, 0, 96, 60));
    fill(brush, "#2f6f9f", square(0, 60, 96, 36));
    fill(brush, "#b23b2e", [[16, 56], [80, 56], [70, 70], [26, 70]]);
    fill(brush, "#f4f4f0", square(34, 40, 30, 16), [[47, 8], [47, 38], [24, 38]]);
    fill(brush, "#444", square(47, 8, 2, 48));
  }) },
  { name: "A car", draw: painted((brush) => {
    fill(brush, "#cfe4f2", square(0, 0, 96, 66));
    fill(brush, "#6d6f73", square(0, 66, 96, 30));
    fill(brush, "#d23c2f", square(10, 48, 76, 20), [[24, 48], [34, 32], [62, 32], [74, 48]]);
    fill(brush, "#dff1fb", [[30, 47], [37, 36], [47, 36], [47, 47]], [[50, 47], [50, 36], [60, 36], [68, 47]]);
    for (const x of [28, 70]) { disc(brush, "#222", x, 69, 10); disc(brush, "#bbb", x, 69, 4); }
  }) },
  { name: "A bird", draw: painted((brush) => {
    fill(brush, "#bfe3f7", square(0, 0, 96, 96));
    fill(brush, "#7a5230", square(0, 76, 96, 5));
    disc(brush, "#3d7fc4", 46, 54, 21);
    disc(brush, "#3d7fc4", 60, 34, 13);
    fill(brush, "#2b5f98", [[28, 50], [4, 66], [34, 68]], [[40, 48], [58, 54], [36, 70]]);
    fill(brush, "#f0a020", [[72, 32], [84, 37], [71, 40]]);
    disc(brush, "#111", 63, 31, 2.5);
  }) },
];

/** Return the example pictures for a model: { name, draw }, where draw gives a PNG. */
export function pictures(model) {
  const digits = (model.labels ?? []).length === 10 && model.labels.every((label) => /^(\D*)\d$/.test(label));
  return digits ? ["3", "7", "8"].map(digit) : SCENES;
}
