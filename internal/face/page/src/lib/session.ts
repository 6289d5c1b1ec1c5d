/**
 * The session of this browser. The token is encrypted, and the key is in a cookie that scripts cannot read. The cookie
 * alone is worth nothing to programs at other ports of the host, which get it too: they cannot read this storage.
 */
export interface Kept {
  session: string
  refresh?: string // the encrypted refresh token
}

const name = 'fleet-session'

/** kept returns what the page keeps of the session. All tabs share it. */
export function kept(): Kept {
  try {
    const value = JSON.parse(localStorage.getItem(name) ?? '{}') as Partial<Kept>
    return { ...value, session: value.session ?? '' }
  } catch {
    return { session: '' }
  }
}

export function keep(value: Kept) {
  localStorage.setItem(name, JSON.stringify(value))
}

export function forget() {
  localStorage.removeItem(name)
}

/** headers returns the headers that a request needs besides the cookie. */
export function headers(of: Kept = kept()): Record<string, string> {
  return of.session ? { 'Fleet-Session': of.session } : {}
}
