import type { FleetEvent } from './api'

/** Ask is what a tab says to the hub. */
export type Ask =
  /** Send the events after the cursor, and the output of these tasks. The tab has read everything up to the cursor. */
  | { kind: 'follow'; cursor: string; tasks: string[] }
  /** Send the output of these tasks from now on, and of no others. */
  | { kind: 'tasks'; tasks: string[] }
  /** The events of a message were taken. */
  | { kind: 'taken' }
  /** Somebody signed in or out. */
  | { kind: 'session' }
  | { kind: 'leave' }

/** News is what the hub says to a tab. */
export type News =
  | { kind: 'events'; events: FleetEvent[] }
  /** The stream is open. Whatever is silent for longer than patience, in milliseconds, may wait on a dead connection. */
  | { kind: 'open'; patience: number }
  /** The stream is closed; what was heard until since is all that a tab has. */
  | { kind: 'lost'; since: number }
  /** The server wants another token, so that no stream is open until a tab asks again. */
  | { kind: 'refused' }
  /** The tab has missed events, and must read everything again. */
  | { kind: 'expired' }
  | { kind: 'session' }

/** Port is the hub's end of the connection to a tab. */
export interface Port {
  postMessage(news: News): void
}

interface Tab {
  following: boolean
  after: number // the cursor of the newest event that the tab has
  tasks: string[]
  untaken: number // messages with events that the tab has not taken yet
}

// The server says in a header how long it is silent at most. A stream that is silent for this many times longer is dead.
const missedBeats = 2.5
const usualPatience = 25_000 // milliseconds, until a server has said it
const opening = 5000 // milliseconds for the server to answer when the stream is opened; twice as many with each failure
const mostConnections = 6 // of a browser to a server
// A tab that the browser has frozen takes nothing. Beyond this many messages it gets no more, and reads everything again.
const mostUntaken = 500
const mostTasks = 100 // what output_of of watch_fleet takes

/**
 * Hub has the one event stream for all tabs of the browser, because HTTP/1.1 allows six connections to a server. It runs
 * in a worker that the tabs share, or in the tab where browsers have no such workers.
 *
 * A tab drops events that it has, so the hub may send some twice: it opens the stream again from an older cursor whenever
 * that is the simplest way to miss none.
 */
export class Hub {
  private tabs = new Map<Port, Tab>()
  private cursor = ''
  private shown: string[] = [] // the tasks whose output is in the stream
  private stream: AbortController | undefined
  private open = false
  private failures = 0
  private patience = usualPatience
  private timer: ReturnType<typeof setTimeout> | undefined

  constructor() {
    // Workers have these events, too.
    addEventListener('offline', () => {
      if (this.stream) this.fail(this.stream)
    })
    addEventListener('online', () => {
      if (!this.open && this.following().length > 0) this.connect()
    })
  }

  join(port: Port) {
    this.tabs.set(port, { following: false, after: 0, tasks: [], untaken: 0 })
  }

  take(port: Port, ask: Ask) {
    if (!this.tabs.has(port)) this.join(port) // a page that the browser kept is back
    const tab = this.tabs.get(port)!
    switch (ask.kind) {
      case 'follow':
        Object.assign(tab, { following: true, after: Number(ask.cursor), tasks: ask.tasks, untaken: 0 })
        if (this.cursor === '' || tab.after < Number(this.cursor)) this.cursor = ask.cursor
        this.failures = 0
        this.connect() // always: the cookie may be another one since the stream was opened
        break
      case 'tasks':
        tab.tasks = ask.tasks
        if (tab.following && ask.tasks.some((id) => !this.shown.includes(id))) this.connect()
        break
      case 'taken':
        tab.untaken--
        if (!tab.following && tab.after > 0 && tab.untaken === 0) port.postMessage({ kind: 'expired' })
        break
      case 'session':
        this.close()
        for (const [other, t] of this.tabs) {
          t.following = false
          t.after = 0
          if (other !== port) other.postMessage({ kind: 'session' })
        }
        break
      case 'leave':
        this.tabs.delete(port)
        if (this.following().length === 0) this.close()
    }
  }

  private following() {
    return [...this.tabs].filter(([, tab]) => tab.following)
  }

  private tell(news: News) {
    for (const [port] of this.following()) port.postMessage(news)
  }

  private close() {
    clearTimeout(this.timer)
    this.stream?.abort()
    this.stream = undefined
    this.open = false
    this.cursor = ''
  }

  /** connect opens the stream at the cursor, in place of the one that is open. */
  private connect() {
    clearTimeout(this.timer)
    this.stream?.abort()
    const mine = new AbortController()
    this.stream = mine
    void this.read(mine)
  }

  private async read(mine: AbortController) {
    this.shown = [...new Set(this.following().flatMap(([, tab]) => tab.tasks))].slice(0, mostTasks)
    const query = new URLSearchParams({ follow: 'true', quiet: 'true', cursor: this.cursor })
    for (const id of this.shown) query.append('output_of', id)
    let heard = Date.now()
    let watchdog: ReturnType<typeof setTimeout> | undefined
    const watch = (limit: number) => {
      clearTimeout(watchdog)
      watchdog = setTimeout(() => {
        this.fail(mine, heard)
        dropConnections()
      }, limit)
    }
    const hear = () => {
      heard = Date.now()
      watch(this.patience)
    }
    // A slow server gets more time with each try, and one that cannot be reached does not hold up the next try for long.
    watch(Math.min(opening * 2 ** this.failures, usualPatience))
    try {
      const response = await fetch('/v1/events?' + query, {
        headers: { Accept: 'text/event-stream' },
        cache: 'no-store', // otherwise the browser holds it while another request for the same address ends
        signal: mine.signal,
      })
      if (mine.signal.aborted) return
      if (response.ok && response.body) {
        this.open = true
        this.failures = 0
        this.patience = patienceOf(response)
        hear()
        this.tell({ kind: 'open', patience: this.patience })
        for await (const events of batches(response.body, hear)) {
          if (mine.signal.aborted) return
          this.pass(events)
        }
      } else if (response.status === 401) {
        this.end('refused')
        return
      } else if (response.status === 400) {
        this.end('expired') // the cursor is older than the log, or of another one
        return
      }
      this.fail(mine)
    } catch {
      this.fail(mine)
    } finally {
      clearTimeout(watchdog)
    }
  }

  /** end stops following: each tab asks again when it has done what the news want of it. */
  private end(kind: 'refused' | 'expired') {
    this.tell({ kind })
    for (const [, tab] of this.following()) {
      tab.following = false
      tab.after = 0
    }
    this.close()
  }

  /** fail opens the stream again after a pause, which grows. since is when the connection was last known to work. */
  private fail(mine: AbortController, since = Date.now()) {
    if (this.stream !== mine) return
    mine.abort()
    this.open = false
    this.tell({ kind: 'lost', since })
    clearTimeout(this.timer)
    this.timer = setTimeout(() => this.connect(), Math.min(500 * 2 ** this.failures++, 10_000))
  }

  private pass(events: FleetEvent[]) {
    const last = events.at(-1)
    if (!last) return
    this.cursor = last.cursor
    for (const [port, tab] of this.following()) {
      const news = events.filter((e) => Number(e.cursor) > tab.after)
      if (news.length === 0) continue
      if (tab.untaken >= mostUntaken) {
        tab.following = false // until it takes what it has
        continue
      }
      tab.after = Number(last.cursor)
      tab.untaken++
      port.postMessage({ kind: 'events', events: news })
    }
  }
}

/** patienceOf is how many milliseconds the stream may be silent. */
function patienceOf(response: Response): number {
  const beat = Number(response.headers.get('Fleet-Heartbeat'))
  return beat > 0 ? missedBeats * beat * 1000 : usualPatience
}

/**
 * dropConnections makes the browser close the idle connections that it would use again, which may be dead as the stream's was:
 * each carries a request, and is closed when that has no answer.
 */
function dropConnections() {
  const signal = AbortSignal.timeout(opening)
  for (let i = 0; i < mostConnections; i++) void fetch('/healthz', { cache: 'no-store', signal }).catch(() => {})
}

/** batches reads server-sent events. It yields what arrives together, and calls alive for everything that arrives. */
async function* batches(body: ReadableStream<Uint8Array>, alive: () => void): AsyncGenerator<FleetEvent[]> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader()
  let rest = ''
  for (;;) {
    const { value, done } = await reader.read()
    if (done) return
    alive()
    const blocks = (rest + value).split('\n\n')
    rest = blocks.pop() ?? ''
    const events: FleetEvent[] = []
    for (const block of blocks) {
      const lines = block.split('\n')
      if (lines.includes('event: error') || lines.includes('event: end')) {
        if (events.length > 0) yield events
        return // the server ended the stream
      }
      const data = lines.find((line) => line.startsWith('data: '))
      if (data) events.push(JSON.parse(data.slice(6)) as FleetEvent)
    }
    if (events.length > 0) yield events
  }
}
