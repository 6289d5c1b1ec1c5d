import { diffWordsWithSpace } from 'diff'
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

/**
 * linesOf reads a patch of one file in the unified format, with or without a header with file names. Only a newline ends
 * a line, and each line of the file has a sign before it. So no line is taken for a header, and no part of one is hidden.
 */
export function linesOf(patch: string): DiffLine[] {
  const lines: DiffLine[] = []
  let [before, after] = [1, 1] // the numbers of the next lines
  let header = /^(diff |--- )/.test(patch)
  let from = 0 // where the lines of the hunk begin
  const add = (kind: DiffLine['kind'], line: string, numbers: { before?: number; after?: number } = {}) =>
    lines.push({ kind, ...numbers, parts: [{ text: cut(line), changed: false }] })
  for (const text of patch.replace(/\n$/, '').split('\n')) {
    const line = text.replace(/\r$/, '')
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line)
    if (hunk) {
      compareWords(lines, from)
      before = Number(hunk[1])
      after = Number(hunk[2])
      header = false
      add('head', line)
      from = lines.length
    } else if (header || line.startsWith('diff ')) header = true
    else if (line.startsWith('-')) add('delete', line, { before: before++ })
    else if (line.startsWith('+')) add('insert', line, { after: after++ })
    else if (line.startsWith(' ') || line === '') add('context', line, { before: before++, after: after++ })
  }
  compareWords(lines, from)
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
