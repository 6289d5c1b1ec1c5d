import { clock } from './clock.svelte'
import { load, save } from './storage'

/** Dismissed has what the user does not want to see, or not before some time, in this browser. */
class Dismissed {
  private until = $state.raw<Record<string, number>>(read())

  has = (id: string): boolean => (this.until[id] ?? 0) > clock.now

  /** hide hides the item for so many milliseconds. */
  hide(id: string, ms: number) {
    const now = Date.now()
    const kept = Object.entries(this.until).filter(([, until]) => until > now)
    this.until = { ...Object.fromEntries(kept), [id]: now + ms }
    save('dismissed', JSON.stringify(this.until))
  }
}

function read(): Record<string, number> {
  try {
    return JSON.parse(load('dismissed') ?? '{}') as Record<string, number>
  } catch {
    return {} // another program's value
  }
}

export const dismissed = new Dismissed()
export const hour = 3600_000
export const month = 30 * 24 * hour // longer than anything needs attention
