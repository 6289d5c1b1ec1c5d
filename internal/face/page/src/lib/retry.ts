import { Problem } from './api'

/** passes reports whether what went wrong may be over when the call is made again. */
const passes = (e: unknown): boolean => !(e instanceof Problem) || e.status === 0 || e.status === 429 || e.status >= 500

/**
 * retry works until that succeeds or fails for a reason that stays, with pauses that grow. It calls failed for each
 * failure, and ends early when wanted returns false.
 */
export async function retry(
  work: () => Promise<void>,
  failed: (e: unknown, words: string) => void,
  wanted: () => boolean = () => true,
): Promise<void> {
  for (let pause = 500; ; pause = Math.min(2 * pause, 10_000)) {
    try {
      return await work()
    } catch (e) {
      if (!wanted()) return
      failed(e, e instanceof Error ? e.message : String(e))
      if (!passes(e)) return
    }
    await new Promise((done) => setTimeout(done, pause))
    if (!wanted()) return
  }
}
