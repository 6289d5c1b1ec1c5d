import { load, save } from './storage'

/**
 * The session of this browser. The token is encrypted, and the key is in a cookie that scripts cannot read. Programs at
 * other ports of the host get the cookie, but cannot read this storage.
 */
export interface Kept {
  session: string
  refresh?: string // the encrypted refresh token
}

const name = 'fleet-session'

/** kept returns what the page keeps of the session. All tabs share it. */
export function kept(): Kept {
  try {
    return { session: '', ...(JSON.parse(load(name) ?? '{}') as Partial<Kept>) }
  } catch {
    return { session: '' } // another program's value
  }
}

export function keep(value: Kept) {
  save(name, value.session ? JSON.stringify(value) : null)
}

export function forget() {
  keep({ session: '' })
}

/** headers returns the headers that a request needs besides the cookie. */
export function headers(): Record<string, string> {
  const { session } = kept()
  return session ? { 'Fleet-Session': session } : {}
}
