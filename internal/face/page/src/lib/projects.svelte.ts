import { api, data, pages, type Pool, type Project, type Role } from './api'

/** Projects has the projects, their roles, and the pools, which are read when they are needed. */
class Projects {
  list = $state.raw<Project[]>([])
  pools = $state.raw<Pool[]>([])
  problem = $state('')

  private roles = new Map<string, Promise<Role[]>>()

  async read() {
    try {
      const projects = pages(async (cursor) => {
        const page = await data(api.GET('/v1/projects', { params: { query: { cursor } } }))
        return { rows: page.projects, next: page.next_cursor }
      })
      const pools = pages(async (cursor) => {
        const page = await data(api.GET('/v1/pools', { params: { query: { cursor } } }))
        return { rows: page.pools, next: page.next_cursor }
      })
      ;[this.list, this.pools] = await Promise.all([projects, pools])
      this.roles.clear()
      this.problem = ''
    } catch (e) {
      this.problem = e instanceof Error ? e.message : String(e)
    }
  }

  /** ref returns the project's name, with its place if several places have a project of that name. */
  ref(p: Project | undefined): string {
    if (!p) return ''
    return this.list.filter((other) => other.name === p.name).length > 1 ? `${p.place}/${p.name}` : p.name
  }

  rolesOf(project: string): Promise<Role[]> {
    let roles = this.roles.get(project)
    if (!roles) {
      const call = api.GET('/v1/projects/{project}/roles', { params: { path: { project } } })
      roles = data(call).then((answer) => answer.roles)
      roles.catch(() => this.roles.delete(project))
      this.roles.set(project, roles)
    }
    return roles
  }
}

export const projects = new Projects()
