import js from '@eslint/js'
import prettier from 'eslint-config-prettier'
import svelte from 'eslint-plugin-svelte'
import globals from 'globals'
import ts from 'typescript-eslint'
import config from './svelte.config.js'

export default ts.config(
  { ignores: ['dist', 'src/gen'] },
  js.configs.recommended,
  ...ts.configs.recommended,
  ...svelte.configs.recommended,
  prettier,
  ...svelte.configs.prettier,
  { languageOptions: { globals: { ...globals.browser, ...globals.node } } },
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: { parserOptions: { parser: ts.parser, svelteConfig: config } },
    rules: {
      // Every text of the server is hostile input: none is ever inserted as HTML.
      'svelte/no-at-html-tags': 'error',
      // Links are intercepted in one place, lib/route.svelte.ts.
      'svelte/no-navigation-without-resolve': 'off',
      // These collections are not shown: what is shown is replaced as a whole, which is cheaper for thousands of rows.
      'svelte/prefer-svelte-reactivity': 'off',
    },
  },
)
