import { diffWordsWithSpace } from 'diff'
import { parse } from 'diff2html/lib-esm/diff-parser'
import { count } from './format'

/** DiffLine is a line of a patch. Changed parts are the words that differ from the line that it replaces. */
export interface DiffLine {
  kind: 'head' | 'context' | 'insert' | 'delete'
  before?: number
  after?: number
  parts: { text: string; changed: boolean }[]
}

const longest = 2000 // characters of a line that are shown
const longestCompared = 400 // characters of lines whose words are compared

/** linesOf reads a patch in the unified format. Without a header with file names, it is one of a single file. */
export function linesOf(patch: string): DiffLine[] {
  const whole = /^(diff |--- )/m.test(patch.slice(0, 2000)) ? patch : `--- a/file\n+++ b/file\n${patch}`
  const lines: DiffLine[] = []
  for (const block of parse(whole).flatMap((file) => file.blocks)) {
    lines.push({ kind: 'head', parts: [{ text: block.header, changed: false }] })
    const from = lines.length
    for (const l of block.lines)
      lines.push({
        kind: l.type,
        before: l.oldNumber,
        after: l.newNumber,
        parts: [{ text: cut(l.content), changed: false }],
      })
    compareWords(lines, from)
  }
  return lines
}

/** compareWords compares deleted lines with the inserted lines that follow them, if there are as many. */
function compareWords(lines: DiffLine[], from: number) {
  for (let i = from; i < lines.length;) {
    const end = (kind: DiffLine['kind'], at: number) => {
      while (lines[at]?.kind === kind) at++
      return at
    }
    const middle = end('delete', i)
    const last = end('insert', middle)
    if (middle > i && last - middle === middle - i)
      for (let n = 0; n < middle - i; n++) comparePair(lines[i + n]!, lines[middle + n]!)
    i = Math.max(last, i + 1)
  }
}

function comparePair(deleted: DiffLine, inserted: DiffLine) {
  const [a, b] = [deleted.parts[0]!.text, inserted.parts[0]!.text]
  if (a.length > longestCompared || b.length > longestCompared) return
  const changes = diffWordsWithSpace(a.slice(1), b.slice(1))
  const same = changes.filter((c) => !c.added && !c.removed).reduce((n, c) => n + c.value.trim().length, 0)
  if (same * 3 < Math.min(a.length, b.length)) return // they have too little in common
  const side = (sign: string, skip: 'added' | 'removed') => [
    { text: sign, changed: false },
    ...changes.filter((c) => !c[skip]).map((c) => ({ text: c.value, changed: c.added || c.removed })),
  ]
  deleted.parts = side('-', 'added')
  inserted.parts = side('+', 'removed')
}

function cut(line: string): string {
  return line.length <= longest ? line : `${line.slice(0, longest)} … ${count(line.length - longest, 'more character')}`
}

/** sizeOf counts the inserted and deleted lines of a patch without file names. */
export function sizeOf(patch: string): { insertions: number; deletions: number } {
  return { insertions: patch.match(/^\+/gm)?.length ?? 0, deletions: patch.match(/^-/gm)?.length ?? 0 }
}
