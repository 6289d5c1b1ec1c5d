// The schemes that a link of a workspace may have: those that Coder's own page allows, without those that run a script.
const schemes = [
  'https:',
  'http:',
  'vscode:',
  'vscode-insiders:',
  'cursor:',
  'windsurf:',
  'jetbrains-gateway:',
  'jetbrains:',
]

// openable returns the address if the page may link to it.
export function openable(address: string | undefined): string | undefined {
  if (!address || !URL.canParse(address)) return undefined
  return schemes.includes(new URL(address).protocol) ? address : undefined
}

// webAddress returns the address if it is one of the web or of a mailbox: the links that a text of an agent may have.
export function webAddress(address: string): string | undefined {
  if (!URL.canParse(address)) return undefined
  return ['https:', 'http:', 'mailto:'].includes(new URL(address).protocol) ? address : undefined
}
