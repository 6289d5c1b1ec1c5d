import { api, data, type Step } from './api'
import { stream } from './stream.svelte'

/** Entry is one line of a transcript: a text, a thought, a tool call with all that belongs to it, or something else. */
export interface Entry {
  key: string
  /** step is the first step of the entry. Of a tool call whose beginning has not been read yet, it is a later one. */
  step: Step
  kind: 'text' | 'thinking' | 'call' | 'todo' | 'note'
  text: string
  result?: Step
  denied?: Step
  edits: Step[]
  todo?: Step
  /** children are the steps of the subagent that the call has started. */
  children: Entry[]
  open: boolean
}

/** Row is an entry as it is shown. When the entry changes, both the row and its copy of the entry are replaced. */
export interface Row {
  key: string
  entry: Readonly<Entry>
  depth: number
  source: Entry
}

const firstPage = 300 // steps that are read to open the view at its end
const page = 1000
const longestText = 16 << 10 // characters that are joined to one entry
const longestDetail = 2000 // characters of a detail that are kept of a folded step
const most = 20_000 // steps that are kept
const pace = 50 // milliseconds between two reads of new steps

// These events report steps, or may be followed by some.
const stepEvents = ['output', 'step', 'detail', 'message', 'question', 'answer', 'check', 'ended'].map(
  (name) => 'task_' + name,
)

/**
 * Transcript is the conversation of a task. It is read from its end, and then in both directions: earlier steps when the
 * user scrolls to them, and new steps when the stream reports some.
 */
export class Transcript {
  rows = $state.raw<Row[]>([])
  loaded = $state(false)
  problem = $state('')
  /** previous says where the steps before the first row are; it is undefined if there are none. */
  previous = $state<string>()
  /** todo is the newest list of things to do. */
  todo = $state.raw<Step['todo_list']>()
  /** context is the size of the conversation in tokens, and model is the model of the newest request. */
  context = $state(0)
  model = $state('')
  /** raw is set if only texts were reported: they are the output of a program, and not written in Markdown. */
  raw = $state(true)

  private steps: Step[] = []
  private roots: Entry[] = []
  private calls = new Map<string, Entry>()
  private shown = new WeakMap<Entry, Row>()
  private ended = new WeakSet<Entry[]>() // lists whose last text is not continued by the next one
  private last = '' // cursor
  private busy: Promise<void> | undefined
  private reading = false // newer is reading
  private again = false

  constructor(readonly task: string) {}

  /** follow reads the newest steps, and then each new one, until the returned function is called. changed is called after each change. */
  follow(changed: () => void): () => void {
    const unwatch = stream.watchOutput(this.task)
    const ignore = stream.listen((events) => {
      if (events.some((e) => e.task_id === this.task && stepEvents.includes(e.type))) void this.newer().then(changed)
    })
    void (this.loaded ? this.newer() : this.alone(() => this.readEnd())).then(changed)
    return () => {
      unwatch()
      ignore()
    }
  }

  /** older reads the steps before the first row. */
  async older(): Promise<void> {
    while (this.busy) await this.busy
    await this.alone(async () => {
      const before = this.previous
      if (!before) return
      const part = await this.read({ before, limit: page })
      this.steps = [...part.steps.map(shorten), ...this.steps]
      this.previous = part.previous_cursor
      this.rebuild()
    })
  }

  /** newer reads the steps after the last row. If it is called while it reads, it reads once more. */
  async newer(): Promise<void> {
    this.again = true
    if (this.reading) return
    this.reading = true
    while (this.again) {
      while (this.busy) await this.busy
      this.again = false
      await this.alone(async () => {
        const part = await this.read(this.last ? { cursor: this.last, limit: page } : { limit: page })
        this.again ||= part.next_cursor !== undefined
        if (part.steps.length > 0) this.append(part.steps)
      })
      if (this.again) await new Promise((done) => setTimeout(done, pace))
    }
    this.reading = false
  }

  /** toggle unfolds or folds the entry. What was left out of its steps is read first. */
  async toggle(row: Row) {
    await this.open(row.source, !row.source.open)
  }

  private async open(entry: Entry, open: boolean) {
    entry.open = open
    this.touch(entry)
    this.show()
    const steps = [entry.step, ...(entry.result ? [entry.result] : []), ...entry.edits]
    if (!open || !steps.some((s) => shortened.has(s))) return
    const whole = async (step: Step) => (shortened.has(step) ? await this.readWhole(step) : step)
    entry.step = await whole(entry.step)
    if (entry.result) entry.result = await whole(entry.result)
    if (entry.kind === 'thinking') entry.text = entry.step.thinking?.text ?? ''
    entry.edits = await Promise.all(entry.edits.map(whole))
    this.touch(entry)
    this.show()
  }

  private async readWhole(step: Step): Promise<Step> {
    const before = String(Number(step.cursor) - 1)
    try {
      return (await this.read({ cursor: before, limit: 1 })).steps[0] ?? step
    } catch (e) {
      this.problem = e instanceof Error ? e.message : String(e)
      return step
    }
  }

  private async readEnd() {
    const part = await this.read({ before: 'end', limit: firstPage })
    this.previous = part.previous_cursor
    this.append(part.steps)
    this.loaded = true
  }

  private read(query: { cursor?: string; before?: string; limit: number }) {
    return data(api.GET('/v1/tasks/{task_id}/steps', { params: { path: { task_id: this.task }, query } }))
  }

  private async alone(work: () => Promise<void>) {
    this.busy = work()
      .then(() => void (this.problem = ''))
      .catch((e: unknown) => void (this.problem = e instanceof Error ? e.message : String(e)))
    await this.busy
    this.busy = undefined
  }

  private append(steps: Step[]) {
    this.last = steps.at(-1)?.cursor ?? this.last
    const kept = steps.map(shorten)
    this.steps.push(...kept)
    if (this.steps.length > most) {
      // What was dropped is read again when the user scrolls to it.
      const from = this.steps.findIndex((s, i) => i >= most / 4 && s.kind !== 'text')
      this.steps = this.steps.slice(from < 0 ? most / 4 : from)
      this.previous = this.steps[0]?.cursor
      this.rebuild()
    } else {
      for (const step of kept) this.add(step)
      this.show()
    }
  }

  private rebuild() {
    const open = new Set<string>()
    for (const { entry } of this.rows) if (entry.open) open.add(entry.key)
    this.roots = []
    this.calls.clear()
    for (const step of this.steps) this.add(step)
    const reopen = (entries: Entry[]) => {
      for (const e of entries) {
        if (open.has(e.key)) void this.open(e, true)
        reopen(e.children)
      }
    }
    reopen(this.roots)
    this.show()
  }

  /** add adds the step to the entry that it belongs to, or as a new one. */
  private add(step: Step) {
    const parent = step.parent_id ? this.calls.get(step.parent_id) : undefined
    const list = parent?.children ?? this.roots
    if (parent) this.touch(parent) // it shows how many steps there are
    const last = list.at(-1)
    const push = (kind: Entry['kind'], text = step.summary): Entry => {
      const entry = { key: step.cursor, step, kind, text, edits: [], children: [], open: false }
      list.push(entry)
      this.ended.delete(list)
      return entry
    }
    /** call returns the entry of the tool call, which may have begun before the steps that were read. */
    const call = (id: string): Entry => {
      let entry = this.calls.get(id)
      if (!entry) this.calls.set(id, (entry = push('call')))
      this.touch(entry)
      return entry
    }
    if (!['text', 'question', 'message', 'note'].includes(step.kind)) this.raw = false
    switch (step.kind) {
      case 'window':
        break
      case 'usage':
        this.ended.add(list)
        if (parent || !step.usage) break
        this.context =
          step.usage.input_tokens +
          step.usage.cache_read_tokens +
          step.usage.cache_write_tokens +
          step.usage.output_tokens
        this.model = step.usage.model || this.model
        break
      case 'text':
        if (
          last?.kind === 'text' &&
          !this.ended.has(list) &&
          last.step.agent === step.agent &&
          last.text.length + step.summary.length <= longestText
        ) {
          last.text += step.summary
          this.touch(last)
        } else push('text')
        break
      case 'thinking':
        push('thinking', step.thinking?.text ?? step.summary)
        break
      case 'tool_call':
        call(step.tool_call?.id ?? step.cursor).step = step
        break
      case 'tool_result':
        call(step.tool_result?.id ?? step.cursor).result = step
        break
      case 'file_edit': {
        const entry = call(step.file_edit?.id ?? step.cursor)
        entry.edits = [...entry.edits, step]
        break
      }
      case 'denied':
        call(step.denied?.id ?? step.cursor).denied = step
        break
      case 'todo_list':
        if (!parent) this.todo = step.todo_list
        // The call that wrote the list says nothing else.
        if (last?.kind === 'call' && /todo|plan/i.test(last.step.tool_call?.name ?? '')) {
          last.todo = step
          this.touch(last)
        } else push('todo').todo = step
        break
      case 'compaction':
        this.context = step.compaction?.tokens_after ?? this.context
        push('note')
        break
      default:
        push('note')
    }
  }

  private touch(entry: Entry) {
    this.shown.delete(entry)
  }

  private show() {
    const rows: Row[] = []
    const add = (entries: Entry[], depth: number) => {
      for (const entry of entries) {
        let row = this.shown.get(entry)
        if (!row || row.depth !== depth) {
          row = { key: entry.key, entry: { ...entry }, depth, source: entry }
          this.shown.set(entry, row)
        }
        rows.push(row)
        if (entry.open) add(entry.children, depth + 1)
      }
    }
    add(this.roots, 0)
    this.rows = rows
  }
}

const shortened = new WeakSet<Step>()

/** shorten leaves out the long texts of a step, so that thousands of steps fit into memory. */
function shorten(step: Step): Step {
  if (step.kind === 'text') return step
  const summary = cut(step.summary, 300)
  const { tool_call: call, tool_result: result, file_edit: edit, thinking } = step
  const short: Step = { ...step, summary }
  if (call && JSON.stringify(call.arguments ?? null).length > longestDetail)
    short.tool_call = { ...call, arguments: outline(call.arguments) }
  if (result && result.result.length > longestDetail) short.tool_result = { ...result, result: '' }
  if (edit?.patch && edit.patch.length > longestDetail) short.file_edit = { ...edit, patch: undefined }
  if (thinking && thinking.text.length > longestDetail) short.thinking = { text: cut(thinking.text, 300) }
  if (
    short.tool_call !== call ||
    short.tool_result !== result ||
    short.file_edit !== edit ||
    short.thinking !== thinking
  )
    shortened.add(short)
  return short
}

/** cut returns a copy that does not keep the whole text in memory. */
const cut = (text: string, length: number) =>
  text.length > length ? JSON.parse(JSON.stringify(text.slice(0, length))) + '…' : text

/** outline keeps the short arguments, which say what the call is about. */
function outline(args: unknown): unknown {
  if (typeof args !== 'object' || args === null || Array.isArray(args)) return cut(JSON.stringify(args), 300)
  return Object.fromEntries(
    Object.entries(args).map(([name, value]) => [name, typeof value === 'string' ? cut(value, 300) : null]),
  )
}
