import type { FleetEvent } from './api'

/** Ask is a message from a tab to the hub. */
export type Ask =
  /**
   * Send the events after the cursor, and the output of these tasks. The tab has read everything up to the cursor. The
   * hub may run in a worker, which cannot read the session from the storage.
   */
  | { kind: 'follow'; cursor: string; tasks: string[]; details: boolean; headers: Record<string, string> }
  /** The session has a new token. */
  | { kind: 'renewed'; headers: Record<string, string> }
  /** Send the output and steps of these tasks from now on, and of no others. details says whether small steps matter, too. */
  | { kind: 'tasks'; tasks: string[]; details: boolean }
  /** The tab has processed a message with events. */
  | { kind: 'taken' }
  /** Somebody signed in or out. */
  | { kind: 'session' }
  | { kind: 'leave' }

/** News is a message from the hub to a tab. */
export type News =
  | { kind: 'events'; events: FleetEvent[] }
  /** The stream is open. A request without an answer for patience milliseconds may wait on a dead connection. */
  | { kind: 'open'; patience: number }
  /** The stream is closed. A tab has no events that are newer than since. */
  | { kind: 'lost'; since: number }
  /** The server requires another token. No stream is open until a tab sends 'follow' again. */
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
  details: boolean
  untaken: number // messages with events that the tab has not processed yet
}

// A header of the server has the longest silence of a stream. A stream that is silent for this many times as long is
// dead.
const missedBeats = 2.5
const usualPatience = 25_000 // milliseconds, until the server has sent that header
const opening = 5000 // milliseconds for the server to answer when the stream is opened; twice as many with each failure
const mostConnections = 6 // how many connections a browser opens to a server
// A tab that the browser has frozen processes nothing. After this many messages it gets no more, and reads everything
// again.
const mostUntaken = 500
const mostTasks = 100 // the longest list that output_of of watch_fleet accepts

/**
 * Hub has the one event stream for all tabs of the browser, because HTTP/1.1 allows six connections to a server. It
 * runs in a worker that the tabs share, or in the tab if the browser has no such workers.
 *
 * A tab drops events that it already has, so the hub may send some events twice. It opens the stream again from an
 * older cursor whenever that is the simplest way not to miss an event.
 */
export class Hub {
  private tabs = new Map<Port, Tab>()
  private cursor = ''
  private headers: Record<string, string> = {} // of the session
  private shown: string[] = [] // the tasks whose output is in the stream
  private details = false // whether their details are
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
    this.tabs.set(port, { following: false, after: 0, tasks: [], details: false, untaken: 0 })
  }

  take(port: Port, ask: Ask) {
    if (!this.tabs.has(port)) this.join(port) // the browser shows a page again that it had kept
    const tab = this.tabs.get(port)!
    switch (ask.kind) {
      case 'follow':
        Object.assign(tab, { following: true, after: Number(ask.cursor), untaken: 0 })
        Object.assign(tab, { tasks: ask.tasks, details: ask.details })
        if (this.cursor === '' || tab.after < Number(this.cursor)) this.cursor = ask.cursor
        this.failures = 0
        this.headers = ask.headers
        this.connect() // always, because the session may have changed since the stream was opened
        break
      case 'renewed':
        this.headers = ask.headers
        break
      case 'tasks':
        Object.assign(tab, { tasks: ask.tasks, details: ask.details })
        if (!tab.following) break
        if (ask.tasks.some((id) => !this.shown.includes(id)) || (ask.details && !this.details)) this.connect()
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

  /** connect closes the stream if it is open, and opens it at the cursor. */
  private connect() {
    clearTimeout(this.timer)
    this.stream?.abort()
    const mine = new AbortController()
    this.stream = mine
    void this.read(mine)
  }

  private async read(mine: AbortController) {
    this.shown = [...new Set(this.following().flatMap(([, tab]) => tab.tasks))].slice(0, mostTasks)
    this.details = this.following().some(([, tab]) => tab.details)
    const query = new URLSearchParams({
      follow: 'true',
      quiet: 'true',
      output_without_text: 'true',
      details: String(this.details),
      cursor: this.cursor,
    })
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
    // A slow server gets more time with each try. The first tries are short, so an unreachable server is retried soon.
    watch(Math.min(opening * 2 ** this.failures, usualPatience))
    try {
      const response = await fetch('/v1/events?' + query, {
        headers: { ...this.headers, Accept: 'text/event-stream' },
        cache: 'no-store', // otherwise the browser delays it until another request for the same address ends
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
        this.end('expired') // the cursor is older than the log, or belongs to another log
        return
      }
      this.fail(mine)
    } catch {
      this.fail(mine)
    } finally {
      clearTimeout(watchdog)
    }
  }

  /** end sends the news and stops following. Each tab sends 'follow' again after it has acted on the news. */
  private end(kind: 'refused' | 'expired') {
    this.tell({ kind })
    for (const [, tab] of this.following()) {
      tab.following = false
      tab.after = 0
    }
    this.close()
  }

  /**
   * fail opens the stream again after a pause, which grows with each failure. since is when the connection last worked.
   */
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
        tab.following = false // until it has processed its messages
        continue
      }
      tab.after = Number(last.cursor)
      tab.untaken++
      port.postMessage({ kind: 'events', events: news })
    }
  }
}

/** patienceOf returns how many milliseconds the stream may be silent. */
function patienceOf(response: Response): number {
  const beat = Number(response.headers.get('Fleet-Heartbeat'))
  return beat > 0 ? missedBeats * beat * 1000 : usualPatience
}

/**
 * dropConnections makes the browser close idle connections, which may be dead like the stream's. It sends a request on
 * each connection. The browser closes a connection when its request is aborted without an answer.
 */
function dropConnections() {
  const signal = AbortSignal.timeout(opening)
  for (let i = 0; i < mostConnections; i++) void fetch('/healthz', { cache: 'no-store', signal }).catch(() => {})
}

/**
 * batches reads server-sent events. It yields the events that arrive together, and calls alive whenever data arrives.
 */
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
      if (!data) continue
      const event = JSON.parse(data.slice(6)) as FleetEvent
      delete event.step // the views read the steps when they need them
      events.push(event)
    }
    if (events.length > 0) yield events
  }
}
