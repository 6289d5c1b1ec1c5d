import { api, data, type AgentSummary, type FleetEvent, type QueuedTask, type Task } from './api'
import { fleet } from './fleet.svelte'
import { awaitsDelegated } from './queue'
import { stream } from './stream.svelte'

const newest = 500 // tasks that are read at first
const pace = 1000 // milliseconds between two reads
const mostSingle = 20 // agents whose task is read alone
const mostWatched = 60 // tasks whose steps are watched
const mostQueued = 500 // tasks of the queue that are searched for those that wait for others

export const keyOf = (a: { owner: string; name: string }) => a.owner + '/' + a.name

/**
 * Activity has the newest task of agents, and the step that a task has just taken. It reads the newest tasks of the fleet once, and then those of
 * the agents in sight when something happens to them.
 */
class Activity {
  tasks = $state.raw(new Map<string, Task>())
  steps = $state.raw(new Map<string, { text: string; at: number }>()) // by task
  /** delegating has the tasks that wait for tasks that they have delegated, by the agent that goes on with them. */
  delegating = $state.raw(new Map<string, QueuedTask>())

  private shown = new Map<string, AgentSummary>()
  private stale = new Set<string>()
  private timer: ReturnType<typeof setTimeout> | undefined
  private reading = false
  private fresh = new Map<string, { text: string; at: number }>() // steps that are not shown yet
  private unwatch = () => {}
  private watched = ''

  /** follow keeps what is shown current until the returned function is called. */
  follow(): () => void {
    const ignore = stream.listen((events) => events.forEach((e) => this.take(e)))
    void this.readNewest()
    return () => {
      ignore()
      this.unwatch()
      this.watched = ''
      this.shown.clear()
    }
  }

  /** show says which agents are in sight. */
  show(agents: AgentSummary[]) {
    this.shown = new Map(agents.map((a) => [keyOf(a), a]))
    for (const [key, a] of this.shown)
      if (!this.tasks.has(key) || (a.current_task_id && this.tasks.get(key)?.id !== a.current_task_id))
        this.stale.add(key)
    this.later()
  }

  private failures = $derived(new Set([...this.tasks].filter(([, t]) => t.status === 'failed').map(([key]) => key)))

  /** stateOf names what people see of the agent: one whose task has failed does not look idle. */
  stateOf = (a: AgentSummary): string => (this.failed(a) ? 'failed' : a.status === 'offline' ? a.state : a.status)

  /** failed reports whether the newest task of the agent has failed. */
  failed = (a: AgentSummary): boolean => a.status === 'idle' && this.failures.size > 0 && this.failures.has(keyOf(a))

  /** readDelegating reads which tasks wait for others, if the summary of the queue has such tasks. */
  async readDelegating() {
    if (!fleet.queue?.reasons.some((r) => r.reason === 'delegated')) {
      if (this.delegating.size > 0) this.delegating = new Map()
      return
    }
    try {
      const { tasks } = await data(api.GET('/v1/queue', { params: { query: { limit: mostQueued } } }))
      this.delegating = new Map(tasks.filter(awaitsDelegated).map((t) => [t.owner + '/' + t.agent_name, t]))
    } catch {
      // The next change of the queue causes another try.
    }
  }

  private take(e: FleetEvent) {
    const key = e.owner + '/' + e.agent_name
    if (e.type === 'task_step') {
      this.fresh.set(e.task_id, { text: e.text, at: Date.parse(e.time) })
      this.later()
    } else if (['task_ended', 'task_started', 'task_assigned', 'task_delegated'].includes(e.type)) {
      this.stale.add(key)
      this.later()
    }
  }

  private later() {
    if (this.reading) return
    this.timer ??= setTimeout(() => {
      this.timer = undefined
      void this.read()
    }, pace / 4)
  }

  private async read() {
    this.watch()
    if (this.fresh.size > 0) {
      this.steps = new Map([...this.steps, ...this.fresh].slice(-200))
      this.fresh.clear()
    }
    // The failures of agents out of sight count, too.
    const known = new Set(this.stale.size ? fleet.agents.map(keyOf) : [])
    const wanted = [...this.stale]
      .filter((key) => known.has(key))
      .sort((a, b) => Number(this.shown.has(b)) - Number(this.shown.has(a)))
    this.stale.clear()
    const silent = [...this.shown.values()].flatMap((a) => a.current_task_id ?? []).filter((id) => !this.steps.has(id))
    if (wanted.length === 0 && silent.length === 0) return
    this.reading = true
    try {
      if (wanted.length > mostSingle) await this.readNewest()
      const rest = wanted.filter((key) => this.shown.has(key) || wanted.length <= mostSingle).slice(0, mostSingle)
      const found = await Promise.all(rest.map((key) => this.readTask(key)))
      const tasks = new Map(this.tasks)
      found.forEach((task, i) => task && tasks.set(rest[i]!, task))
      this.tasks = tasks
      await this.readSteps(silent.slice(0, mostSingle))
    } catch {
      // The stream reports a broken connection, and the next event causes another try.
    }
    await new Promise((done) => setTimeout(done, pace))
    this.reading = false
    if (this.stale.size > 0 || this.fresh.size > 0) this.later()
  }

  private async readTask(key: string): Promise<Task | undefined> {
    const [owner = '', name = ''] = key.split(/\/(?=[^/]*$)/)
    const path = { agent_name: fleet.ref(name, owner) }
    const call = api.GET('/v1/agents/{agent_name}/tasks', { params: { path, query: { limit: 1 } } })
    return (await data(call).catch(() => undefined))?.tasks[0] // the agent may have been deleted
  }

  /** readSteps reads the last steps of tasks of which no step has been seen. */
  private async readSteps(ids: string[]) {
    const read = async (task_id: string) => {
      const query = { before: 'end', limit: 1, kinds: ['tool_call', 'text', 'question'] }
      const call = api.GET('/v1/tasks/{task_id}/steps', { params: { path: { task_id }, query: query as never } })
      const step = (await data(call).catch(() => undefined))?.steps[0]
      return [task_id, { text: step?.summary ?? '', at: Date.parse(step?.time ?? '') }] as const
    }
    if (ids.length > 0) this.steps = new Map([...(await Promise.all(ids.map(read))), ...this.steps])
  }

  private async readNewest() {
    try {
      const { tasks } = await data(api.GET('/v1/tasks', { params: { query: { limit: newest } } }))
      const known = new Map(this.tasks)
      for (const t of tasks.reverse()) if (t.status !== 'pending') known.set(t.owner + '/' + t.agent_name, t)
      this.tasks = known
    } catch {
      // The next event causes another try.
    }
  }

  /** watch adds the steps of the tasks in sight to the stream. */
  private watch() {
    const ids = [...this.shown.values()].flatMap((a) => a.current_task_id ?? []).slice(0, mostWatched)
    const wanted = ids.sort().join()
    if (wanted === this.watched) return
    this.watched = wanted
    this.unwatch()
    this.unwatch = stream.watchSteps(ids)
  }
}

export const activity = new Activity()
