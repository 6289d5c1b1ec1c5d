import Anser from 'anser'

export interface Span {
  text: string
  classes: string
}

const memory = new Map<string, Span[]>()

/** spans splits a line of terminal output by its colours. Other escape sequences are dropped by the parser. */
export function spans(line: string): Span[] {
  if (!line.includes('\u001b')) return [{ text: line, classes: '' }]
  let result = memory.get(line)
  if (!result) {
    result = Anser.ansiToJson(line, { use_classes: true, remove_empty: true }).map((part) => ({
      text: part.content,
      classes: [part.fg, part.bg && part.bg + '-bg', ...(part.decorations ?? []).map((d) => 'ansi-' + d)]
        .filter(Boolean)
        .join(' '),
    }))
    if (memory.size > 2000) memory.clear()
    memory.set(line, result)
  }
  return result
}
