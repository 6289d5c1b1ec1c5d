import { Problem, wordsOf } from './api'

/** passes reports whether a second call may succeed after the error. */
export const passes = (e: unknown): boolean =>
  !(e instanceof Problem) || e.status === 0 || e.status === 429 || e.status >= 500

/**
 * retry calls work until it succeeds or fails with a permanent error. The pauses between the calls grow. retry calls
 * failed for each error, and ends early when wanted returns false.
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
      failed(e, wordsOf(e))
      if (!passes(e)) return
    }
    await new Promise((done) => setTimeout(done, pause))
    if (!wanted()) return
  }
}
