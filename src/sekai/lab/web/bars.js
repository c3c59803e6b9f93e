// Bars of probabilities over the outcomes 0..n, the outcome of the walk marked, and the numbers as a table.

export function render({ model }) {
  const frame = document.createElement("div");

  function draw() {
    const { series, title, current, table } = model.data;
    const most = Math.max(...series.flatMap((each) => each.values), 1e-300);
    const outcomes = series[0].values.length;
    const chart = document.createElement("div");
    chart.className = "chart";
    chart.setAttribute("role", "img");
    chart.setAttribute("aria-label", title);
    for (let k = 0; k < outcomes; k++) {
      const group = document.createElement("div");
      group.className = `outcome${k === current ? " current" : ""}`;
      group.title = series.map((each) => `${each.name} ${k}: ${each.values[k].toPrecision(6)}`).join("\n");
      series.forEach((each, number) => {
        const bar = document.createElement("div");
        bar.className = `bar series${number}`;
        bar.style.height = `${100 * each.values[k] / most}%`;
        group.append(bar);
      });
      chart.append(group);
    }
    const axis = document.createElement("div");
    axis.className = "axis";
    const step = Math.max(1, Math.ceil(outcomes / 11));
    for (let k = 0; k < outcomes; k += step) {
      const tick = document.createElement("span");
      tick.textContent = k;
      tick.style.left = `${100 * (k + 0.5) / outcomes}%`;
      axis.append(tick);
    }
    const open = frame.querySelector("details")?.open;
    frame.replaceChildren(chart, axis);
    if (series.length > 1) frame.append(legend(series));
    if (table) frame.append(numbers(series[0].values, model.data.running, current, open));
  }

  function legend(series) {
    const list = document.createElement("p");
    list.className = "legend";
    series.forEach((each, number) => {
      const swatch = document.createElement("span");
      swatch.className = `swatch series${number}`;
      list.append(swatch, ` ${each.name}  `);
    });
    return list;
  }

  function numbers(values, running, current, open) {
    const details = document.createElement("details");
    details.open = Boolean(open);
    const summary = document.createElement("summary");
    summary.textContent = "All outcomes as numbers";
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    for (const text of ["k", "P(K = k)", "P(K ≤ k)"]) {
      const cell = document.createElement("th");
      cell.textContent = text;
      head.append(cell);
    }
    const body = table.createTBody();
    values.forEach((value, k) => {
      const row = body.insertRow();
      if (k === current) row.className = "current";
      for (const entry of [k, value, running[k]]) row.insertCell().textContent = String(entry);
    });
    details.append(summary, table);
    return details;
  }

  model.on("data", draw);
  draw();
  return frame;
}
