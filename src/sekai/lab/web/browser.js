// What the page and Python tell each other beside the widgets: keys that were pressed, and files to be saved.

const KEYS = ["r", "s", "p"];

export function render({ model }) {
  let latest = "rows";
  const panel = (event) => {
    for (const node of event.composedPath()) {
      if (node.dataset?.panel) return node.dataset.panel;
    }
    return null;
  };
  const notice = (event) => { latest = panel(event) ?? latest; };
  document.addEventListener("pointerdown", notice);
  document.addEventListener("focusin", notice);
  document.addEventListener("keydown", (event) => {
    const target = event.composedPath()[0];
    const types = target.tagName === "SELECT" || target.tagName === "TEXTAREA" ||
      (target.tagName === "INPUT" && !["checkbox", "radio", "button"].includes(target.type));
    if (types || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const key = event.key.toLowerCase();
    if (KEYS.includes(key)) model.send_msg({ panel: panel(event) ?? latest, key });
  });
  model.on("msg:custom", ({ name, text }) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  });
  const sign = document.createElement("span");
  sign.dataset.ready = "keys";
  return sign;
}
