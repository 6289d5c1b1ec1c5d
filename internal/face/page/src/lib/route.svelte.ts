import { fleet } from './fleet.svelte'

/** Route is the address of the view. Every view has one, and its filters live in the query. */
class Route {
  path = $state(location.pathname)
  query = $state.raw(new URLSearchParams(location.search))

  constructor() {
    addEventListener('popstate', () => this.read())
    // The browser itself follows links to other pages of the server (/docs) and links that open a new tab.
    addEventListener('click', (e) => {
      const link = (e.target as Element | null)?.closest?.('a')
      if (!link || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return
      if (link.hash || link.target || link.origin !== location.origin || !isRoom(link.pathname)) return
      e.preventDefault()
      this.go(link.pathname + link.search)
    })
  }

  private read() {
    this.path = location.pathname
    this.query = new URLSearchParams(location.search)
  }

  go(address: string) {
    if (address === location.pathname + location.search) return
    history.pushState(null, '', address)
    this.read()
    scrollTo(0, 0)
  }

  /** set changes a filter without a new entry in the history, so that going back leaves the view. */
  set(name: string, value: string) {
    const query = new URLSearchParams(location.search)
    if (value) query.set(name, value)
    else query.delete(name)
    const search = query.toString()
    history.replaceState(null, '', location.pathname + (search ? '?' + search : ''))
    this.read()
  }

  get(name: string): string {
    return this.query.get(name) ?? ''
  }
}

/** rooms are the first parts of the paths of the page. The server answers them with the page; page.go has the same. */
export const rooms = ['attention', 'queue', 'agents', 'tasks', 'usage', 'toolsets', 'admin']

function isRoom(path: string): boolean {
  return path === '/' || rooms.includes(path.split('/')[1] ?? '')
}

export const route = new Route()

/** at builds a path whose parts are escaped. */
export function at(...parts: string[]): string {
  return '/' + parts.map((part) => encodeURIComponent(part).replaceAll('%40', '@')).join('/')
}

/** agentAt is the address of an agent's room. */
export function agentAt(name: string, owner: string | undefined): string {
  return at('agents', fleet.ref(name, owner))
}
