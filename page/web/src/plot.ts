// The load of the network by time. What it shows is also in the text beside the slider.

import uPlot from "uplot";

import { rate, seconds } from "./format";
import type { Happening, Series } from "./model";

const HEIGHT = 168;

export class Plot {
  private plot: uPlot | null = null;
  private now = 0;
  private marks: Happening[] = [];
  private last: Series = { times: [], got: [], given: [] };

  constructor(private readonly root: HTMLElement, private readonly pick: (time: number) => void) {
    new ResizeObserver(() => {
      const width = root.clientWidth;
      if (width > 0 && this.plot !== null && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
    }).observe(root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.again());
  }

  show(series: Series, marks: Happening[], now: number): void {
    this.now = now;
    this.marks = marks;
    this.last = series;
    const data = [series.times, series.got, series.given] as uPlot.AlignedData;
    if (this.plot === null) this.make(data);
    else this.plot.setData(data);
  }

  move(now: number): void {
    this.now = now;
    this.plot?.redraw(false, false);
  }

  private again(): void {
    this.plot?.destroy();
    this.plot = null;
    this.show(this.last, this.marks, this.now);
  }

  private make(data: uPlot.AlignedData): void {
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--rule"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    this.plot = new uPlot({
      width: Math.max(200, this.root.clientWidth),
      height: HEIGHT,
      padding: [8, 12, 0, 0],
      cursor: { y: false, drag: { x: false, y: false } },
      legend: { show: false },
      scales: { x: { time: false }, y: { range: (_plot, _least, most) => [0, Math.max(1, most * 1.1)] } },
      axes: [
        { ...axis, values: (_plot, all) => all.map((time) => seconds(time)), space: 80, size: 34 },
        { ...axis, values: (_plot, all) => all.map((value) => (value === 0 ? "0" : rate(value))), size: 84, space: 36 },
      ],
      series: [
        {},
        { label: "got", stroke: colour("--c1"), width: 2, fill: colour("--tint"), points: { show: false } },
        { label: "given", stroke: colour("--c2"), width: 1.5, dash: [6, 4], points: { show: false } },
      ],
      hooks: {
        draw: [(plot) => this.over(plot, colour)],
        ready: [(plot) => plot.over.addEventListener("click", (event) => this.pick(plot.posToVal(event.offsetX, "x")))],
      },
    }, data, this.root);
  }

  private over(plot: uPlot, colour: (name: string) => string): void {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const ratio = devicePixelRatio;
    ctx.fillStyle = colour("--bad");
    for (const mark of this.marks) {
      if (mark.kind !== "congestion" && mark.kind !== "trouble") continue;
      const x = plot.valToPos(mark.at, "x", true);
      ctx.fillRect(x - ratio, bbox.top, 2 * ratio, 7 * ratio);
    }
    ctx.strokeStyle = colour("--ink");
    ctx.lineWidth = 1.5 * ratio;
    const x = plot.valToPos(this.now, "x", true);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }
}
