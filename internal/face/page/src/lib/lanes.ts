import type { AgentSummary, FleetEvent } from './api'

/** Kind is what an agent was doing. */
export type Kind = 'idle' | 'working' | 'asking' | 'failed' | 'offline'

/** Span is how long an agent was doing one thing. */
export interface Span {
  from: number
  to: number
  kind: Kind
}

interface Change {
  at: number
  kind: Kind
  before: Kind | undefined // what the agent must have been doing until then; undefined if it did not exist
}

const most = 500 // changes that are kept for each agent

const kindOfState = (state: string): Kind =>
  state === 'running' ? 'idle' : state === 'failed' || state === 'unhealthy' ? 'failed' : 'offline'

/** kindNow returns what a listed agent is doing now. */
export function kindNow(a: AgentSummary): Kind {
  if (a.waiting) return 'asking'
  if (a.status === 'busy') return 'working'
  return kindOfState(a.state)
}

/** changeOf returns how the event changes what its agent is doing, or undefined if it changes nothing. */
function changeOf(e: FleetEvent, before: Kind | undefined): Change | undefined {
  const at = Date.parse(e.time)
  switch (e.type) {
    case 'agent_created':
      return { at, kind: kindOfState(e.status ?? ''), before: undefined }
    case 'agent_changed': {
      if (!e.status) return undefined
      const kind = kindOfState(e.status)
      // A running agent may have changed in another way, while it works or before its task has started.
      if (kind === 'idle' && before && before !== 'offline' && before !== 'failed') return undefined
      return { at, kind, before: before ?? (kind === 'idle' ? 'offline' : 'idle') }
    }
    case 'task_created':
      return e.status === 'pending' ? undefined : { at, kind: 'working', before: 'idle' }
    case 'task_assigned':
      return { at, kind: 'working', before: 'idle' }
    case 'task_question':
      return { at, kind: 'asking', before: 'working' }
    case 'task_answer':
      return { at, kind: 'working', before: 'asking' }
    case 'task_ended':
      return { at, kind: 'idle', before: 'working' }
  }
  return undefined
}

/** Lanes derives the past of agents from events, which must be added in order. */
export class Lanes {
  /** since is the time from which the past is known. */
  since = Infinity
  private changes = new Map<string, Change[]>() // by owner and name

  add(e: FleetEvent) {
    if (!e.agent_name) return
    const key = e.owner + '/' + e.agent_name
    const list = this.changes.get(key) ?? []
    const change = changeOf(e, list.at(-1)?.kind)
    if (!change || change.kind === list.at(-1)?.kind) return
    list.push(change)
    if (list.length > most) list.shift()
    this.changes.set(key, list)
  }

  /** of returns what the agent did between the times, as far as the past is known, oldest first. */
  of(a: AgentSummary, from: number, to: number): Span[] {
    const list = this.changes.get(a.owner + '/' + a.name) ?? []
    const spans: Span[] = []
    const add = (begun: number, ended: number, kind: Kind | undefined) => {
      const span = { from: Math.max(begun, from, this.since), to: Math.min(ended, to) }
      if (kind && span.to > span.from) spans.push({ ...span, kind })
    }
    const first = list[0]
    // If an agent has no changes, it has been doing the same all the time.
    add(this.since, first?.at ?? to, first ? (list.length < most ? first.before : undefined) : kindNow(a))
    list.forEach((c, i) => add(c.at, list[i + 1]?.at ?? to, i === list.length - 1 ? kindNow(a) : c.kind))
    return spans
  }
}
