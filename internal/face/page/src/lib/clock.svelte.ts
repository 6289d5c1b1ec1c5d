/** clock has the current time and changes every second. Views that show ages read it. */
class Clock {
  now = $state(Date.now())

  constructor() {
    setInterval(() => {
      if (!document.hidden) this.now = Date.now()
    }, 1000)
    document.addEventListener('visibilitychange', () => (this.now = Date.now()))
  }
}

export const clock = new Clock()
