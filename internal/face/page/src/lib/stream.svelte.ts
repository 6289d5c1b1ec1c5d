import type { FleetEvent } from './api'

type Listener = (events: FleetEvent[]) => void

const types: FleetEvent['type'][] = [
  'agent_created',
  'agent_changed',
  'agent_deleted',
  'task_created',
  'task_started',
  'task_output',
  'task_step',
  'task_message',
  'task_stopping',
  'task_ended',
  'task_deleted',
  'task_question',
  'task_answer',
  'task_stalled',
  'task_recovered',
  'task_check',
]

/**
 * Stream is the one event stream of the tab. It goes on where it stopped, by cursor, when the connection is lost.
 * Listeners get what arrived within one turn of the event loop together.
 */
class Stream {
  /** open is false while no connection is open; since says since when. */
  open = $state(false)
  since = $state(Date.now())

  private source: EventSource | undefined
  private cursor = ''
  private retry = 0
  private timer: ReturnType<typeof setTimeout> | undefined
  private listeners = new Set<Listener>()
  private waiting: FleetEvent[] = []

  /** outputOf is the task whose output, steps and messages are in the stream; those of others are left out. */
  private outputOf = ''

  constructor() {
    // A browser has few connections to a server, and a page that it keeps for going back would hold one of them.
    addEventListener('pagehide', () => this.source?.close())
    addEventListener('pageshow', (e) => {
      if (e.persisted && this.source) this.connect()
    })
  }

  /** watchOutput adds what the task puts out to the stream, until the returned function is called. */
  watchOutput(task: string): () => void {
    this.select(task)
    return () => {
      if (this.outputOf === task) this.select('')
    }
  }

  private select(task: string) {
    this.outputOf = task
    if (!this.source) return
    this.source.close()
    this.connect() // from the cursor on, so that nothing is lost or doubled
  }

  /** start follows the log from the cursor on. */
  start(cursor: string) {
    this.stop()
    this.cursor = cursor
    this.connect()
  }

  stop() {
    clearTimeout(this.timer)
    this.source?.close()
    this.source = undefined
    this.lost()
  }

  /** listen calls the listener with the events that arrive until the returned function is called. */
  listen(listener: Listener): () => void {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  private connect() {
    const query = new URLSearchParams({ follow: 'true', quiet: 'true', cursor: this.cursor })
    if (this.outputOf) query.set('output_of', this.outputOf)
    const source = new EventSource('/v1/events?' + query)
    this.source = source
    source.onopen = () => {
      this.open = true
      this.retry = 0
    }
    source.onerror = () => {
      this.lost()
      // The browser connects again by itself after a broken connection, but not after an answer that is an error.
      if (source.readyState === EventSource.CLOSED) this.again()
    }
    for (const type of types) source.addEventListener(type, (e) => this.take(e as MessageEvent<string>))
    source.addEventListener('error', (e) => {
      if (e instanceof MessageEvent) this.again() // the server ended the stream and said why
    })
    source.addEventListener('end', () => this.again())
  }

  private lost() {
    if (this.open) this.since = Date.now()
    this.open = false
  }

  private again() {
    this.source?.close()
    this.lost()
    clearTimeout(this.timer)
    this.timer = setTimeout(() => this.connect(), Math.min(500 * 2 ** this.retry++, 10_000))
  }

  private take(message: MessageEvent<string>) {
    this.cursor = message.lastEventId
    if (this.waiting.push(JSON.parse(message.data) as FleetEvent) === 1) queueMicrotask(() => this.pass())
  }

  private pass() {
    const events = this.waiting
    this.waiting = []
    for (const listener of this.listeners) listener(events)
  }
}

export const stream = new Stream()
