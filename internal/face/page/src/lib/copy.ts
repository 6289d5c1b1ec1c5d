import table from './calls.json'

/** Call is a call of the API, for people who want to make it elsewhere. */
export interface Call {
  /** tool is the name of the MCP tool, and of the method in snake case. */
  tool: keyof typeof table
  args: Record<string, string | number | string[] | undefined>
  /** label says what the call does, if several calls can be copied. */
  label?: string
}

// The table comes from the proto files and the commands: go test ./internal/face/cli -run TestPageCalls -update
interface Row {
  http: string
  tool: boolean
  command: string[]
  arguments?: string[]
  flags?: Record<string, string>
}

/** quote quotes an argument for a POSIX shell, if it needs quotes. */
function quote(arg: string): string {
  return /^[\w@%+=:,./-]+$/.test(arg) ? arg : "'" + arg.replaceAll("'", `'\\''`) + "'"
}

export function asCLI({ tool, args }: Call): string {
  const { command, arguments: positional = [], flags = {} } = table[tool] as Row
  const options = Object.entries(flags).flatMap(([field, flag]) =>
    [args[field] ?? []].flat().flatMap((value) => ['--' + flag, quote(value + unitOf(field))]),
  )
  // An argument that begins with a dash would be read as a flag. In place of an empty argument, the name of its field
  // is shown.
  const values = positional.map((field) => String(args[field] || field.toUpperCase()))
  const dashes = values.some((v) => v.startsWith('-')) ? ['--'] : []
  return ['fleet', ...command, ...options, ...dashes, ...values.map(quote)].join(' ')
}

/** unitOf returns the unit that a duration needs on the command line. The API takes a number of seconds. */
const unitOf = (field: string) => (field.endsWith('_seconds') ? 's' : '')

/** isTool reports whether the call is a tool of the MCP face. */
export const isTool = ({ tool }: Call): boolean => (table[tool] as Row).tool

/** asCurl leaves the token out, because copied text ends up in shell histories and chats. */
export function asCurl({ tool, args }: Call): string {
  const [verb = '', template = ''] = (table[tool] as Row).http.split(' ')
  const rest = Object.fromEntries(Object.entries(args).filter(([, value]) => value !== undefined))
  const path = template.replace(/\{(\w+)\}/g, (_, field: string) => {
    const value = encodeURIComponent(String(rest[field]))
    delete rest[field]
    return value
  })
  const parts = ['curl']
  if (verb !== 'GET') parts.push('-X', verb)
  parts.push('-H', '"Authorization: Bearer $FLEET_TOKEN"')
  if (verb === 'POST') parts.push('-H', quote('Content-Type: application/json'), '-d', quote(JSON.stringify(rest)))
  const query = new URLSearchParams(
    verb === 'POST' ? {} : Object.entries(rest).flatMap(([k, v]) => [v].flat().map((x) => [k, String(x)])),
  )
  parts.push(quote(location.origin + path + (query.size > 0 ? '?' + query : '')))
  return parts.join(' ')
}

export function asMCP({ tool, args }: Call): string {
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: tool, arguments: args } }
  return JSON.stringify(call, null, 2)
}

/** toClipboard copies the text. It also works without TLS, where browsers have no navigator.clipboard. */
export async function toClipboard(text: string, near: HTMLElement) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  const field = document.createElement('textarea')
  field.value = text
  near.append(field) // in a dialog, nothing outside of it can have the focus
  field.select()
  document.execCommand('copy')
  field.remove()
}
