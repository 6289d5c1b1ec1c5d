import type { Kept } from './session'
import { load, save } from './storage'

const name = 'fleet-sign-in'

/** marked returns the mark by which this browser knows its own sign-ins. Other ports cannot read it. */
export function marked(): string {
  const mark = load(name) ?? crypto.getRandomValues(new Uint32Array(4)).join('-')
  return save(name, mark) ? mark : '' // a browser without storage does not know its sign-ins
}

/** Arrival is the session with which the browser comes back from the issuer. */
interface Arrival extends Kept {
  to: string
  mark: string
}

/**
 * arrived is the session with which the browser has just come back from the issuer. A sign-in that another program has
 * begun in this browser does not count: the user would work in a foreign account.
 *
 * main.ts imports this file first, because it sets the address of the view.
 */
export const arrived = read()

function read(): Kept | undefined {
  const block = document.getElementById('arrival')
  if (!block) return undefined
  const { to, mark, ...kept } = JSON.parse(block.textContent) as Arrival
  block.remove()
  history.replaceState(null, '', to)
  const own = mark === marked()
  save(name, null)
  return own ? kept : undefined
}
