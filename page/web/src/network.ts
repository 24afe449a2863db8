// The network, drawn in layers: hosts below, each row of switches above what it serves. Width and colour of a
// link both tell its load. Every link is also a row of the table beside it.

import { svg } from "./dom";
import { rate, share } from "./format";
import type { Link, View } from "./model";

/** Up to so many hosts each has a name and cables of its own; beyond, a cell below its switch. */
const NAMED = 40;
const ROW = 104;
const CELL = 11;
const ACROSS = 8;

interface Place {
  x: number;
  y: number;
}

export interface Layout {
  width: number;
  height: number;
  at: Map<string, Place>;
  hosts: string[];
  switches: string[];
  /** Hosts are cells. */
  dense: boolean;
}

/** Places nodes; depends on the network alone, not on its load. */
export function layout(links: Link[], switches: Set<string>): Layout {
  const next = new Map<string, Set<string>>();
  const add = (from: string, to: string) => {
    const found = next.get(from);
    if (found === undefined) next.set(from, new Set([to]));
    else found.add(to);
  };
  for (const node of switches) next.set(node, new Set());
  for (const link of links) {
    add(link.from, link.to);
    add(link.to, link.from);
  }
  const by = (a: string, b: string) => a.localeCompare(b, "en", { numeric: true });
  const hosts = [...next.keys()].filter((node) => !switches.has(node)).sort(by);
  // How far a switch is from the nearest host is its layer.
  const layer = new Map<string, number>(hosts.map((host) => [host, 0]));
  let edge = hosts;
  for (let depth = 1; edge.length > 0; depth++) {
    const further: string[] = [];
    for (const node of edge) {
      for (const other of next.get(node) ?? []) {
        if (layer.has(other) || !switches.has(other)) continue;
        layer.set(other, depth);
        further.push(other);
      }
    }
    edge = further;
  }
  const top = Math.max(1, ...layer.values());
  const rows: string[][] = Array.from({ length: top + 1 }, () => []);
  for (const node of [...switches].sort(by)) (rows[layer.get(node) ?? top] as string[]).push(node);
  const dense = hosts.length > NAMED;
  const below = new Map<string, string[]>();
  const loose: string[] = [];
  for (const host of hosts) {
    const above = [...(next.get(host) ?? [])].find((node) => switches.has(node));
    if (above === undefined) loose.push(host);
    else below.set(above, [...(below.get(above) ?? []), host]);
  }
  // A switch without hosts has its room too: the row above is spread over the whole width.
  const wide = (node: string) => {
    const own = below.get(node)?.length ?? 0;
    return dense ? Math.max(56, Math.min(own, ACROSS) * CELL + 20) : Math.max(72, own * 62);
  };
  const leaves = rows[1] as string[];
  const spread = Math.max(...rows.slice(2).map((row) => row.length * 84), 0);
  const width = Math.max(640, spread, leaves.reduce((sum, node) => sum + wide(node), 0) + loose.length * 62 + 40);
  const deepest = dense ? Math.ceil(Math.max(1, ...[...below.values()].map((own) => own.length)) / ACROSS) * CELL : 30;
  const at = new Map<string, Place>();
  const y = (number: number) => 40 + (top - number) * ROW;
  const used = leaves.reduce((sum, node) => sum + wide(node), 0) + loose.length * 62;
  let x = (width - used) / 2;
  for (const node of leaves) {
    const room = wide(node);
    at.set(node, { x: x + room / 2, y: y(1) });
    const own = below.get(node) ?? [];
    own.forEach((host, number) => {
      if (dense) {
        const columns = Math.min(own.length, ACROSS);
        const left = x + room / 2 - (columns * CELL) / 2;
        at.set(host, { x: left + (number % ACROSS) * CELL + CELL / 2, y: y(0) - 44 + Math.floor(number / ACROSS) * CELL });
      } else {
        at.set(host, { x: x + (room * (number + 0.5)) / own.length, y: y(0) });
      }
    });
    x += room;
  }
  for (const host of loose) {
    at.set(host, { x: x + 31, y: y(0) });
    x += 62;
  }
  for (let number = 2; number <= top; number++) {
    const row = rows[number] as string[];
    row.forEach((node, place) => at.set(node, { x: (width * (place + 0.5)) / row.length, y: y(number) }));
  }
  // A host that serves on several layers may hang above them: what has no place stands at the left.
  for (const node of next.keys()) if (!at.has(node)) at.set(node, { x: 30, y: y(0) });
  return { width, height: y(0) + (dense ? deepest - 20 : 40), at, hosts, switches: rows.flat(), dense };
}

/** 0 idle, 1 below a half, 2 below nine tenths, 3 full, 4 down. */
export function load(link: Link): number {
  if (!link.up) return 4;
  const part = link.capacity > 0 ? (link.measured ?? 0) / link.capacity : 0;
  if (part >= 0.9) return 3;
  if (part >= 0.5) return 2;
  return part >= 0.005 ? 1 : 0;
}

export class Drawing {
  private shape = "";
  private lines: SVGElement[] = [];
  private loads: string[] = [];
  private cells = new Map<string, SVGElement>();

  constructor(private readonly root: HTMLElement, private readonly press: (link: Link) => void) {}

  show(view: View, switches: Set<string>): void {
    const shape = view.links.map((link) => `${link.from}\n${link.to}`).join("\n\n") + [...switches].join("\n");
    if (shape !== this.shape) {
      this.shape = shape;
      this.draw(view, switches);
    }
    const worst = new Map<string, number>();
    let busiest: Link | undefined;
    view.links.forEach((link, number) => {
      const now = load(link);
      const text = `${link.from} → ${link.to}: ${rate(link.measured)} of ${rate(link.capacity)} (${share(link.measured, link.capacity)}), ${link.flows} flows${link.up ? "" : ", down"}`;
      const line = this.lines[number];
      if (line !== undefined && this.loads[number] !== text) {
        this.loads[number] = text;
        line.setAttribute("class", `link l${now}`);
        (line.firstChild as Element).textContent = text;
      }
      for (const end of [link.from, link.to]) worst.set(end, Math.max(worst.get(end) ?? 0, now));
      if (busiest === undefined || (link.measured ?? 0) / link.capacity > (busiest.measured ?? 0) / busiest.capacity) busiest = link;
    });
    for (const [host, cell] of this.cells) cell.setAttribute("class", `host cell-${worst.get(host) ?? 0}`);
    const most = busiest === undefined || !busiest.measured ? "no link is seen to carry traffic" : `the busiest link is ${busiest.from} to ${busiest.to} at ${share(busiest.measured, busiest.capacity)}`;
    this.root.querySelector("svg")?.setAttribute("aria-label", `The network: ${this.cells.size} hosts, ${switches.size} switches, ${view.links.length} directed links; ${most}. The table of links has them all.`);
  }

  private draw(view: View, switches: Set<string>): void {
    const { width, height, at, hosts, switches: named, dense } = layout(view.links, switches);
    const made = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "network" });
    made.style.minWidth = `${Math.min(width, 4000) * (dense ? 0.8 : 0.5)}px`;
    made.style.maxWidth = `${width * 1.35}px`;
    const pairs = new Map<string, number>();
    this.loads = [];
    this.lines = view.links.map((link) => {
      const [from, to] = [at.get(link.from), at.get(link.to)] as [Place, Place];
      const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
      const pair = `${link.from}\n${link.to}`;
      const number = pairs.get(pair) ?? 0;
      pairs.set(pair, number + 1);
      // The two directions, and several cables, lie side by side.
      const off = 3.2 + 7 * number;
      const [dx, dy] = [(-(to.y - from.y) / length) * off, ((to.x - from.x) / length) * off];
      const line = svg("line", { x1: from.x + dx, y1: from.y + dy, x2: to.x + dx, y2: to.y + dy, class: "link l0" });
      line.append(svg("title"));
      line.addEventListener("click", () => this.press(link));
      const cell = dense && (!switches.has(link.from) || !switches.has(link.to));
      if (!cell) made.append(line);
      return line;
    });
    this.cells = new Map();
    for (const host of hosts) {
      const place = at.get(host) as Place;
      const size = dense ? CELL - 2 : 22;
      const cell = svg("rect", { x: place.x - (dense ? size : 52) / 2, y: place.y - size / 2, width: dense ? size : 52, height: size, rx: dense ? 1.5 : 5, class: "host cell-0" });
      cell.append(svg("title", {}, host));
      made.append(cell);
      if (!dense) made.append(svg("text", { x: place.x, y: place.y + 4, class: "name" }, cut(host, 8)));
      this.cells.set(host, cell);
    }
    for (const node of named) {
      const place = at.get(node) as Place;
      const box = svg("rect", { x: place.x - 27, y: place.y - 14, width: 54, height: 28, rx: 14, class: "switch" });
      box.append(svg("title", {}, node));
      made.append(box, svg("text", { x: place.x, y: place.y + 4, class: "name switch-name" }, cut(node, 8)));
    }
    this.root.replaceChildren(made);
  }
}

const cut = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
