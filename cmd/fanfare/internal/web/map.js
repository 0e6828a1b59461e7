"use strict";
// Draws the map: publishers, groups and subscribers in three columns, and what flows between
// them. All texts are from the wire, and go into the page as text only.
const drawMap = (() => {
  const ns = "http://www.w3.org/2000/svg";
  const make = (name, attributes) => {
    const e = document.createElementNS(ns, name);
    for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
    return e;
  };
  const short = (x) => {
    for (const [by, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
      if (x >= by) return +(x / by).toPrecision(3) + name;
    }
    return x < 10 ? String(+x.toFixed(1)) : String(Math.round(x));
  };
  // cut leaves so much of a text as fits a width, its beginning and its end.
  const cut = (text, width, each) => {
    const room = Math.max(4, Math.floor(width / each)), all = [...text];
    if (all.length <= room) return text;
    const tail = Math.floor((room - 1) * 0.65);
    return all.slice(0, room - 1 - tail).join("") + "…" + all.slice(all.length - tail).join("");
  };

  const box = document.getElementById("map"), note = document.getElementById("map-note");
  const svg = make("svg", { role: "img", "aria-label": "Publishers, groups and subscribers, and what flows between them" });
  const lines = make("g"), nodes = make("g");
  svg.append(lines, nodes);
  const drawn = new Map(); // elements by key

  const one = (key, build) => {
    if (!drawn.has(key)) drawn.set(key, build());
    const e = drawn.get(key);
    e.used = true;
    return e;
  };

  return (picture) => {
    const links = new Map(picture.links.map((l) => [l.from + "\n" + l.to, l]));
    const columns = [picture.publishers, picture.groups, picture.subscribers];
    const wide = box.clientWidth, gap = Math.max(30, wide * 0.15), across = (wide - 2 * gap) / 3 - 1;
    const row = 50, head = 24, most = Math.max(1, ...columns.map((c) => c.length)), tall = head + most * row;
    svg.setAttribute("viewBox", `0 0 ${wide} ${tall}`);
    svg.setAttribute("width", wide);
    svg.setAttribute("height", tall);
    if (!svg.isConnected) box.append(svg);
    const empty = columns.every((c) => c.length === 0);
    svg.style.display = empty ? "none" : "";
    const more = picture.beyond.map((n, i) => (n ? `${n} more ${["publishers", "groups", "subscribers"][i]}` : "")).filter(Boolean);
    note.textContent = empty ? "Nobody publishes or subscribes." : more.length ? "Not drawn, for they carry less: " + more.join(", ") + "." : "";
    for (const e of drawn.values()) e.used = false;

    const flow = new Map(); // packets a second, by node
    for (const l of links.values()) {
      flow.set("out" + l.from, (flow.get("out" + l.from) || 0) + l.rate);
      flow.set("in" + l.to, (flow.get("in" + l.to) || 0) + l.rate);
    }
    const at = new Map();
    columns.forEach((column, c) => {
      const x = c * (across + gap), top = head + ((most - column.length) * row) / 2;
      one("head" + c, () => {
        const t = make("text", { class: "head" });
        t.textContent = ["publishers", "groups", "subscribers"][c];
        nodes.append(t);
        return t;
      });
      drawn.get("head" + c).setAttribute("x", x + 2);
      drawn.get("head" + c).setAttribute("y", 13);
      column.forEach((n, i) => {
        const y = top + i * row;
        at.set(n.key, { x, y: y + 20 });
        const g = one(n.key, () => {
          const g = make("g");
          g.append(make("rect", { height: 40, rx: 8 }), make("text", { x: 10, y: 17 }), make("text", { class: "note", x: 10, y: 32 }), make("title"));
          nodes.append(g);
          return g;
        });
        const rate = flow.get((c === 2 ? "in" : "out") + n.key) || 0;
        const what = [n.state, rate > 0 ? short(rate) + " packets/s" : "idle"].filter(Boolean).join(", ");
        g.setAttribute("transform", `translate(${x} ${y})`);
        g.setAttribute("class", (c === 1 ? "group " : "") + ({ released: "bad", holds: "warn" }[n.state] || ""));
        g.children[0].setAttribute("width", across);
        g.children[1].textContent = cut(n.name, across - 18, 7.2);
        g.children[2].textContent = cut(across < 150 ? what.replace(" packets", "") : what, across - 18, 6);
        g.children[3].textContent = [n.name, n.note, what].filter(Boolean).join("\n");
      });
    });
    for (const [key, l] of links) {
      const a = at.get(l.from), b = at.get(l.to);
      if (!a || !b) continue;
      const p = one("link" + key, () => {
        const p = make("path");
        p.append(make("title"));
        lines.append(p);
        return p;
      });
      const x = a.x + across, bend = gap * 0.55;
      p.setAttribute("d", `M${x} ${a.y}C${x + bend} ${a.y} ${b.x - bend} ${b.y} ${b.x} ${b.y}`);
      p.setAttribute("stroke-width", l.rate > 0 ? Math.min(7, 1.5 + Math.log10(1 + l.rate)) : 1.5);
      p.setAttribute("class", l.look);
      p.firstChild.textContent = [`${short(l.rate)} packets/s`, l.state, l.missing ? `${l.missing} were missing` : "", l.lost ? `${l.lost} lost permanently` : "", l.gone ? `${l.gone} messages lost permanently` : ""].filter(Boolean).join("\n");
    }
    for (const [key, e] of drawn) {
      if (e.used) continue;
      e.remove();
      drawn.delete(key);
    }
  };
})();
