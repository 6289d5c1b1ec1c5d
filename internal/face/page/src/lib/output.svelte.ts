import { api, data, Problem } from './api'

/**
 * Line is a line of output or a part of it. If `continued` is set, the next Line continues it in the next page or part.
 */
export interface Line {
  key: number
  text: string
  continued: boolean
}

interface Page {
  from: number
  to: number // bytes
  lines: Line[]
}

const pageSize = 64 << 10
const longest = 8 << 10 // characters of one line; longer ones are shown in parts
const mostPages = 64 // pages that are kept: 4 MiB

/**
 * Output is a window on the output of a task. The output may have a million lines and still grow. Pages are read when
 * the user scrolls near them, and distant pages are dropped.
 */
export class Output {
  lines = $state.raw<Line[]>([])
  size = $state(0)
  gap = $state<{ offset: number; size: number } | undefined>()
  problem = $state('')
  loading = $state(false)
  /** from and to are the offsets, in bytes, at which the window begins and ends. */
  from = $state(0)
  to = $state(0)

  private pages: Page[] = []
  private nextKey = 0
  private firstKey = 0
  private busy: Promise<void> | undefined
  private again = false

  constructor(
    readonly task: string,
    private readonly live: () => boolean,
  ) {}

  /** openEnd moves the window to the end of the output. */
  async openEnd() {
    await this.replace({ tail: pageSize, limit: pageSize })
  }

  /** openAt moves the window to the page at the offset, in bytes. */
  async openAt(offset: number) {
    await this.replace({ offset: Math.max(0, Math.floor(offset)), limit: pageSize })
  }

  private async replace(query: { offset?: number; tail?: number; limit: number }) {
    await this.busy
    await this.alone(async () => {
      const page = await this.read(query)
      this.pages = page ? [page] : []
      this.publish()
    })
  }

  /** older reads the page before the window. It reports whether there was one. */
  async older(): Promise<boolean> {
    const first = this.pages[0]
    if (!first || first.from <= 0 || this.busy) return false
    await this.alone(async () => {
      const offset = Math.max(0, first.from - pageSize)
      const page = await this.read({ offset, limit: first.from - offset }, true)
      if (!page || page.from >= first.from) return
      this.pages = [page, ...this.pages].slice(0, mostPages)
      this.publish()
    })
    return true
  }

  /** newer reads the page after the window. If it is called while it reads, it reads once more. */
  async newer(): Promise<void> {
    if (this.busy) {
      this.again = true
      return
    }
    do {
      this.again = false
      await this.alone(async () => {
        const page = await this.read({ offset: this.to, limit: pageSize })
        if (!page || page.to <= this.to) return
        this.append(page)
        this.publish()
        this.again ||= page.to < this.size && this.lines.length < 4 * pageSize
      })
    } while (this.again && !this.problem)
  }

  get atEnd(): boolean {
    return this.to >= this.size
  }

  /** append adds a page, and joins a line that began in the page before. */
  private append(page: Page) {
    const last = this.pages.at(-1)
    const open = last?.lines.at(-1)
    const next = page.lines[0]
    if (open?.continued && next && open.text.length + next.text.length <= longest) {
      last!.lines[last!.lines.length - 1] = { ...next, key: open.key, text: open.text + next.text }
      page.lines.shift()
    }
    this.pages = [...this.pages, page].slice(-mostPages)
  }

  private async alone(work: () => Promise<void>) {
    this.loading = true
    this.busy = work()
      .then(() => void (this.problem = ''))
      .catch((e: unknown) => void (this.problem = e instanceof Error ? e.message : String(e)))
    await this.busy
    this.busy = undefined
    this.loading = false
  }

  private async read(
    query: { offset?: number; tail?: number; limit: number },
    before = false,
  ): Promise<Page | undefined> {
    const path = { task_id: this.task }
    const a = await data(api.GET('/v1/tasks/{task_id}/output', { params: { path, query } })).catch((e: unknown) => {
      if (this.live() && e instanceof Problem && e.status === 404) return undefined // the run has not begun
      throw e
    })
    if (!a) return undefined
    this.size = a.size
    this.gap = a.gap_size ? { offset: a.gap_offset ?? 0, size: a.gap_size } : undefined
    const raw = a.output_encoding === 'base64' ? fromBase64(a.output) : undefined
    const text = raw ? new TextDecoder().decode(raw) : a.output
    const length = raw ? raw.length : new TextEncoder().encode(text).length
    if (length === 0) return undefined
    return { from: a.offset, to: a.offset + length, lines: this.split(text, before) }
  }

  private split(text: string, before: boolean): Line[] {
    const parts: { text: string; continued: boolean }[] = []
    const lines = text.split('\n')
    const rest = lines.pop() ?? ''
    for (const line of lines) cut(line, false, parts)
    if (rest) cut(rest, true, parts)
    if (before) this.firstKey -= parts.length
    const first = before ? this.firstKey : this.nextKey
    if (!before) this.nextKey += parts.length
    return parts.map((p, i) => ({ key: first + i, ...p }))
  }

  private publish() {
    this.lines = this.pages.flatMap((p) => p.lines)
    this.from = this.pages[0]?.from ?? 0
    this.to = this.pages.at(-1)?.to ?? 0
  }
}

function cut(line: string, open: boolean, into: { text: string; continued: boolean }[]) {
  let i = 0
  for (; line.length - i > longest; i += longest) into.push({ text: line.slice(i, i + longest), continued: true })
  into.push({ text: line.slice(i), continued: open })
}

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0))
}

export interface Match {
  /** offset is where the line begins, in bytes. In a very long line, it is a little before the match. */
  offset: number
  text: string
}

// A page of a search can end within a line. The line is then searched with the next page, unless it is longer than
// this.
const longestCarry = 64 << 10
const before = 200 // characters that are shown before a match in a long line

/** search reads the whole output and reports the lines that contain the text in upper or lower case, at most `most`. */
export async function search(
  task: string,
  wanted: string,
  signal: AbortSignal,
  progress: (read: number, size: number, matches: Match[]) => void,
  most = 500,
): Promise<void> {
  const pattern = new RegExp(wanted.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'gi')
  const matches: Match[] = []
  const limit = 1 << 20
  let carry = ''
  for (let offset = 0, size = Infinity; offset < size && matches.length < most && !signal.aborted;) {
    const a = await data(
      api.GET('/v1/tasks/{task_id}/output', { params: { path: { task_id: task }, query: { offset, limit } }, signal }),
    )
    const output = a.output_encoding === 'base64' ? new TextDecoder().decode(fromBase64(a.output)) : a.output
    const gap = a.offset > offset // output is missing between the pages
    const text = gap ? output : carry + output
    const start = a.offset - (gap ? 0 : utf8Length(carry))
    size = a.size
    const last = a.next_offset === undefined || a.next_offset <= offset
    let end = last ? text.length : text.lastIndexOf('\n') + 1
    const long = text.length - end > longestCarry
    if (long) end = text.length
    find(pattern, text.slice(0, end), start, matches, most)
    carry = long ? text.slice(Math.max(0, end - wanted.length + 1)) : text.slice(end)
    offset = last ? size : a.next_offset!
    progress(Math.min(offset, size), size, matches)
  }
}

/** find adds the first match in each line of the text. start is the offset of the text, in bytes. */
function find(pattern: RegExp, text: string, start: number, matches: Match[], most: number) {
  let counted = 0 // characters before at
  let at = start
  pattern.lastIndex = 0
  for (let found; matches.length < most && (found = pattern.exec(text));) {
    const line = text.lastIndexOf('\n', found.index - 1) + 1
    const from = Math.max(line, found.index - before)
    at += utf8Length(text.slice(counted, from))
    counted = from
    const end = text.indexOf('\n', found.index)
    matches.push({ offset: at, text: text.slice(from, Math.min(end < 0 ? text.length : end, from + 2 * before)) })
    if (end < 0) return
    pattern.lastIndex = end
  }
}

function utf8Length(text: string): number {
  let n = text.length
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (c < 0x80) continue
    n += c < 0x800 ? 1 : c >= 0xd800 && c < 0xe000 ? 1 : 2
  }
  return n
}
