const signs: Record<string, string> = {
  busy: '▶',
  running: '▶',
  pending: '▶',
  working: '▶',
  collecting: '▶',
  idle: '●',
  open: '●',
  ready: '●',
  operative: '●',
  completed: '✓',
  passed: '✓',
  waiting: '?',
  stalled: '!',
  unhealthy: '!',
  failed: '✕',
  timed_out: '✕',
  unreachable: '✕',
  stopped: '■',
  canceled: '■',
}
const tones: Record<string, string> = {
  busy: 'busy',
  running: 'busy',
  pending: 'busy',
  working: 'busy',
  collecting: 'busy',
  idle: 'idle',
  open: 'idle',
  ready: 'idle',
  operative: 'idle',
  completed: 'idle',
  passed: 'idle',
  waiting: 'waiting',
  stalled: 'waiting',
  unhealthy: 'failed',
  failed: 'failed',
  timed_out: 'failed',
  unreachable: 'failed',
  key_missing: 'waiting',
}

/** signOf is the sign of a status, for those who do not see its colour. */
export const signOf = (status: string): string => signs[status] ?? '○'

/** toneOf names the colour of a status. */
export const toneOf = (status: string): string => tones[status] ?? 'offline'
