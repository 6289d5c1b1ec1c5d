import createClient from 'openapi-fetch'
import type { components, paths } from '../gen/api'

// The types come from the OpenAPI document of the server; `npm run types` writes them.
type Schemas = components['schemas']
export type AgentSummary = Schemas['AgentSummary']
export type Agent = Schemas['Agent']
export type Task = Schemas['Task']
export type TaskDetail = Schemas['TaskDetail']
export type Question = Schemas['Question']
export type Project = Schemas['Project']
export type Role = Schemas['Role']
export type PlaceStatus = Schemas['PlaceStatus']
export type FleetEvent = Schemas['Event']
export type FileChange = Schemas['FileChange']
export type Token = Schemas['Token']
export type Share = Schemas['Share']
export type AuditEntry = Schemas['AuditEntry']
export type Scope = Schemas['ShowFleetResponse']['scope']
export type FoundItem = Schemas['FoundItem']

export const api = createClient<paths>({ baseUrl: '', fetch: fetchRenewed })

/** Problem is an answer of the server that is an error. Its message says what to do next. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    message: string,
  ) {
    super(message.charAt(0).toUpperCase() + message.slice(1)) // the API's messages are parts of sentences in other places
  }
}

/** signedOut is called when the server asks for a token, and sessionChanged when the reader signed in or out here. */
let signedOut = () => {}
let sessionChanged = () => {}
export function onSession(on: { signedOut: () => void; changed: () => void }) {
  signedOut = on.signedOut
  sessionChanged = on.changed
}

interface Answer<T> {
  data?: T
  error?: unknown
  response: Response
}

/** data returns what the call is answered with, and throws a Problem for an error. */
export async function data<T>(call: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>
  try {
    answer = await call
  } catch {
    throw new Problem(0, 'OFFLINE', 'The server cannot be reached.')
  }
  if (answer.response.ok && answer.data !== undefined) return answer.data
  const e = answer.error as { error?: string; message?: string } | undefined
  if (answer.response.status === 401) signedOut()
  throw new Problem(
    answer.response.status,
    e?.error ?? 'UNKNOWN',
    e?.message ?? `The server answered ${answer.response.status} ${answer.response.statusText}.`,
  )
}

/** events reads the log after the cursor, at most `most` events. The answer is a line of JSON a batch. */
export async function events(query: {
  cursor: string
  task_id?: string
  max_events?: number
  quiet?: boolean
}): Promise<{ events: FleetEvent[]; cursor: string }> {
  const text = await data(api.GET('/v1/events', { params: { query }, parseAs: 'text' }))
  const batches = text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as { events: FleetEvent[]; cursor: string })
  return { events: batches.flatMap((b) => b.events), cursor: batches.at(-1)?.cursor ?? query.cursor }
}

/** openSession signs in, and returns what went wrong. */
export async function openSession(by: { token: string } | { code: string }): Promise<string | undefined> {
  const response = await fetch('/session', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(by),
  })
  if (response.ok) {
    sessionChanged()
    return undefined
  }
  const e = (await response.json().catch(() => ({}))) as { message?: string }
  return e.message ?? `The server answered ${response.status}.`
}

/** Session is what the server says about this browser: what it takes, who its issuer is, and whether we are signed in. */
export interface Session {
  auth: string[]
  issuer: string
  signed_in: boolean
}

export async function session(): Promise<Session> {
  return (await fetch('/session')).json() as Promise<Session>
}

/** fetchRenewed sends the request, again with a new session if the old one has expired. */
async function fetchRenewed(request: Request): Promise<Response> {
  const again = request.clone()
  const response = await fetchAlive(request)
  return response.status === 401 && (await renewSession()) ? fetchAlive(again) : response
}

let patience = 25_000 // milliseconds
const mostPatience = 100_000
/** setPatience sets how long a read waits for its answer at first. */
export function setPatience(ms: number) {
  patience = ms
}

/**
 * fetchAlive sends the request. A read without an answer may be on a connection that is dead although nobody closed it, so it
 * is sent again on another one, and then has more time.
 */
async function fetchAlive(request: Request): Promise<Response> {
  if (request.method !== 'GET') return fetch(request)
  for (let limit = patience; ; limit = Math.min(2 * limit, mostPatience)) {
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(), limit)
    try {
      const response = await fetch(request, {
        cache: 'no-store',
        signal: AbortSignal.any([request.signal, late.signal]),
      })
      return response.body ? new Response(await response.arrayBuffer(), response) : response
    } catch (e) {
      if (request.signal.aborted || !late.signal.aborted) throw e
    } finally {
      clearTimeout(timer)
    }
  }
}

let renewing: Promise<boolean> | undefined

/** renewSession renews an expired session of the issuer, and reports whether there is a session then. */
export async function renewSession(): Promise<boolean> {
  renewing ??= renewAlone()
  try {
    return await renewing
  } finally {
    renewing = undefined
  }
}

/** renewAlone renews the session while no other tab does: an issuer may take a refresh token only once. */
async function renewAlone(): Promise<boolean> {
  const locks = navigator.locks as LockManager | undefined // only pages with TLS, or of this machine, have them
  return locks ? await locks.request('fleet-session', renew) : renew()
}

async function renew(): Promise<boolean> {
  const now = await session()
  if (now.signed_in || !now.auth.includes('oidc')) return now.signed_in
  return (await fetch('/session/refresh', { method: 'POST' })).ok
}

/** closeSession signs out, and returns where the browser continues: the issuer of the session may have one too. */
export async function closeSession(): Promise<string> {
  const response = await fetch('/session', { method: 'DELETE' })
  sessionChanged()
  return response.status === 200 ? ((await response.json()) as { continue: string }).continue : '/'
}

/** requestId returns an id that makes the repetition of a call harmless. */
export function requestId(): string {
  // crypto.randomUUID exists only where the page has TLS or is on this machine.
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('')
}

/** pages reads all pages of a list, at most `most` rows. */
export async function pages<R>(
  read: (cursor: string) => Promise<{ rows: R[]; next?: string }>,
  most = 20_000,
): Promise<R[]> {
  const all: R[] = []
  let cursor = ''
  do {
    const page = await read(cursor)
    all.push(...page.rows)
    cursor = page.next ?? ''
  } while (cursor !== '' && all.length < most)
  return all
}
