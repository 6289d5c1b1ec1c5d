import type { Review } from './api'
import { load, save } from './storage'

export type Comment = Required<Review['comments'][number]>

/** Spot is a line of a file, or the whole file if the line is 0. */
export interface Spot {
  path: string
  line: number
  old: boolean
}

export const isAt = (c: Spot, s: Spot): boolean => c.path === s.path && c.line === s.line && c.old === s.old

/**
 * Draft is a review that the user writes: comments on lines, and which files they have seen. The browser keeps it until
 * it is sent.
 */
export class Draft {
  comments = $state.raw<Comment[]>([])
  text = $state('')
  /** viewed has the commit at which each file was seen. */
  viewed = $state.raw<Record<string, string>>({})
  /** writing is where the user writes a comment. */
  writing = $state.raw<Spot>()

  private readonly name: string

  constructor(task: string) {
    this.name = 'review-' + task
    try {
      const kept = JSON.parse(load(this.name) ?? '{}') as Partial<Draft>
      this.comments = kept.comments ?? []
      this.text = kept.text ?? ''
      this.viewed = kept.viewed ?? {}
    } catch {
      // another program's value
    }
  }

  add(at: Spot, text: string) {
    this.comments = [...this.comments.filter((c) => !isAt(c, at)), ...(text.trim() ? [{ ...at, text }] : [])]
    this.writing = undefined
    this.keep()
  }

  /** see records the commit at which the user has seen the file; '' if they have not. */
  see(path: string, commit: string) {
    const viewed = { ...this.viewed, [path]: commit }
    if (!commit) delete viewed[path]
    this.viewed = viewed
    this.keep()
  }

  sent() {
    this.comments = []
    this.text = ''
    this.keep()
  }

  keep() {
    const { comments, text, viewed } = this
    const empty = !comments.length && !text && !Object.keys(viewed).length
    save(this.name, empty ? null : JSON.stringify({ comments, text, viewed }))
  }
}
