// Numbers for people.

function scaled(value: number, units: [number, string][], least: string): string {
  for (const [scale, unit] of units) {
    if (value >= scale) {
      const number = value / scale;
      return `${number.toFixed(number < 10 ? 2 : number < 100 ? 1 : 0)} ${unit}`;
    }
  }
  return `${Math.round(value)} ${least}`;
}

export function rate(bps: number | null): string {
  if (bps === null) return "–";
  return scaled(bps, [[1e12, "Tbit/s"], [1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"]], "bit/s");
}

export function size(octets: number | null): string {
  if (octets === null) return "–";
  return scaled(octets, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]], "B");
}

export function seconds(time: number): string {
  if (time >= 3600) {
    const whole = Math.floor(time);
    const two = (n: number) => String(n).padStart(2, "0");
    return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)} h`;
  }
  if (time >= 100) return `${time.toFixed(0)} s`;
  if (time >= 1 || time === 0) return `${time.toFixed(time < 10 ? 2 : 1)} s`;
  return time >= 1e-3 ? `${(time * 1e3).toFixed(1)} ms` : `${(time * 1e6).toFixed(0)} µs`;
}

export function share(part: number | null, whole: number): string {
  return part !== null && whole > 0 ? `${Math.round((100 * part) / whole)} %` : "–";
}

export const count = (number: number): string => number.toLocaleString("en").replaceAll(",", "\u202f");
