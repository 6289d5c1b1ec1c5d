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
