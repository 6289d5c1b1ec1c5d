import type { IconName } from '../parts/Icon.svelte'
import type { Step } from './api'

type Args = Record<string, unknown>

// The arguments that say what a call is about, the most telling first.
const telling = [
  'command',
  'file_path',
  'path',
  'notebook_path',
  'pattern',
  'query',
  'url',
  'description',
  'subject',
  'prompt',
  'question',
  'title',
  'name',
]

/** argsOf returns the arguments of a call, or undefined if they are not an object. */
export function argsOf(call: Step['tool_call']): Args | undefined {
  const args = call?.arguments
  return typeof args === 'object' && args !== null && !Array.isArray(args) ? (args as Args) : undefined
}

/** aboutOf says in one line what the step's call is about. */
export function aboutOf(step: Step): string {
  const args = argsOf(step.tool_call)
  for (const name of telling) {
    const value = args?.[name]
    if (typeof value === 'string' && value.trim()) return value
    if (Array.isArray(value) && value.every((v) => typeof v === 'string')) return value.join(' ')
  }
  const name = nameOf(step)
  return step.summary.startsWith(name) ? step.summary.slice(name.length).replace(/^:?\s*/, '') : step.summary
}

/** nameOf returns the name of the step's tool. Names of MCP tools are shown as server: tool. */
export function nameOf(step: Step): string {
  const name = step.tool_call?.name || step.tool_result?.name || step.denied?.name
  return name?.replace(/^mcp__(\w+?)__/, '$1: ') || (step.file_edit ? 'Edit' : 'Tool')
}

const icons: [RegExp, IconName][] = [
  [/bash|shell|exec|command|terminal/i, 'terminal'],
  [/edit|write|patch|notebook/i, 'pencil'],
  [/web|fetch|http/i, 'globe'],
  [/grep|glob|search|find|^ls$|list/i, 'search'],
  [/read|view|cat/i, 'file'],
  [/task|agent/i, 'people'],
  [/todo|plan/i, 'list'],
]

/** iconOf returns the icon of a tool. */
export const iconOf = (name: string): IconName => icons.find(([pattern]) => pattern.test(name))?.[1] ?? 'tool'
