// This program writes the hash of the sources into dist; `make page` runs it after the build. page_test.go computes the
// same hash, and fails if dist is older than the sources.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

const root = new URL('.', import.meta.url)
const single = ['index.html', 'package-lock.json', 'svelte.config.js', 'vite.config.ts']

function files(dir) {
  return readdirSync(new URL(dir + '/', root), { withFileTypes: true }).flatMap((d) =>
    d.isDirectory() ? files(`${dir}/${d.name}`) : [`${dir}/${d.name}`],
  )
}

const hash = createHash('sha256')
const names = [...single, ...files('src').filter((name) => !name.startsWith('src/gen/'))].sort()
for (const name of names) hash.update(name + '\0').update(readFileSync(new URL(name, root)))
writeFileSync(new URL('dist/sources.sha256', root), hash.digest('hex') + '\n')
