import type { Token } from 'marked'

/**
 * Markdown splits texts into tokens, which Markdown.svelte shows as elements. So no text of an agent becomes HTML. The
 * parser is loaded when it is needed.
 */
class Markdown {
  private lex = $state.raw<(text: string) => Token[]>()

  async load() {
    if (this.lex) return
    const { lexer } = await import('marked')
    this.lex = (text) => lexer(text, { gfm: true, breaks: true })
  }

  /** tokens returns the blocks of the text, or one block with the text as it is while the parser is not loaded. */
  tokens(text: string): Token[] {
    return this.lex?.(text) ?? [{ type: 'text', raw: text, text }]
  }
}

export const markdown = new Markdown()

const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'", nbsp: '\u00a0' }

/** decode replaces the entities that models write in Markdown. */
export const decode = (text: string): string =>
  text.replace(/&(amp|lt|gt|quot|#39|nbsp);/g, (_, name) => entities[name]!)
