import { requestId } from './api'
import { passes } from './retry'

/**
 * Attempts gives a call the same request id until the server has answered it. So the server does only once what the user
 * repeats after a lost answer, and another call gets another id.
 */
export class Attempts {
  private ids = new Map<string, string>()

  /** lost reports whether the call was sent, and its answer was lost. */
  lost(call: unknown): boolean {
    return this.ids.has(JSON.stringify(call))
  }

  /** make sends the call. Calls with equal descriptions, such as method and body, are the same call. */
  async make<T>(call: unknown, send: (request_id: string) => Promise<T>): Promise<T> {
    const key = JSON.stringify(call)
    const id = this.ids.get(key) ?? requestId()
    this.ids.set(key, id)
    try {
      const answer = await send(id)
      this.ids.delete(key)
      return answer
    } catch (e) {
      if (!passes(e)) this.ids.delete(key) // the server has refused it
      throw e
    }
  }
}
