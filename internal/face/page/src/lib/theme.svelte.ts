import { load, save } from './storage'

type Name = 'system' | 'light' | 'dark'

/** theme is light or dark. It is the system's until the user chooses another one. */
class Theme {
  name = $state<Name>((load('theme') as Name | null) ?? 'system')

  /** dark says whether the system prefers dark colours. */
  dark = $state(false)

  constructor() {
    this.apply()
    const system = matchMedia('(prefers-color-scheme: dark)')
    this.dark = system.matches
    system.addEventListener('change', () => (this.dark = system.matches))
  }

  next() {
    this.name = this.name === 'system' ? 'dark' : this.name === 'dark' ? 'light' : 'system'
    save('theme', this.name)
    this.apply()
  }

  private apply() {
    document.documentElement.style.colorScheme = this.name === 'system' ? 'light dark' : this.name
  }
}

export const theme = new Theme()
