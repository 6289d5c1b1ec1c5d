import createClient from 'openapi-fetch'
import type { components, paths } from '../gen/api'
import { forget, headers, keep, kept, type Kept } from './session'

// The types come from the OpenAPI document of the server; `npm run types` writes them.
type Schemas = components['schemas']
export type AgentSummary = Schemas['AgentSummary']
export type Agent = Schemas['Agent']
export type Task = Schemas['Task']
export type TaskDetail = Schemas['TaskDetail']
export type TreeTask = Schemas['TreeTask']
export type Question = Schemas['Question']
export type Project = Schemas['Project']
export type Role = Schemas['Role']
export type PlaceStatus = Schemas['PlaceStatus']
export type FleetEvent = Schemas['Event']
export type FileChange = Schemas['FileChange']
export type Token = Schemas['Token']
export type Step = Schemas['Step']
export type BulkItem = Schemas['BulkItem']
export type Review = Schemas['Review']
export type ReviewedTask = Schemas['ReviewedTask']
export type Landing = Schemas['Landing']
export type Share = Schemas['Share']
export type AuditEntry = Schemas['AuditEntry']
export type Scope = Schemas['ShowFleetResponse']['scope']
export type FoundItem = Schemas['FoundItem']
export type Queued = Schemas['Queued']
export type QueuedTask = Schemas['QueuedTask']
export type QueueSummary = Schemas['ShowQueueResponse']
export type Pool = Schemas['Pool']
export type Budget = Schemas['Budget']
export type Credential = Schemas['Credential']

export const api = createClient<paths>({ baseUrl: '', fetch: fetchRenewed })

/** Problem is an error that the server answered. Its message says what to do next. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    message: string,
  ) {
    super(message.charAt(0).toUpperCase() + message.slice(1)) // the API's messages begin with a lower-case letter
  }
}

/**
 * signedOut is called when the server requires a token, sessionChanged when the user signs in or out in this tab, and
 * sessionRenewed when the same user has a new token.
 */
let signedOut = () => {}
let sessionChanged = () => {}
let sessionRenewed = () => {}
export function onSession(on: { signedOut: () => void; changed: () => void; renewed: () => void }) {
  signedOut = on.signedOut
  sessionChanged = on.changed
  sessionRenewed = on.renewed
}

const offline = 'The server cannot be reached. See whether it runs, and whether this computer is online.'

/** wordsOf says what went wrong. Browsers say only "Failed to fetch" if there is no connection. */
export const wordsOf = (e: unknown): string =>
  e instanceof TypeError ? offline : e instanceof Error ? e.message : String(e)

interface Answer<T> {
  data?: T
  error?: unknown
  response: Response
}

/** data returns the answer of the call. It throws a Problem if the call fails. */
export async function data<T>(call: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>
  try {
    answer = await call
  } catch {
    throw new Problem(0, 'OFFLINE', offline)
  }
  if (answer.response.ok && answer.data !== undefined) return answer.data
  const e = answer.error as { error?: string; message?: string } | undefined
  throw new Problem(
    answer.response.status,
    e?.error ?? 'UNKNOWN',
    e?.message ?? `The server answered ${answer.response.status} ${answer.response.statusText}.`,
  )
}

/**
 * events reads the log after the cursor, at most max_events events. The server answers with a line of JSON for each
 * batch.
 */
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

/** openSession signs in. It returns an error message if that fails. */
export async function openSession(by: { token: string } | { code: string }): Promise<string | undefined> {
  const response = await fetch('/session', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(by),
  })
  if (response.ok) {
    keep((await response.json()) as Kept)
    signedIn()
    return undefined
  }
  const e = (await response.json().catch(() => ({}))) as { message?: string }
  return e.message ?? `The server answered ${response.status}.`
}

/** Session tells which credentials the server accepts, who its issuer is, and whether this browser is signed in. */
export interface Session {
  auth: string[]
  issuer: string
  signed_in: boolean
}

export async function session(): Promise<Session> {
  return (await fetch('/session', { headers: headers() })).json() as Promise<Session>
}

/** takeSession begins the session with which the browser has come back from the issuer. */
export async function takeSession(of: Kept) {
  await locked(() => keep(of))
  signedIn()
}

let signIns = 0 // of this tab

function signedIn() {
  signIns++
  renewing = undefined // it is about the earlier session
  sessionChanged()
}

/**
 * sameSession returns a function that reports whether nobody has signed in since the call of sameSession. Otherwise an answer
 * that comes late is about the earlier session.
 */
function sameSession(): () => boolean {
  const before = signIns
  return () => before === signIns
}

/** sessionEnd returns a function that calls signedOut, unless somebody has signed in since the call of sessionEnd. */
export function sessionEnd(): () => void {
  const same = sameSession()
  return () => {
    if (same()) signedOut()
  }
}

/**
 * fetchRenewed sends the request with send. If the session has expired, it renews the session and sends the request again,
 * but not for somebody else who has signed in meanwhile. If the server still requires a token, the session has ended.
 */
export async function fetchRenewed(request: Request, send = fetchAlive): Promise<Response> {
  const again = request.clone()
  const same = sameSession()
  let response = await send(signed(request))
  if (response.status === 401 && (await renewSession()) && same()) response = await send(signed(again))
  if (response.status === 401 && same()) signedOut()
  return response
}

/** signed adds the headers of the session to the request. */
function signed(request: Request): Request {
  for (const [name, value] of Object.entries(headers())) request.headers.set(name, value)
  return request
}

/** download saves the file at the address. A link could not send the headers of the session. */
export async function download(address: string) {
  let name = 'download'
  const file = await data(
    fetchRenewed(new Request(address), fetch).then(async (response) => {
      if (!response.ok) return { response, error: (await response.json().catch(() => ({}))) as unknown }
      name = /filename="?([^";]+)/.exec(response.headers.get('Content-Disposition') ?? '')?.[1] ?? name
      return { response, data: await response.blob() }
    }),
  )
  save(file, name)
}

/** save gives the browser a file with the name. */
export function save(content: Blob, name: string) {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(content)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000) // some browsers read it only after a while
}

let patience = 25_000 // milliseconds
const mostPatience = 100_000
/** setPatience sets how long the first try of a read waits for an answer. */
export function setPatience(ms: number) {
  patience = ms
}

/**
 * fetchAlive sends the request. If a read gets no answer, its connection may be dead without having been closed. So
 * fetchAlive sends the read again on another connection, with more time for each try.
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

/** renewSession renews an expired session of the issuer, and reports whether the browser is signed in afterwards. */
export async function renewSession(): Promise<boolean> {
  const current = (renewing ??= locked(renew))
  try {
    return await current
  } finally {
    if (renewing === current) renewing = undefined
  }
}

/**
 * locked changes the session while no other tab does. For example, an issuer may accept a refresh token only once.
 */
async function locked<T>(change: () => T | Promise<T>): Promise<T> {
  const locks = navigator.locks as LockManager | undefined // only pages with TLS or on this machine have locks
  return locks ? ((await locks.request('fleet-session', change)) as T) : change()
}

async function renew(): Promise<boolean> {
  const now = await session()
  const { refresh } = kept()
  if (now.signed_in || !now.auth.includes('oidc') || !refresh) return now.signed_in
  const response = await fetch('/session/refresh', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ refresh }),
  })
  if (response.ok) {
    keep((await response.json()) as Kept)
    sessionRenewed()
  } else if (response.status === 401 || response.status === 403) forget()
  return response.ok
}

/** closeSession signs out. It returns the address to open next, where the issuer may end its own session. */
export async function closeSession(): Promise<string> {
  const response = await locked(async () => {
    const response = await fetch('/session', { method: 'DELETE', headers: headers() })
    forget()
    return response
  })
  sessionChanged()
  return response.status === 200 ? ((await response.json()) as { continue: string }).continue : '/'
}

/** requestId returns a new id for a call. A call can safely be repeated with the same id. */
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
