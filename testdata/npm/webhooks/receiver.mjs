// A receiver of webhooks that verifies every request with the library standardwebhooks. It is down, slow, and loses some of its answers. It
// prints its port. PUT / sets the secrets and whether there is trouble, and GET / returns what it has.
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { Webhook } from 'standardwebhooks'

let judges = []
let trouble = false
const report = { accepted: {}, requests: 0, down: 0, refused: 0, slow: 0, lost: 0, repeated: 0, invalid: [] }

createServer(async (request, response) => {
  const body = await text(request)
  if (request.method === 'GET') return response.end(JSON.stringify(report))
  if (request.method === 'PUT') {
    const settings = JSON.parse(body)
    judges = settings.secrets.map((secret) => new Webhook(secret))
    trouble = settings.trouble
    return response.end()
  }
  const kind = trouble ? report.requests++ % 20 : -1
  if (kind === 1) {
    report.down++
    return response.destroy()
  }
  if (kind === 6) {
    report.refused++
    return response.writeHead(503).end('come back later')
  }
  if (kind === 11) {
    report.slow++
    await setTimeout(200)
  }
  const id = request.headers['webhook-id']
  try {
    for (const judge of judges) judge.verify(body, request.headers) // each of the valid secrets must do
  } catch (error) {
    report.invalid.push(`${id}: ${error.message}`)
  }
  const { cursor } = JSON.parse(body).data
  if (id in report.accepted) report.repeated++
  if (id in report.accepted && report.accepted[id] !== cursor) report.invalid.push(`${id} has two events`)
  report.accepted[id] = cursor
  if (kind === 16) {
    report.lost++
    return response.destroy()
  }
  response.writeHead(204).end()
}).listen(0, '127.0.0.1', function () {
  console.log(this.address().port)
})
