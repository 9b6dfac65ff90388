// A field for a picture: choose a file, drop one, paste one, or take an example.
import { element, freshId } from "./dom.js";

const EDGE = 280; // pixels of the preview

/** Make the field. Its value is the name of an example, or "" for a file: a link cannot hold a picture. */
export function imageField(name, label, examples) {
  const id = freshId(name);
  const input = element("input", { type: "file", id, accept: "image/png,image/jpeg" });
  const preview = element("canvas", { class: "preview", width: EDGE, height: EDGE, role: "img", "aria-label": "No picture yet", hidden: true });
  const drop = element("div", { class: "drop" }, preview, element("p", {}, "Drop a PNG or JPEG here, paste one, or choose a file."), input);
  const node = element("div", { class: "field wide" }, element("label", { for: id }, label), drop);
  let blob = null, chosen = "", ready = Promise.resolve();

  const take = async (picture, title, example = "") => {
    [blob, chosen] = [picture, example];
    const bitmap = await createImageBitmap(picture).catch(() => null);
    if (blob !== picture) return; // another one was chosen meanwhile
    preview.hidden = bitmap === null; // the server says what is wrong with it
    if (bitmap) draw(preview, bitmap);
    preview.setAttribute("aria-label", title);
  };
  const changed = () => input.dispatchEvent(new Event("input", { bubbles: true }));
  const takeFile = (file) => { if (file) ready = take(file, file.name).then(changed); };
  input.addEventListener("change", () => takeFile(input.files[0]));
  drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    takeFile(event.dataTransfer.files[0]);
  });
  document.addEventListener("paste", (event) => { if (node.isConnected) takeFile([...event.clipboardData.files][0]); });

  return {
    name,
    node,
    get value() { return chosen; },
    set value(title) {
      const example = examples.find((one) => one.name === title);
      if (example) ready = example.draw().then((picture) => take(picture, title, title));
    },
    /** Return the bytes in base64, or null. */
    async bytes() {
      await ready;
      return blob && base64(blob);
    },
  };
}

function draw(canvas, bitmap) {
  const scale = Math.min(EDGE / bitmap.width, EDGE / bitmap.height);
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const brush = canvas.getContext("2d");
  brush.imageSmoothingEnabled = scale < 1;
  brush.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
}

const base64 = (blob) => new Promise((done, fail) => {
  const reader = new FileReader();
  reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
  reader.onerror = () => fail(new Error("The file could not be read."));
  reader.readAsDataURL(blob);
});
