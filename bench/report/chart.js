"use strict";
// Draws with uPlot what each element has in its attribute data-chart: struct chart of
// charts.go. Colours are the style sheet's, so that charts follow light and dark.
(() => {
  const dashes = [[], [6, 4], [2, 3], [8, 2, 2, 2], [12, 4]];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
  const font = "12px system-ui, sans-serif";

  // short writes a number with three digits and k, M or G.
  const short = (x) => {
    for (const [by, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (x >= by) return +(x / by).toPrecision(3) + name;
    }
    return String(+x.toPrecision(3));
  };

  // decades are ticks at 1, 10, 100, …, and where that gives few at 2 and 5, too.
  const decades = (u, axis, low, high) => {
    const steps = high / low < 1000 ? [1, 2, 5] : [1], list = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
      for (const s of steps) {
        const at = s * 10 ** e;
        if (at >= low && at <= high) list.push(at);
      }
    }
    return list;
  };

  // limits are those of an axis: of one value, or none, too.
  const limits = (log, room) => (u, low, high) => {
    if (low == null || !(log ? low > 0 : isFinite(low))) [low, high] = [1, 10];
    if (log) return room ? [low / 1.5, high * 1.5] : [low, high > low ? high : low * 2];
    return [0, (high > 0 ? high : 1) * 1.05];
  };

  const axis = (log, more) => ({
    stroke: () => colour("--ink"), font, filter: (u, splits) => splits,
    grid: { stroke: () => colour("--grid"), width: 1 }, ticks: { stroke: () => colour("--grid"), width: 1 },
    ...(log ? { splits: decades } : {}), values: (u, splits) => splits.map(short), ...more,
  });

  const draw = (box) => {
    const c = JSON.parse(box.dataset.chart);
    if (c.lines.length === 0) {
      box.textContent = "Nothing was measured.";
      return;
    }
    const named = new Map((c.ticks || []).map((t) => [t.at, t.label]));
    const inside = (u, i, low, high) => [...named.keys()].filter((at) => at >= low && at <= high);
    // Labels that would stand in each other are left out, but not their grid lines.
    const apart = (u, at) => {
      let last = -Infinity;
      return at.map((x) => {
        const left = u.valToPos(x, "x"), label = named.get(x);
        if (left - last < 8 + 7 * label.length) return "";
        last = left;
        return label;
      });
    };
    const where = (x) => (c.oneIn ? +(100 - 100 / x).toFixed(4) + " %" : named.get(x) || short(x));
    const size = () => ({ width: box.clientWidth, height: Math.max(220, Math.min(340, Math.round(box.clientWidth * 0.55))) });
    const u = new uPlot({
      ...size(),
      scales: {
        x: { time: false, distr: c.oneIn ? 3 : 1, range: limits(c.oneIn, false) },
        y: { distr: c.oneIn ? 3 : 1, range: limits(c.oneIn, true) },
      },
      axes: [
        axis(c.oneIn, named.size ? { splits: inside, values: apart } : {}),
        axis(c.oneIn, { size: 52 }),
      ],
      series: [
        { label: c.x, value: (u, x) => (x == null ? "–" : where(x)) },
        ...c.lines.map((l) => ({
          label: l.name, stroke: () => colour("--c" + l.colour), width: 2, dash: dashes[l.dashes], spanGaps: true,
          points: { show: !c.oneIn, size: 6, fill: () => colour("--c" + l.colour) }, value: (u, y) => (y == null ? "–" : short(y)),
        })),
      ],
      cursor: { drag: { x: false, y: false } },
    }, uPlot.join(c.lines.map((l) => [l.xs, l.ys])), box);
    // The first row of the legend is the horizontal axis, which has no marker.
    u.root.querySelectorAll(".u-marker").forEach((mark, i) => {
      if (i > 0) mark.classList.add("k" + c.lines[i - 1].colour, "d" + c.lines[i - 1].dashes);
    });
    new ResizeObserver(() => u.setSize(size())).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => u.redraw());
  };

  for (const box of document.querySelectorAll("[data-chart]")) draw(box);
})();
