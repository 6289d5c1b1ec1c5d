import { svelte } from '@sveltejs/vite-plugin-svelte'
import { env } from 'node:process'
import { defineConfig } from 'vite'

// FLEET is the server that the development server forwards API calls to.
const server = env.FLEET ?? 'http://127.0.0.1:8101'
const forwarded = ['/v1', '/api', '/docs', '/openapi.json', '/readyz', '/healthz', '/session']

export default defineConfig({
  plugins: [svelte()],
  // Two builds of the same sources must be equal, and the Content-Security-Policy allows no inline data.
  build: { target: 'es2022', assetsInlineLimit: 0, modulePreload: { polyfill: false }, reportCompressedSize: false },
  server: {
    proxy: Object.fromEntries(forwarded.map((path) => [path, { target: server, changeOrigin: true }])),
  },
})
