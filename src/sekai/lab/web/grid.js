// A grid of letters, time down and slots across. Cells can be pointed at, clicked, and walked over with the arrows.

const NAMES = {
  S: "STEP", T: "TERMINATED", B: "TERMINATED, both flags true", U: "TRUNCATED", R: "RESET", F: "FROZEN", L: "LOST",
};

export function render({ model }) {
  const frame = document.createElement("div");
  frame.className = "frame";
  const table = document.createElement("table");
  table.setAttribute("role", "grid");
  const head = table.createTHead();
  const body = table.createTBody();
  frame.append(table);
  let run = null;

  const at = (time, slot) => body.rows[time]?.cells[slot + 1];
  const place = (cell) => [Number(cell.dataset.time), Number(cell.dataset.slot)];

  function begin(data) {
    run = data.run;
    body.replaceChildren();
    head.replaceChildren();
    table.setAttribute("aria-label", data.title);
    const row = head.insertRow();
    row.append(heading("call"));
    for (let slot = 0; slot < data.slots; slot++) row.append(heading(String(slot)));
  }

  function heading(text) {
    const cell = document.createElement("th");
    cell.textContent = text;
    return cell;
  }

  function fill() {
    const data = model.data;
    if (data.run !== run || data.rows.length < body.rows.length) begin(data);
    for (let time = body.rows.length; time < data.rows.length; time++) {
      const row = body.insertRow();
      row.append(heading(String(time + 1)));
      const labels = data.labels.length ? data.labels[time].split(" ") : null;
      [...data.rows[time]].forEach((letter, slot) => row.append(gridcell(time, slot, letter, labels && labels[slot])));
    }
    if (body.rows.length && !body.querySelector("[tabindex='0']")) at(0, 0).tabIndex = 0;
    frame.scrollTop = frame.scrollHeight;
    mark();
  }

  function gridcell(time, slot, letter, label) {
    const cell = document.createElement("td");
    cell.className = `kind ${letter}`;
    cell.textContent = letter === "B" ? "T" : letter;
    cell.dataset.time = time;
    cell.dataset.slot = slot;
    cell.dataset.kind = letter;
    cell.tabIndex = -1;
    cell.setAttribute("role", "gridcell");
    cell.setAttribute("aria-label", `call ${time + 1}, slot ${slot}: ${NAMES[letter]}`);
    if (label) {
      const small = document.createElement("small");
      small.textContent = label;
      cell.append(small);
    }
    return cell;
  }

  function mark() {
    for (const cell of body.querySelectorAll(".marked")) cell.classList.remove("marked");
    for (const [time, slot] of model.marks) at(time, slot)?.classList.add("marked");
    const chosen = body.querySelector("[aria-selected]");
    chosen?.removeAttribute("aria-selected");
    if (model.selected.length) at(...model.selected)?.setAttribute("aria-selected", "true");
  }

  function select(cell) {
    for (const other of body.querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
    cell.tabIndex = 0;
    model.selected = place(cell);
  }

  table.addEventListener("click", (event) => {
    const cell = event.target.closest("td");
    if (cell) { cell.focus(); select(cell); }
  });
  table.addEventListener("mouseover", (event) => {
    const cell = event.target.closest("td");
    if (cell) model.pointed = place(cell);
  });
  table.addEventListener("mouseleave", () => { model.pointed = []; });
  table.addEventListener("keydown", (event) => {
    const cell = event.target.closest("td");
    if (!cell) return;
    const [time, slot] = place(cell);
    const next = {
      ArrowUp: [time - 1, slot], ArrowDown: [time + 1, slot], ArrowLeft: [time, slot - 1], ArrowRight: [time, slot + 1],
      Home: [time, 0], End: [time, model.data.slots - 1], Enter: [time, slot], " ": [time, slot],
    }[event.key];
    if (!next) return;
    event.preventDefault();
    const target = next[1] < 0 ? null : at(...next);
    if (target && target.tagName === "TD") { target.focus(); select(target); }
  });

  model.on("data", fill);
  model.on("selected", mark);
  model.on("marks", mark);
  fill();
  return frame;
}
