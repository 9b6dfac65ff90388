// The tabs: one for each thing that the model can do.
import { element, roving } from "./dom.js";

/** Show the tabs of panels; `choose` is called with the one that is chosen. */
export function showTabs(list, panels, chosen, choose) {
  const hadFocus = list.contains(document.activeElement);
  const tabs = panels.map((panel) => element("button", {
    type: "button", role: "tab", id: `tab-${panel.name}`, "aria-controls": "tabpanel",
    "aria-selected": String(panel === chosen), onclick: () => choose(panel),
  }, panel.title));
  const at = Math.max(panels.indexOf(chosen), 0);
  list.replaceChildren(...tabs);
  roving(list, tabs, (tab) => tab.click(), at);
  if (hadFocus) tabs[at].focus();
  list.scrollLeft = (tabs[at]?.offsetLeft ?? 0) - 40;
}
