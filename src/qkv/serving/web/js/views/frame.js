// A page of `qkv look` within this one. The frame has a sandbox: its script cannot reach this page or the server.
import { element } from "../dom.js";

/** Show a page; it can be saved as a file of its own. */
export function lookFrame(html, fileName) {
  const frame = element("iframe", { src: "frame.html", sandbox: "allow-scripts", title: "Attention of every layer and head", class: "look-frame" });
  const send = (event) => {
    if (event.source !== frame.contentWindow || event.data !== "ready") return;
    removeEventListener("message", send);
    frame.contentWindow.postMessage(html, "*");
  };
  addEventListener("message", send);
  const save = element("button", { type: "button", class: "quiet", onclick: () => saveAs(html, fileName) }, "Save this page");
  return element("div", { class: "looked" }, frame, element("p", { class: "hint" }, save, " One file that needs no network and no server."));
}

function saveAs(html, fileName) {
  const url = URL.createObjectURL(new Blob([html], { type: "text/html" }));
  element("a", { href: url, download: fileName }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
