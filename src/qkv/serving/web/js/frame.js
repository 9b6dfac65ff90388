// The frame of a look: it becomes the page that its parent sends. That page has a policy of its own, which lets only
// its own script run; the sandbox keeps it away from the rest.
addEventListener("message", (event) => {
  if (event.source !== parent || typeof event.data !== "string") return;
  document.open();
  document.write(event.data);
  document.close();
});
parent.postMessage("ready", "*");
