import { setPatience, type FleetEvent } from './api'
import { Hub, type Ask, type News } from './hub'
import { headers } from './session'

type Listener = (events: FleetEvent[]) => void

/**
 * Stream is the tab's view of the event stream that all tabs share, see Hub. The tab has its own cursor. Listeners get
 * the events that arrived together.
 */
class Stream {
  /** open says whether a connection is open. While it is not, since is when it was lost. A short loss is not shown. */
  open = $state(false)
  since = $state(Date.now())
  /** opened grows when a connection is opened. What happened just before may not be in it, if its cursor is newer. */
  opened = $state(0)
  /** epoch grows when events were missed, so that everything that is shown must be read again. */
  epoch = $state(0)
  /** begun grows when the stream starts at the end of the log. Answers that were read before may be older. */
  begun = $state(0)
  /**
   * refused is called when the server requires another token, with how many times in a row it has done so, and missed
   * when events were missed.
   */
  refused: (times: number) => void = () => {}
  missed = () => {}

  private cursor = ''
  private refusals = 0
  private listeners = new Set<Listener>()
  private outputs: string[] = []
  private tasks: string[] = []
  private send: (ask: Ask) => void

  constructor() {
    const news = (n: News) => this.take(n)
    if ('SharedWorker' in window) {
      const worker = new SharedWorker(new URL('../hub.worker.ts', import.meta.url), { type: 'module', name: 'fleet' })
      worker.port.onmessage = (m: MessageEvent<News>) => news(m.data)
      this.send = (ask) => worker.port.postMessage(ask)
    } else {
      const hub = new Hub()
      const port = { postMessage: news }
      hub.join(port)
      this.send = (ask) => hub.take(port, ask)
    }
    addEventListener('pagehide', () => this.send({ kind: 'leave' }))
    addEventListener('pageshow', (e) => {
      if (e.persisted && this.cursor) this.follow()
    })
  }

  /** watchOutput adds the output and the details of the task to the stream, until the returned function is called. */
  watchOutput(task: string): () => void {
    return this.select(this.outputs, [task])
  }

  /** watchSteps adds the steps of the tasks to the stream, until the returned function is called. */
  watchSteps(tasks: string[]): () => void {
    return this.select(this.tasks, tasks)
  }

  private select(list: string[], tasks: string[]): () => void {
    list.push(...tasks)
    this.send({ kind: 'tasks', ...this.selected() })
    return () => {
      for (const task of tasks) list.splice(list.indexOf(task), 1)
      this.send({ kind: 'tasks', ...this.selected() })
    }
  }

  private selected() {
    return { tasks: [...new Set([...this.outputs, ...this.tasks])], details: this.outputs.length > 0 }
  }

  /** start follows the log from the cursor on. */
  start(cursor: string) {
    this.cursor = cursor
    this.begun++
    this.follow()
  }

  /** resume follows the log again, after the server has refused it. */
  resume() {
    if (this.cursor) this.follow()
  }

  private follow() {
    this.send({ kind: 'follow', cursor: this.cursor, ...this.selected(), headers: headers() })
  }

  /** sessionRenewed tells the hub that the session has a new token. */
  sessionRenewed() {
    this.send({ kind: 'renewed', headers: headers() })
  }

  /** sessionChanged tells the other tabs that somebody signed in or out. */
  sessionChanged() {
    this.lost()
    this.send({ kind: 'session' })
  }

  /** listen calls the listener with the events that arrive until the returned function is called. */
  listen(listener: Listener): () => void {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  private take(news: News) {
    switch (news.kind) {
      case 'events':
        this.send({ kind: 'taken' })
        this.pass(news.events)
        break
      case 'open':
        this.open = true
        this.opened++
        this.refusals = 0
        setPatience(news.patience)
        break
      case 'lost':
        this.lost(news.since)
        break
      case 'refused':
        this.lost()
        this.refused(++this.refusals)
        break
      case 'expired':
        this.lost()
        this.epoch++
        this.missed()
        break
      case 'session':
        location.reload() // no data of another principal may stay
    }
  }

  private lost(since = Date.now()) {
    if (this.open) this.since = since
    this.open = false
  }

  private pass(events: FleetEvent[]) {
    const after = Number(this.cursor)
    const fresh = events.filter((e) => Number(e.cursor) > after)
    this.cursor = fresh.at(-1)?.cursor ?? this.cursor
    if (fresh.length > 0) for (const listener of this.listeners) listener(fresh)
  }
}

export const stream = new Stream()

/**
 * tellsOutput reports whether the event only reports output or a step of a task. Such events change nothing else of it.
 */
export function tellsOutput(e: FleetEvent): boolean {
  return ['task_output', 'task_more_output', 'task_step', 'task_detail'].includes(e.type)
}
