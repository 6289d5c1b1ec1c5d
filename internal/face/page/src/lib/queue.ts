import type { FleetEvent, QueuedTask } from './api'

/** queueEvents are the events after which other tasks may wait. */
export const queueEvents: FleetEvent['type'][] = [
  'task_created',
  'task_queued',
  'task_assigned',
  'task_ended',
  'task_deleted',
  'fleet_changed',
]

/** waitEvents are the events after which tasks may wait for other reasons, or after which pools may have other agents. */
export const waitEvents: FleetEvent['type'][] = [
  ...queueEvents,
  'task_started',
  'pool_changed',
  'agent_created',
  'agent_changed',
  'agent_deleted',
]

/** awaitsDelegated returns the reason of a task that waits for tasks that it has delegated. */
export const awaitsDelegated = ({ queue: q }: QueuedTask) => q.waits.find((w) => w.reason === 'delegated')

/** targetOf names the agents that may work on a task that has no agent yet, as in `fleet task queue`. */
export function targetOf({ queue: q }: QueuedTask): string {
  return q.pool ? `pool:${q.pool}` : `project:${q.project ?? ''} ${q.role ?? ''}`
}
