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

  private byName = new Map<string, AgentSummary>()
  private byId = new Map<string, Question>()
  private dirty = { agents: false, questions: false }
  private timer: ReturnType<typeof setTimeout> | undefined
  private reading = new Map<string, boolean>() // agents that are being read; true: read once more
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
    const agents = await pages(async (cursor) => {
      const page = await data(api.GET('/v1/agents', { params: { query: { cursor, limit: 5000 } } }))
      this.places = page.places
      return { rows: page.agents, next: page.next_cursor }
    })
    this.byName = new Map(agents.map((a) => [a.name, a]))
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
    this.dirty.questions = true
    this.showSoon()
  }

  private apply(e: FleetEvent) {
    switch (e.type) {
      case 'agent_deleted':
        if (this.byName.delete(e.agent_name)) this.changed()
        return
      case 'task_output':
      case 'task_step':
      case 'task_message':
      case 'task_check':
      case 'task_deleted':
        return
      case 'task_question':
      case 'task_answer':
        void this.readQuestionsOnce()
    }
    void this.read(e.agent_name)
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

  /** read reads an agent again that an event was about, once more if another event comes meanwhile. */
  private async read(name: string) {
    if (this.reading.has(name)) {
      this.reading.set(name, true)
      return
    }
    this.reading.set(name, false)
    try {
      const { agent } = await data(api.GET('/v1/agents/{agent_name}', { params: { path: { agent_name: name } } }))
      this.byName.set(name, agent)
      this.changed()
    } catch {
      if (this.byName.delete(name)) this.changed()
    }
    const more = this.reading.get(name)
    this.reading.delete(name)
    if (more) await this.read(name)
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
    if (this.dirty.agents) this.agents = [...this.byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
    if (this.dirty.questions) this.questions = [...this.byId.values()].filter((q) => q.status === 'waiting')
    this.dirty = { agents: false, questions: false }
  }
}

export const fleet = new Fleet()
