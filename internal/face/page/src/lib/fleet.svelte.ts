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
} from './api'
import { stream } from './stream.svelte'

/** pace is how often, in milliseconds, what has changed is shown. */
const pace = 80

/** changeOf returns what the event of a task changes of its agent. */
function changeOf(e: FleetEvent, row: AgentSummary): Partial<AgentSummary> | undefined {
  switch (e.type) {
    case 'task_created':
      return { status: row.status === 'idle' ? 'busy' : row.status, current_task: e.text, current_task_id: e.task_id }
    case 'task_ended':
      if (row.current_task_id !== e.task_id) return undefined
      return {
        status: row.status === 'busy' ? 'idle' : row.status,
        current_task: null,
        current_task_id: null,
        waiting: false,
        stalled: false,
      }
    case 'task_question':
      return { waiting: true }
    case 'task_stalled':
      return { stalled: true }
    case 'task_recovered':
      return { stalled: false }
  }
  return undefined
}

/**
 * Fleet is what the tab knows of the agents and the questions: read once, then kept current by events. Views read
 * `agents` and `questions`; both change at most every `pace` milliseconds, however many events arrive.
 */
class Fleet {
  agents = $state.raw<AgentSummary[]>([])
  questions = $state.raw<Question[]>([])
  places = $state.raw<PlaceStatus[]>([])
  loaded = $state(false)
  problem = $state('')

  private byName = new Map<string, AgentSummary[]>()
  private byId = new Map<string, Question>()
  private dirty = { agents: false, questions: false }
  private timer: ReturnType<typeof setTimeout> | undefined
  private pending = new Set<string>() // names of agents that must be read again
  private reader: ReturnType<typeof setTimeout> | undefined
  private asking = false

  constructor() {
    stream.listen((events) => events.forEach((e) => this.apply(e)))
  }

  /** load reads the fleet, again until that succeeds, and follows it from then on. */
  async load() {
    for (let pause = 500; ; pause = Math.min(2 * pause, 10_000)) {
      try {
        await this.loadOnce()
        return
      } catch (e) {
        this.problem = e instanceof Error ? e.message : String(e)
        if (e instanceof Problem && e.status === 401) return
      }
      await new Promise((done) => setTimeout(done, pause))
    }
  }

  /** loadOnce starts the stream before it reads the lists, so that nothing is missed. */
  private async loadOnce() {
    const head = await events({ cursor: 'now' })
    stream.start(head.cursor)
    await this.readAgents()
    await this.readQuestions()
    this.loaded = true
    this.problem = ''
    this.dirty.agents = true
    this.show()
  }

  agent(name: string): AgentSummary | undefined {
    return this.agents.find((a) => a.name === name)
  }

  private async readQuestions() {
    const questions = await pages(async (cursor) => {
      const page = await data(api.GET('/v1/questions', { params: { query: { cursor, limit: 100 } } }))
      return { rows: page.questions, next: page.next_cursor }
    }, 1000)
    this.byId = new Map(questions.map((q) => [q.id, q]))
    const waiting = new Set(questions.map((q) => q.agent_name))
    for (const [name, rows] of this.byName) {
      const row = rows[0]
      if (rows.length === 1 && row?.waiting && !waiting.has(name)) {
        this.byName.set(name, [{ ...row, waiting: false }])
        this.changed()
      }
    }
    this.dirty.questions = true
    this.showSoon()
  }

  /** apply changes what an event tells all of; of other agents it notes that they must be read again. */
  private apply(e: FleetEvent) {
    const rows = this.byName.get(e.agent_name) ?? []
    const row = rows.length === 1 ? rows[0] : undefined // names are unique only for each owner, and events do not name owners
    if (e.type === 'task_question' || e.type === 'task_answer') void this.readQuestionsOnce()
    if (e.type === 'agent_deleted' && row) {
      this.byName.delete(e.agent_name)
      this.changed()
      return
    }
    if (row && e.task_id) {
      const change = changeOf(e, row)
      if (change) {
        this.byName.set(e.agent_name, [{ ...row, ...change }])
        this.changed()
      }
      return
    }
    if (e.type.startsWith('agent_') || rows.length > 1) this.readLater(e.agent_name)
  }

  private readLater(name: string) {
    this.pending.add(name)
    this.reader ??= setTimeout(() => void this.readPending(), 3 * pace)
  }

  /** readPending reads a few known agents one by one, and otherwise all of them. */
  private async readPending() {
    const names = [...this.pending]
    this.pending.clear()
    try {
      if (names.length <= 5 && names.every((name) => this.byName.get(name)?.length === 1)) {
        for (const name of names) {
          const path = { agent_name: name }
          const { agent } = await data(api.GET('/v1/agents/{agent_name}', { params: { path } }))
          this.byName.set(name, [agent])
        }
      } else {
        await this.readAgents()
      }
    } catch {
      // The stream says what is wrong with the connection; the next event tries again.
    }
    this.changed()
    this.reader = this.pending.size > 0 ? setTimeout(() => void this.readPending(), 10 * pace) : undefined
  }

  private async readAgents() {
    const agents = await pages(async (cursor) => {
      const page = await data(api.GET('/v1/agents', { params: { query: { cursor, limit: 5000 } } }))
      this.places = page.places
      return { rows: page.agents, next: page.next_cursor }
    })
    this.byName = Map.groupBy(agents, (a) => a.name)
  }

  private async readQuestionsOnce() {
    if (this.asking) return
    this.asking = true
    try {
      await new Promise((done) => setTimeout(done, pace))
      this.asking = false
      await this.readQuestions()
    } catch {
      // The stream says what is wrong with the connection; the next event tries again.
    }
  }

  private changed() {
    this.dirty.agents = true
    this.showSoon()
  }

  private showSoon() {
    this.timer ??= setTimeout(() => this.show(), pace)
  }

  private show() {
    clearTimeout(this.timer)
    this.timer = undefined
    if (this.dirty.agents) this.agents = [...this.byName.values()].flat().sort((a, b) => (a.name < b.name ? -1 : 1))
    if (this.dirty.questions) this.questions = [...this.byId.values()].filter((q) => q.status === 'waiting')
    this.dirty = { agents: false, questions: false }
  }
}

export const fleet = new Fleet()
