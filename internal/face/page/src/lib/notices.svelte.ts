import { route } from './route.svelte'
import { load, save } from './storage'

/** Notices shows notifications of the system while the page is not in sight, if the user wants them. */
class Notices {
  /** possible says whether the browser can show some. Only pages with TLS or on this machine can. */
  readonly possible = 'Notification' in window && window.isSecureContext
  on = $state(this.possible && load('notices') === 'on' && Notification.permission === 'granted')

  async toggle() {
    this.on = !this.on && (await Notification.requestPermission()) === 'granted'
    save('notices', this.on ? 'on' : null)
  }

  /** show shows the text. Several tabs show it once, because a notification replaces another one with the same tag. */
  show(text: string) {
    if (!this.on || !document.hidden) return
    const notice = new Notification('Fleet', { body: text, tag: text })
    notice.onclick = () => {
      window.focus()
      route.go('/attention')
    }
  }
}

export const notices = new Notices()
