import { Hub, type Ask } from './lib/hub'

// The worker that all tabs of the browser share.
const hub = new Hub()
addEventListener('connect', (e) => {
  const port = (e as MessageEvent).ports[0]!
  hub.join(port)
  port.onmessage = (m: MessageEvent<Ask>) => hub.take(port, m.data)
  // A crashed tab does not send 'leave'.
  port.addEventListener('close', () => hub.take(port, { kind: 'leave' }))
})
