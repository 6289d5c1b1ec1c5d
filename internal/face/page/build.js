// The hash of the sources, which `make page` writes beside what it builds. page_test.go computes the same, and fails when
// dist is older than the sources.
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
