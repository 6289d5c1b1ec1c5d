import { tick } from 'svelte'
import {
  api,
  data,
  events,
  pages,
  Problem,
  type AgentSummary,
  type FleetEvent,
  type PlaceStatus,
  type Question,
  type QueueSummary,
  type Scope,
} from './api'
import { queueEvents } from './queue'
import { passes, retry } from './retry'
import { stream } from './stream.svelte'

// Updates of the views are at least `pace` milliseconds apart, and at least `rest` times as long as an update takes.
const pace = 20
const rest = 8

/** mostSingle is how many agents are read one by one; more are read as a list, at most every listPace milliseconds. */
const mostSingle = 10
const listPace = 2000
const readPace = 80 // milliseconds for which agents to read again are collected
const queuePace = 1000 // the same for the summary of the queue
const retryPace = 3000 // milliseconds until a read that has failed is repeated
const mostQuestions = 1000

/** changeOf returns the fields of its agent that the event changes, or undefined if only the server knows them. */
function changeOf(e: FleetEvent, row: AgentSummary): Partial<AgentSummary> | undefined {
  switch (e.type) {
    case 'task_created':
      if (e.status === 'pending') return {} // task_assigned follows when an agent begins to work on it
      return {
        status: row.status === 'idle' ? 'busy' : row.status,
        current_task: e.text.slice(0, 200),
        current_task_id: e.task_id,
      }
    case 'task_ended':
      if (row.current_task_id !== e.task_id) return {}
      return {
        status: row.status === 'busy' ? 'idle' : row.status,
        current_task: null,
        current_task_id: null,
        waiting: false,
        stalled: false,
        collecting: false,
      }
    case 'task_assigned':
      return undefined
    case 'task_queued': // an attempt has failed, so the task waits again
      return row.current_task_id === e.task_id ? undefined : {}
    case 'task_question':
      return { waiting: true }
    case 'task_stalled':
      return { stalled: true }
    case 'task_recovered':
      return { stalled: false }
    case 'agent_changed': {
      if (!e.status) return {}
      const status = e.status !== 'running' ? 'offline' : row.current_task_id ? 'busy' : 'idle'
      return { state: e.status as AgentSummary['state'], status }
    }
  }
  return {}
}

/** needsHelp reports whether somebody has to look after the agent. */
export const needsHelp = (a: AgentSummary): boolean => !!a.stalled || a.state === 'unhealthy' || a.state === 'failed'

const keyOf = (a: { owner: string; name: string }) => a.owner + '/' + a.name
const keyOfEvent = (e: FleetEvent) => e.owner + '/' + e.agent_name

/**
 * Fleet has the agents, the open questions and a summary of the queue. It reads them once, and then keeps them current with events. Views read
 * `agents` and `questions`, which change at most once in `pace` milliseconds, however many events arrive.
 */
class Fleet {
  agents = $state.raw<AgentSummary[]>([])
  questions = $state.raw<Question[]>([])
  places = $state.raw<PlaceStatus[]>([])
  queue = $state.raw<QueueSummary>()
  /** caller is the principal that is signed in, and scope what it may do. */
  caller = $state('')
  scope = $state<Scope>('read')
  loaded = $state(false)
  problem = $state('')

  private byKey = new Map<string, AgentSummary>()
  private order: string[] | undefined // keys in the order of the list; undefined after an agent was added or removed
  private byId = new Map<string, Question>()
  private dirty = { agents: false, questions: false }
  private next = 0 // the earliest time of the next update, see performance.now
  private timer: ReturnType<typeof setTimeout> | undefined
  private pending = new Map<string, string>() // references to agents that must be read again, by key
  private reader: ReturnType<typeof setTimeout> | undefined
  private timers = new Map<() => Promise<void>, ReturnType<typeof setTimeout>>() // of the next reads, see later
  private arrived = new Set<FleetEvent[]>() // for each running read, the events that arrived during it

  constructor() {
    stream.listen((events) => {
      for (const list of this.arrived) list.push(...events)
      events.forEach((e) => this.apply(e))
    })
    stream.missed = () => void this.load()
  }

  /** load reads the fleet, and then keeps it current. */
  load(): Promise<void> {
    return retry(
      () => this.loadOnce(),
      (_, words) => (this.problem = words),
    )
  }

  /**
   * loadOnce starts the stream before it reads the lists, so that no event is missed. It also reads the caller first,
   * because how an agent is named depends on whether the caller owns it.
   */
  private async loadOnce() {
    const [head] = await Promise.all([events({ cursor: 'now' }), this.readCaller()])
    stream.start(head.cursor)
    await Promise.all([this.readAgents(), this.readQuestions(), this.readQueue()])
    this.loaded = true
    this.problem = ''
    this.changed(true)
    this.show()
  }

  /** ref returns how requests name the agent: a name alone means an agent of the caller. */
  ref(name: string, owner: string | undefined): string {
    return !owner || owner === this.caller ? name : `${name}@${owner}`
  }

  /** isShared reports whether the caller sees what belongs to the owner only because it was shared. */
  isShared(owner: string): boolean {
    return owner !== this.caller && this.scope !== 'admin'
  }

  /** readPlaces reads the state of the places. */
  async readPlaces() {
    this.places = (await data(api.GET('/v1/agents', { params: { query: { limit: 1 } } }))).places
  }

  /** readCaller reads who is signed in. If it is another principal than before, it loads the page again. */
  async readCaller() {
    const head = await data(api.GET('/v1/fleet'))
    if (this.caller && this.caller !== head.caller) {
      location.reload() // no data of another principal may stay
      await new Promise(() => {})
    }
    this.caller = head.caller
    this.scope = head.scope
  }

  /** readQueue reads how many tasks wait, and why. */
  readQueue = async () => {
    this.queue = await data(api.GET('/v1/queue:summary'))
  }

  private readQuestions = async () => {
    const read = async (cursor: string) => {
      const page = await data(api.GET('/v1/questions', { params: { query: { cursor, limit: 100 } } }))
      return { rows: page.questions, next: page.next_cursor }
    }
    await this.during(
      () => pages(read, mostQuestions),
      (questions) => {
        this.byId = new Map(questions.map((q) => [q.id, q]))
        const tasks = new Set(questions.map((q) => q.task_id))
        const all = questions.length < mostQuestions
        for (const [key, row] of this.byKey) {
          const waiting = !!row.current_task_id && tasks.has(row.current_task_id)
          if (waiting === !!row.waiting || (!waiting && !all)) continue
          this.byKey.set(key, { ...row, waiting })
          this.changed()
        }
      },
    )
    this.dirty.questions = true
    this.showSoon()
  }

  /**
   * apply changes the agent of an event. If the event does not contain the whole change, the agent is read again later.
   */
  private apply(e: FleetEvent) {
    const key = keyOfEvent(e)
    const row = this.byKey.get(key)
    if (e.type === 'task_question' || e.type === 'task_answer') this.later(this.readQuestions, readPace)
    if (queueEvents.includes(e.type)) this.later(this.readQueue, queuePace)
    // An agent_unshared without a status means that the caller no longer sees the agent.
    if (e.type === 'agent_deleted' || (e.type === 'agent_unshared' && !e.status)) {
      if (this.byKey.delete(key)) this.changed(true)
      this.pending.delete(key)
      this.askOf(key)
      return
    }
    // A share can make the agent visible or hide it. Agents of other toolsets have events too, but are in no list.
    if (e.type === 'agent_created' || e.type === 'agent_shared' || e.type === 'agent_unshared') this.readLater(e)
    if (e.type === 'agent_shared' || e.type === 'agent_unshared') this.askOf(key) // the caller's access changes
    if (!row) return
    const change = changeOf(e, row)
    if (!change || e.type === 'agent_changed') this.readLater(e) // labels and the reason of a state are in no event
    if (change && Object.keys(change).length > 0) {
      this.byKey.set(key, { ...row, ...change })
      this.changed()
    }
  }

  private readLater(e: FleetEvent) {
    this.pending.set(keyOfEvent(e), `${e.agent_name}@${e.owner}`)
    this.reader ??= setTimeout(() => void this.readPending(), readPace)
  }

  private async readPending() {
    const wanted = [...this.pending]
    this.pending.clear()
    let pause = readPace
    try {
      if (wanted.length <= mostSingle) {
        await Promise.all(wanted.map(([key, ref]) => this.readAgent(key, ref)))
      } else {
        await this.readAgents()
        await new Promise((done) => setTimeout(done, listPace))
      }
    } catch (e) {
      pause = retryPace
      if (passes(e)) for (const [key, ref] of wanted) this.pending.set(key, ref)
    }
    this.changed(true)
    this.reader = this.pending.size > 0 ? setTimeout(() => void this.readPending(), pause) : undefined
  }

  private async readAgent(key: string, ref: string) {
    const path = { agent_name: ref }
    try {
      await this.during(
        () => data(api.GET('/v1/agents/{agent_name}', { params: { path } })),
        ({ agent: a }) => {
          const {
            name,
            status,
            current_task,
            state,
            role,
            project,
            current_task_id,
            owner,
            waiting,
            stalled,
            collecting,
            place,
            outdated,
            state_reason,
            labels,
          } = a
          const row = { name, status, current_task, state, role, project, current_task_id, owner, waiting, stalled }
          this.byKey.set(key, { ...row, collecting, place, outdated, state_reason, labels })
        },
      )
    } catch (e) {
      if (!(e instanceof Problem) || e.status !== 404) throw e
      this.byKey.delete(key)
    }
  }

  /**
   * during reads, and then repeats the events that arrived meanwhile, because the answer may be older than these
   * events.
   */
  private async during<T>(read: () => Promise<T>, take: (answer: T) => void) {
    const arrived: FleetEvent[] = []
    this.arrived.add(arrived)
    try {
      take(await read())
    } finally {
      this.arrived.delete(arrived)
    }
    arrived.forEach((e) => this.apply(e))
  }

  private async readAgents() {
    const read = async (cursor: string) => {
      const page = await data(api.GET('/v1/agents', { params: { query: { cursor, limit: 5000 } } }))
      this.places = page.places
      return { rows: page.agents, next: page.next_cursor }
    }
    await this.during(
      () => pages(read, 100_000),
      (agents) => (this.byKey = new Map(agents.map((a) => [keyOf(a), a]))),
    )
    this.changed(true)
  }

  /** askOf reads the questions again if the agent has one. */
  private askOf(key: string) {
    for (const q of this.byId.values())
      if (keyOf({ owner: q.owner, name: q.agent_name }) === key) this.later(this.readQuestions, readPace)
  }

  /** later calls read, at most once in `pace` milliseconds, and again after a pause if it fails for a temporary reason. */
  private later(read: () => Promise<void>, pace: number) {
    if (this.timers.has(read)) return
    const run = async () => {
      this.timers.delete(read)
      try {
        await read()
      } catch (e) {
        if (passes(e)) this.later(read, retryPace)
      }
    }
    this.timers.set(
      read,
      setTimeout(() => void run(), pace),
    )
  }

  /** changed makes the views show the agents soon. members says that agents were added or removed. */
  private changed(members = false) {
    this.dirty.agents = true
    if (members) this.order = undefined
    this.showSoon()
  }

  private showSoon() {
    this.timer ??= setTimeout(() => this.show(), Math.max(0, this.next - performance.now()))
  }

  private show() {
    clearTimeout(this.timer)
    this.timer = undefined
    const begun = performance.now()
    this.next = begun + pace
    if (this.dirty.agents) {
      if (!this.order) this.arrange()
      this.agents = this.order!.map((key) => this.byKey.get(key)!)
    }
    if (this.dirty.questions) this.questions = [...this.byId.values()].filter((q) => q.status === 'waiting')
    this.dirty = { agents: false, questions: false }
    void tick().then(() => {
      const now = performance.now()
      this.next = now + Math.max(pace, rest * (now - begun))
    })
  }

  /** arrange sorts the agents by name. */
  private arrange() {
    const rows = [...this.byKey].sort(([, a], [, b]) =>
      a.name < b.name ? -1 : a.name > b.name ? 1 : a.owner < b.owner ? -1 : 1,
    )
    this.order = rows.map(([key]) => key)
  }
}

export const fleet = new Fleet()
