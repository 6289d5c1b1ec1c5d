/** age says how long ago a moment was. */
export function age(time: string | null | undefined, now: number): string {
  if (!time) return ''
  return duration(now - Date.parse(time))
}

/** span writes milliseconds in one or two units. */
export function span(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`
  const s = Math.floor(ms / 1000)
  if (s < 60) return `${s} s`
  const m = Math.floor(s / 60)
  if (m < 60) return `${m} min ${s % 60} s`
  const h = Math.floor(m / 60)
  if (h < 48) return `${h} h ${m % 60} min`
  return `${Math.floor(h / 24)} days`
}

/** moment writes a time in the reader's own zone. */
export function moment(time: string | null | undefined): string {
  return time ? new Date(time).toLocaleString() : ''
}

/** duration writes a time that is known in whole seconds. */
export function duration(ms: number): string {
  return ms < 1000 ? 'less than 1\u00a0s' : span(ms)
}

export function bytes(n: number): string {
  if (n < 1024) return `${n} bytes`
  for (const unit of ['KiB', 'MiB', 'GiB']) {
    n /= 1024
    if (n < 1024) return `${n < 10 ? n.toFixed(1) : Math.round(n)} ${unit}`
  }
  return `${Math.round(n / 1024)} TiB`
}

export function dollars(n: number | null | undefined): string {
  if (!n) return ''
  return n < 0.01 ? '< $0.01' : `$${n.toFixed(2)}`
}

export function count(n: number, one: string, many = one + 's'): string {
  return `${n.toLocaleString()} ${n === 1 ? one : many}`
}

/** atLeast does the same as count, with a plus sign if there are more. */
export function atLeast(n: number, more: boolean | undefined, one: string): string {
  return more ? `${n.toLocaleString()}+ ${one}s` : count(n, one)
}

// Characters that would hide or reorder text: controls, and the marks of bidirectional and invisible text.
// eslint-disable-next-line no-control-regex
const deceptive = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g

/** plain makes characters visible that could deceive a reader. Every text of an agent passes through it. */
export function plain(text: string | null | undefined): string {
  return (text ?? '').replace(deceptive, (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'))
}

// The colours of terminals.
// eslint-disable-next-line no-control-regex
const colours = /\u001b\[[\d;]*m/g

/** firstLine returns the first line of a text without the # of a heading and without colours, shortened to `most` characters. */
export function firstLine(text: string | null | undefined, most = 200): string {
  const first = (text ?? '').trimStart().split('\n', 1)[0] ?? ''
  const line = first.replace(/^#+ +/, '').replace(colours, '')
  return plain(line.length > most ? line.slice(0, most) + '…' : line)
}
