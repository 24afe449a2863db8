// A table of which only the rows in sight are made.

import { el } from "./dom";

const ROW = 32;
const BEYOND = 6;

export interface Column<T> {
  name: string;
  text(row: T): string;
  class?: string;
  /** Pressing the cell does this. */
  press?: (row: T) => void;
  /** What a screen reader says of the pressed cell. */
  label?: (row: T) => string;
  /** The class of a cell by its row. */
  mark?: (row: T) => string;
}

export class List<T> {
  private rows: T[] = [];
  private readonly body = el("div", { role: "rowgroup", class: "rows" });
  private readonly view: HTMLElement;
  private drawn = "";

  constructor(
    private readonly root: HTMLElement,
    private readonly columns: Column<T>[],
    label: string,
    private readonly none: string,
  ) {
    const head = el("div", { role: "row", class: "row head", "aria-rowindex": "1" });
    for (const column of columns) {
      head.append(el("div", { role: "columnheader", class: `cell ${column.class ?? ""}` }, column.name));
    }
    this.view = el("div", { class: "view", role: "table", tabindex: "0", "aria-label": label },
      el("div", { role: "rowgroup", class: "heads" }, head), this.body);
    this.view.addEventListener("scroll", () => this.draw(false), { passive: true });
    new ResizeObserver(() => this.draw(false)).observe(this.view);
    root.replaceChildren(this.view);
  }

  show(rows: T[]): void {
    this.rows = rows;
    this.root.classList.toggle("empty", rows.length === 0);
    this.view.setAttribute("aria-rowcount", String(rows.length + 1));
    this.draw(true);
  }

  /** How many rows are in the document. */
  get made(): number {
    return this.body.childElementCount;
  }

  private draw(fresh: boolean): void {
    if (this.rows.length === 0) {
      this.body.style.height = "";
      const cell = el("div", { role: "cell", class: "cell none" }, this.none);
      this.body.replaceChildren(el("div", { role: "row", class: "row" }, cell));
      this.drawn = "";
      return;
    }
    this.body.style.height = `${this.rows.length * ROW}px`;
    const from = Math.max(0, Math.floor(this.view.scrollTop / ROW) - BEYOND);
    const to = Math.min(this.rows.length, from + Math.ceil((this.view.clientHeight || 400) / ROW) + 2 * BEYOND);
    const drawn = `${from}-${to}`;
    if (!fresh && drawn === this.drawn) return;
    this.drawn = drawn;
    const focused = document.activeElement?.getAttribute("data-cell") ?? null;
    const made: HTMLElement[] = [];
    for (let index = from; index < to; index++) made.push(this.row(index));
    this.body.replaceChildren(...made);
    if (focused !== null) {
      this.body.querySelector<HTMLElement>(`[data-cell="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    }
  }

  private row(index: number): HTMLElement {
    const row = this.rows[index] as T;
    const made = el("div", { role: "row", class: "row", "aria-rowindex": String(index + 2) });
    made.style.top = `${index * ROW}px`;
    this.columns.forEach((column, number) => {
      const text = column.text(row);
      const cell = el("div", { role: "cell", class: `cell ${column.class ?? ""} ${column.mark?.(row) ?? ""}` });
      const press = column.press;
      if (press === undefined) {
        cell.textContent = text;
        if (text.length > 24) cell.title = text;
      } else {
        const label = column.label?.(row) ?? text;
        const button = el("button", { type: "button", "aria-label": label, "data-cell": `${this.root.id}/${label}/${number}` }, text);
        button.addEventListener("click", () => press(row));
        cell.append(button);
      }
      made.append(cell);
    });
    return made;
  }
}
