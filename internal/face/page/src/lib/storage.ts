/** What the storage of the browser has not taken, because it is blocked or full. It lasts until the page is left. */
const here = new Map<string, string>()

/** load returns what the browser keeps for this origin under the name, or null. */
export function load(name: string): string | null {
  try {
    return here.get(name) ?? localStorage.getItem(name)
  } catch {
    return null
  }
}

/** save keeps the value for all tabs, or nothing if it is null. It returns false if only this page has the value. */
export function save(name: string, value: string | null): boolean {
  try {
    if (value === null) localStorage.removeItem(name)
    else localStorage.setItem(name, value)
    here.delete(name)
    return true
  } catch {
    if (value === null) here.delete(name)
    else here.set(name, value)
    return false
  }
}
