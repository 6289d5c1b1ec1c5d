/**
 * The session of this browser. The token is encrypted, and the key is in a cookie that scripts cannot read. Programs at
 * other ports of the host get the cookie, but cannot read this storage.
 */
export interface Kept {
  session: string
  refresh?: string // the encrypted refresh token
}

const name = 'fleet-session'
let alone: Kept = { session: '' } // of this tab, in a browser whose storage cannot be used

/** kept returns what the page keeps of the session. All tabs share it. */
export function kept(): Kept {
  try {
    return { session: '', ...(JSON.parse(localStorage.getItem(name) ?? '{}') as Partial<Kept>) }
  } catch {
    return alone
  }
}

export function keep(value: Kept) {
  alone = value
  try {
    if (value.session) localStorage.setItem(name, JSON.stringify(value))
    else localStorage.removeItem(name)
  } catch {
    // this tab has it
  }
}

export function forget() {
  keep({ session: '' })
}

/** headers returns the headers that a request needs besides the cookie. */
export function headers(): Record<string, string> {
  const { session } = kept()
  return session ? { 'Fleet-Session': session } : {}
}
