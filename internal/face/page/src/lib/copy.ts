/** Call is a call of the API, for people who want to make it elsewhere. */
export interface Call {
  /** tool is the name of the MCP tool, and of the method in snake case. */
  tool: string
  args: Record<string, unknown>
  method: 'GET' | 'POST' | 'DELETE'
  path: string
  body?: Record<string, unknown>
  /** cli has the arguments of `fleet`. */
  cli: string[]
}

/** quote quotes an argument for a POSIX shell where it needs that. */
export function quote(arg: string): string {
  return /^[\w@%+=:,./-]+$/.test(arg) ? arg : "'" + arg.replaceAll("'", `'\\''`) + "'"
}

export function asCLI(c: Call): string {
  return ['fleet', ...c.cli].map(quote).join(' ')
}

/** asCurl names no token: what is copied ends in histories and chats. */
export function asCurl(c: Call): string {
  const parts = ['curl']
  if (c.method !== 'GET') parts.push('-X', c.method)
  parts.push('-H', '"Authorization: Bearer $FLEET_TOKEN"')
  if (c.body) parts.push('-H', quote('Content-Type: application/json'), '-d', quote(JSON.stringify(c.body)))
  parts.push(quote(location.origin + c.path))
  return parts.join(' ')
}

export function asMCP(c: Call): string {
  return JSON.stringify(
    { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: c.tool, arguments: c.args } },
    null,
    2,
  )
}
