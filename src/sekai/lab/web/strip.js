// The memory of each slot: a bar per row, which grows while it is carried and begins anew where an episode starts.

const SHOWN = 60;

export function render({ model }) {
  const frame = document.createElement("div");
  frame.className = "frame";
  const table = document.createElement("table");
  table.setAttribute("aria-label", "memory of the policy, slot by slot");
  frame.append(table);

  function draw() {
    const { hidden, starts, most } = model.data;
    const from = Math.max(0, hidden.length - SHOWN);
    const slots = hidden.length ? hidden[0].length : 0;
    table.replaceChildren();
    for (let slot = 0; slot < slots; slot++) {
      const row = table.insertRow();
      const name = document.createElement("th");
      name.textContent = `slot ${slot}`;
      row.append(name);
      for (let time = from; time < hidden.length; time++) row.append(moment(time, slot, hidden, starts, most));
      const value = row.insertCell();
      value.className = "value";
      value.textContent = `h = ${hidden.at(-1)[slot].toPrecision(4)}`;
    }
    frame.scrollLeft = frame.scrollWidth;
  }

  function moment(time, slot, hidden, starts, most) {
    const cell = document.createElement("td");
    const fresh = starts[time][slot] === "1";
    const coming = time === hidden.length - 1;
    cell.className = `${fresh ? "fresh" : "carried"}${coming ? " coming" : ""}`;
    cell.dataset.time = time;
    cell.dataset.slot = slot;
    cell.dataset.hidden = hidden[time][slot];
    const call = coming ? `before call ${time + 1}` : `call ${time + 1}`;
    cell.title = `${call}, slot ${slot}: h = ${hidden[time][slot].toPrecision(6)}, ${fresh ? "begun anew" : "carried"}`;
    const bar = document.createElement("div");
    bar.style.height = `${Math.round(18 * hidden[time][slot] / most)}px`;
    bar.textContent = fresh ? "0" : "";
    cell.append(bar);
    return cell;
  }

  model.on("data", draw);
  draw();
  return frame;
}
