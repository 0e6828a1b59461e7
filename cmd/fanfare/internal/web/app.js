"use strict";
// Shows what the server tells: first "hello" with what it remembers, then a "frame" each
// second (model.go). Texts from the wire are hostile: they go into the page as text only.
(() => {
  const $ = (id) => document.getElementById(id);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const make = (name, text, className) => {
    const e = document.createElement(name);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    return e;
  };
  const short = (x) => {
    if (x == null) return "–";
    for (const [by, name] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
      if (x >= by) return +(x / by).toPrecision(3) + name;
    }
    return x > 0 && x < 10 ? String(+x.toFixed(1)) : String(Math.round(x));
  };
  const micros = (x) => (x == null || x === 0 ? "–" : x >= 1e6 ? +(x / 1e6).toPrecision(3) + " s" : x >= 1e3 ? +(x / 1e3).toPrecision(3) + " ms" : +x.toPrecision(3) + " µs");
  const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });

  // Columns of a point: Point of model.go.
  const [AT, PUBLISHED, DELIVERED, MISSING, REPAIRED, LOST, WAY, HERE, P50, P90, P99, RTT, D50, D90, D99] = [...Array(15).keys()];
  const mostPoints = 900;
  let points = [], server = "", interval = 1, heard = 0, minutes = innerWidth < 600 ? 1 : 5;

  // Charts.
  const decades = (id) => id === "losses" || id === "causes";
  // tens are 0 and powers of ten up to high, at most five of them.
  const tens = (high) => {
    const all = [10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9].filter((y) => y <= high), step = Math.ceil(all.length / 4);
    return [0, ...(all.length ? all.filter((_, i) => i % step === 0) : [high / 1.08])];
  };
  const line = (label, column, k, form = short) => ({ label, column, k, form });
  const charts = [
    ["rates", short, [line("published", PUBLISHED, 0), line("delivered", DELIVERED, 2)]],
    ["losses", short, [line("missing", MISSING, 1), line("repaired or late", REPAIRED, 0), line("lost permanently", LOST, 3)]],
    ["repair", micros, [line("p50", P50, 0, micros), line("p90", P90, 2, micros), line("p99", P99, 1, micros)]],
    ["delivery", micros, [line("p50", D50, 0, micros), line("p90", D90, 2, micros), line("p99", D99, 1, micros)]],
    ["causes", short, [line("on the way", WAY, 1), line("on this host", HERE, 3)]],
  ].map(([id, form, lines]) => {
    const box = $(id), times = id === "repair" || id === "delivery";
    const size = () => ({ width: Math.max(200, box.clientWidth), height: 170 });
    const axis = (more) => ({
      stroke: () => colour("--soft"), font: "11px system-ui, sans-serif", grid: { stroke: () => colour("--grid"), width: 1 }, ticks: { show: false }, ...more,
    });
    const u = new uPlot({
      ...size(),
      scales: {
        x: { time: true, range: () => { // all there is, from a minute up to what is asked for
          const now = points.length ? points[points.length - 1][AT] / 1000 : Date.now() / 1000, first = points.length ? points[0][AT] / 1000 : now;
          return [Math.max(now - 60 * minutes, Math.min(first, now - 60)), now];
        } },
        // Few losses are to be seen beside many.
        y: { range: (u, low, high) => [0, high > 0 ? high * 1.08 : 1], ...(decades(id) ? { distr: 4, asinh: 5 } : {}) },
      },
      axes: [
        axis({ values: (u, at, i, space, step) => at.map((t) => clock(t * 1000).slice(0, step < 60 ? 8 : 5)), space: 75, size: 30 }),
        axis({ size: 54, values: (u, at) => at.map((y) => (y === 0 ? "0" : form(y))), ...(decades(id) ? { splits: (u, axis, low, high) => tens(high), filter: (u, at) => at } : {}) }),
      ],
      series: [{ value: (u, t) => (t == null ? "" : clock(t * 1000)) }, ...lines.map((l) => ({
        label: l.label, stroke: () => colour("--c" + l.k), width: 2, spanGaps: false, points: { show: times ? undefined : false, size: 4 },
        fill: id === "rates" && l.k === 0 ? () => colour("--wash") : undefined, value: (u, y) => (y == null ? "–" : l.form(y)),
      }))],
      cursor: { drag: { x: false, y: false }, sync: { key: "fanfare" } }, legend: { live: true },
    }, [[], ...lines.map(() => [])], box);
    u.root.querySelectorAll(".u-legend .u-series").forEach((row, i) => { if (i > 0) row.querySelector(".u-marker").classList.add("k" + lines[i - 1].k); });
    new ResizeObserver(() => u.setSize(size())).observe(box);
    return () => {
      const rate = (x, column) => (times && x[column] === 0 ? null : x[column]);
      u.setData([points.map((x) => x[AT] / 1000), ...lines.map((l) => points.map((x) => rate(x, l.column)))]);
      if (points.length && !(u.cursor.left >= 0)) u.setLegend({ idx: points.length - 1 }); // the newest, unless the mouse is at another
    };
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((draw) => draw()));

  const pick = (m) => {
    minutes = m;
    for (const b of $("span").children) b.classList.toggle("on", +b.dataset.minutes === m);
    charts.forEach((draw) => draw());
  };
  for (const b of $("span").children) b.addEventListener("click", () => pick(+b.dataset.minutes));

  // Tables and lists.
  const table = (box, heads, rows, none) => {
    if (rows.length === 0) return box.replaceChildren(make("p", none, "none"));
    const t = make("table"), head = make("tr"), body = make("tbody");
    heads.forEach((h) => head.append(make("th", h)));
    for (const cells of rows) {
      const tr = make("tr");
      for (const c of cells) {
        const td = make("td");
        if (c instanceof Node) td.append(c);
        else td.textContent = c;
        tr.append(td);
      }
      body.append(tr);
    }
    const thead = make("thead");
    thead.append(head);
    t.append(thead, body);
    box.replaceChildren(t);
  };
  const two = (text, small) => {
    const e = make("span", text);
    if (small) e.append(make("br"), make("small", small, "soft"));
    return e;
  };
  const tile = (value, what, className) => {
    const e = make("div", undefined, "tile " + (className || ""));
    e.append(make("b", value), make("span", what));
    return e;
  };

  const showTiles = (f) => {
    const p = f.point, recent = points.slice(-60), sum = (c) => recent.reduce((n, x) => n + x[c], 0);
    const missing = sum(MISSING), repaired = sum(REPAIRED);
    const p99 = Math.max(0, ...recent.map((x) => x[P99])), d99 = Math.max(0, ...recent.map((x) => x[D99]));
    $("tiles").replaceChildren(
      tile(short(p[PUBLISHED]), "messages published a second"),
      tile(short(p[DELIVERED]), "delivered to subscriptions a second"),
      tile(short(p[MISSING]), "packets found missing a second", p[MISSING] > 0 ? "warn" : ""),
      tile(missing > 0 ? Math.min(100, Math.round(100 * repaired / missing)) + " %" : "–", missing > 0 ? "of missing packets were repaired or came late, last minute" : "nothing was missing in the last minute", missing > 0 && repaired >= missing * 0.99 ? "good" : ""),
      tile(micros(d99), d99 > 0 ? "longest p99 of time to delivery, last minute" : "of time to delivery: nothing came from a publisher with this clock"),
      tile(micros(p99), "longest p99 of time to repair, last minute"),
      tile(f.lost > 0 && f.lost_messages === 0 ? "?" : short(f.lost_messages), `messages lost permanently in ${f.lost} ${f.lost === 1 ? "gap" : "gaps"}, last hour`, f.lost > 0 ? "bad" : "good"),
    );
  };
  const states = { loses: "bad", released: "bad", silent: "bad", holds: "warn", unread: "warn", behind: "" };
  const said = { loses: "loses messages", released: "was released", silent: "silent", holds: "blocks the publisher", unread: "not read", behind: "behind" };
  const showSlow = (list) => table($("slow"), ["who", "state", "packets behind", "for"], list.map((s) => [
    two(s.who, s.what + ", seen by " + s.where), make("span", said[s.state] || s.state, "tag " + (states[s.state] || "")), short(s.behind), s.for > 0 ? +s.for.toFixed(1) + " s" : "–",
  ]), "Nobody is slow.");
  const showProcesses = (list) => table($("processes"), ["process and bus", "published/s", "delivered/s", "missing/s"], list.flatMap((p) => {
    if (p.error) return [[two(p.name, p.error), make("span", "does not answer", "tag bad"), "", ""]];
    return p.buses.map((b) => [two(p.name + "  " + b.name, [b.url, b.note].filter(Boolean).join(" · ")), short(b.published), short(b.delivered), short(b.missing)]);
  }), "No process on this host shows a bus.");
  const showFindings = (list) => {
    if (list.length === 0) return $("findings").replaceChildren(make("p", "Nothing was lost or dropped.", "none"));
    $("findings").replaceChildren(...list.map((f) => {
      const e = make("div", undefined, "finding " + f.kind), h = make("h3"), first = clock(f.first), last = clock(f.last);
      h.append(make("time", first === last ? first : first + " – " + last), make("span", f.cause, "tag " + ({ lost: "bad", event: "warn" }[f.kind] || "")), " " + f.title.replace(/^: /, ""));
      e.append(h, make("p", [f.who && "from " + f.who, "in " + f.where].filter(Boolean).join(", ")), make("p", f.why), make("p", f.do, "do"));
      return e;
    }));
  };
  const showEvents = (list) => $("events").replaceChildren(...(list.length ? list.reverse().map((x) => {
    const e = make("li"), text = make("span", x.text + " ");
    text.append(make("small", x.where + (x.times > 1 ? `, ${x.times} times` : "")));
    e.append(make("time", clock(x.at)), make("span", x.kind.replaceAll("_", " "), "tag"), text);
    return e;
  }) : [make("li", "Nothing has happened.", "none")]));

  const show = (f) => {
    document.body.dataset.sequence = f.sequence;
    const v = $("verdict");
    v.textContent = f.error ? "Processes cannot be read: " + f.error : f.verdict;
    v.className = "banner " + (f.error || f.processes.length === 0 ? "unknown" : f.lost + f.lost_packets > 0 ? "bad" : "good");
    const buses = f.processes.reduce((n, p) => n + p.buses.length, 0);
    $("scope").textContent = `${buses} ${buses === 1 ? "bus" : "buses"} in ${f.processes.length} ${f.processes.length === 1 ? "process" : "processes"} of this host, ${clock(f.point[AT])}`;
    showTiles(f);
    showSlow(f.slow);
    showProcesses(f.processes);
    showFindings(f.findings);
    showEvents(f.events);
    drawMap(f.map);
    charts.forEach((draw) => draw());
  };

  // What the server says.
  const state = (text, className) => {
    $("live").textContent = text;
    $("live").className = "pill " + className;
    document.body.classList.toggle("stale", className === "ended");
  };
  const gone = (text) => {
    $("gone").hidden = text === "";
    $("gone").textContent = text;
  };
  const source = new EventSource("/events");
  source.addEventListener("hello", (e) => {
    const h = JSON.parse(e.data);
    const restarted = server !== "" && server !== h.server;
    [server, interval, points, heard] = [h.server, h.interval, h.points, Date.now()];
    gone(restarted ? "fanfare web was started again at " + clock(Date.now()) + ": what it knew before is not shown any more." : "");
    state("live", "");
    if (h.last) show(h.last);
  });
  source.addEventListener("frame", (e) => {
    const f = JSON.parse(e.data);
    heard = Date.now();
    points.push(f.point);
    points.splice(0, points.length - mostPoints);
    state("live", "");
    show(f);
  });
  source.addEventListener("bye", () => {
    gone("fanfare web has ended, at " + clock(Date.now()) + ". This page goes on when it is started again.");
    state("ended", "ended");
  });
  source.addEventListener("error", () => {
    if ($("live").textContent === "ended") return;
    gone("fanfare web does not answer, since " + clock(heard || Date.now()) + ". This page goes on when it does.");
    state("no connection", "ended");
  });
  setInterval(() => {
    if (heard && Date.now() - heard > 5000 * interval && $("live").textContent === "live") state("late", "wait");
  }, 1000);
  showEvents([]);
  pick(minutes);
})();
