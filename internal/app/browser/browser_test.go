// Package browser tests the live page in a real browser, on real servers. In most tests, the agents run on this machine.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"fleet/internal/app"
	"fleet/internal/waittest"
)

// TestMain lets the test binary also act as the fleet program: a server under test starts that program for its runs, and tests start
// its commands agent and token.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"shim", "ask", "acp", "claude", "model", "token", "agent"}, os.Args[1]) {
		os.Exit(app.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// chromium starts the browser once for all tests. Each test has its own context in it.
var chromium = sync.OnceValues(func() (context.Context, error) {
	path := os.Getenv("FLEET_TEST_CHROMIUM")
	// The headless shell has the same engine but no browser windows, and needs half the processor time.
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); path == "" && err == nil {
			path = found
		}
	}
	if path == "" {
		return nil, exec.ErrNotFound
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(waittest.Limit),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-dev-shm-usage", true),
	)
	allocator, _ := chromedp.NewExecAllocator(context.Background(), options...) // the browser ends with the test binary
	browser, _ := chromedp.NewContext(allocator)
	return browser, chromedp.Do(browser)
})

// tab is a tab of the browser. At the end of the test it fails the test if the page has reported an unexpected error.
type tab struct {
	t    *testing.T
	ctx  context.Context
	home string // URL of the server

	mu            sync.Mutex
	errors        []string
	allowedErrors []string // parts of the errors that do not fail the test
}

// openTab opens a tab that shares nothing with other tabs. It skips the test if there is no Chromium.
func openTab(t *testing.T, home string) *tab {
	t.Helper()
	browser, err := chromium()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("no Chromium was found: install Debian's package chromium-headless-shell, or name one in FLEET_TEST_CHROMIUM")
	}
	require.NoError(t, err)
	return newTab(t, home, browser, chromedp.WithNewBrowserContext())
}

// openAt opens a tab as openTab does, and goes to the path.
func openAt(t *testing.T, home, path string) *tab {
	t.Helper()
	b := openTab(t, home)
	b.goTo(path)
	return b
}

// newTab opens another tab that shares the session of b.
func (b *tab) newTab() *tab {
	b.t.Helper()
	return newTab(b.t, b.home, b.ctx)
}

func newTab(t *testing.T, home string, parent context.Context, options ...chromedp.ContextOption) *tab { //nolint:revive // the context belongs to the tab, not to this call
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent, options...)
	b := &tab{t: t, ctx: ctx, home: home, allowedErrors: []string{"/output?"}} // the request fails for a task whose run has not begun, because the task has no output yet
	console := chromedp.Console(ctx)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for m, err := range console {
			if err == nil && (m.IsException() || m.Type == chromedp.ConsoleError) {
				b.addError(m.Text + " " + m.URL)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-read
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, e := range b.errors {
			require.True(t, slices.ContainsFunc(b.allowedErrors, func(part string) bool { return strings.Contains(e, part) }), "the page reported: %s", e)
		}
	})
	b.run(chromedp.EmulateViewport(1280, 900))
	return b
}

// allowErrors allows errors of the page that contain the given part.
func (b *tab) allowErrors(part string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.allowedErrors = append(b.allowedErrors, part)
}

func (b *tab) addError(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors = append(b.errors, text)
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waittest.Limit)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, actions...))
}

// result runs the action and returns its result.
func result[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waittest.Limit)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	require.NoError(b.t, err)
	return v
}

// call calls a command of the browser's protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	r, err := chromedp.Call(b.ctx, command, params)
	require.NoError(b.t, err)
	return r
}

// waitUntil waits until the JavaScript function returns true in the page, which may be reloaded meanwhile. After
// waittest.Limit it returns an error that says what the page shows.
func (b *tab) waitUntil(function string, args ...any) error {
	ctx, cancel := context.WithTimeout(b.ctx, waittest.Limit)
	defer cancel()
	for {
		_, err := chromedp.Run(ctx, chromedp.PollFunction[bool](function, chromedp.WithPollingArgs(args...),
			chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(0)))
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !strings.Contains(err.Error(), "-32000") { // the page was reloaded meanwhile
			return fmt.Errorf("%w: %s", err, b.describe())
		}
	}
}

// describe returns the page's address, the element with the focus and the text, or says that the page does not answer.
func (b *tab) describe() string {
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`[location.href, document.activeElement?.outerHTML.slice(0, 200), document.body?.innerText].join('\n')`))
	if err != nil {
		return "the page does not answer: " + err.Error()
	}
	return "the page is " + text
}

func (b *tab) goTo(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.home + path))
}

// waitForText waits until the page shows the text.
func (b *tab) waitForText(text string) {
	b.t.Helper()
	err := b.waitUntil(`text => document.body?.innerText.includes(text)`, text)
	require.NoError(b.t, err, "the page does not show %q", text)
}

// waitUntilGone waits until the page no longer shows the text.
func (b *tab) waitUntilGone(text string) {
	b.t.Helper()
	err := b.waitUntil(`text => !document.body?.innerText.includes(text)`, text)
	require.NoError(b.t, err, "the page still shows %q", text)
}

func (b *tab) text() string {
	return eval[string](b, `document.body?.innerText ?? ''`)
}

// eval evaluates the JavaScript expression in the page, and waits if it is a promise.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	return result(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// intercept lets the JavaScript function answer the requests of the page, until it is reloaded. The function gets the method, the path,
// and a function that sends the request.
func (b *tab) intercept(function string) {
	b.t.Helper()
	eval[bool](b, `((answer, send) => {
		window.fetch = (request, ...more) =>
			answer(request.method ?? 'GET', new URL(request.url ?? request, location.href).pathname, () => send(request, ...more))
		return true
	})(`+function+`, window.fetch.bind(window))`)
}

// press clicks the button or link with this name.
func (b *tab) press(name string) {
	b.t.Helper()
	require.NoError(b.t, b.waitUntil(`name => {
		const found = [...document.querySelectorAll('dialog[open] button, dialog[open] a')].concat([...document.querySelectorAll('main button, main a, main summary, header button, header a')])
			.find(e => (e.textContent.trim() === name || e.getAttribute('aria-label') === name) && !e.disabled && e.ariaDisabled !== 'true')
		found?.click()
		return !!found
	}`, name), "there is no button or link %q", name)
}

// pressKeys types the text, or presses a key of package kb, where the focus is.
func (b *tab) pressKeys(keys string, modifiers ...chromedp.KeyOption) {
	b.t.Helper()
	b.run(chromedp.KeyEvent(keys, modifiers...))
}

// fill writes the text into the field with this label or placeholder.
func (b *tab) fill(label, text string) {
	b.t.Helper()
	require.NoError(b.t, b.waitUntil(`(label, text = '') => {
		const root = document.querySelector('dialog[open]') ?? document
		const field = [...root.querySelectorAll('input, textarea, select')].find(e =>
			e.getAttribute('aria-label') === label || e.placeholder === label || e.closest('label')?.innerText.trim().startsWith(label))
		if (!field) return false
		field.value = text
		field.dispatchEvent(new Event('input', {bubbles: true}))
		field.dispatchEvent(new Event('change', {bubbles: true}))
		return true
	}`, label, text), "there is no field %q", label)
}

// setColorScheme makes the browser report that the system prefers the color scheme: light or dark.
func (b *tab) setColorScheme(name string) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// savePictures saves screenshots in .build/page, which git ignores: one light and one dark for each width. It does so only for
// `make page-pictures`.
func (b *tab) savePictures(name string, widths ...int64) {
	b.t.Helper()
	if os.Getenv("FLEET_TEST_PICTURES") == "" {
		return
	}
	dir := filepath.Join("..", "..", "..", ".build", "page")
	require.NoError(b.t, os.MkdirAll(dir, 0o755))
	for _, scheme := range []string{"light", "dark"} {
		b.setColorScheme(scheme)
		for _, width := range widths {
			b.run(chromedp.EmulateViewport(width, 900))
			data := result(b, chromedp.CaptureScreenshot())
			file := filepath.Join(dir, name+"-"+strconv.FormatInt(width, 10)+"-"+scheme+".png")
			require.NoError(b.t, os.WriteFile(file, data, 0o644))
		}
	}
	b.run(chromedp.EmulateViewport(1280, 900))
}

// waitForRows waits until the table has exactly one row for each text in want, in this order. Each row must begin with its text. Headings
// between the rows do not count.
func (b *tab) waitForRows(table string, want ...string) {
	b.t.Helper()
	err := b.waitUntil(`(table, want) => [...document.querySelectorAll('table[aria-label="' + table + '"] tbody tr:not(.lane)')]
		.map(row => row.innerText.replace(/\s+/g, ' ').trim()).map((row, i) => row.startsWith(want.split('|')[i]) ? '' : 'x').join('') === ''
		&& document.querySelectorAll('table[aria-label="' + table + '"] tbody tr:not(.lane)').length === want.split('|').length`, table, strings.Join(want, "|"))
	require.NoError(b.t, err, "the table does not have the rows %q", want)
}
