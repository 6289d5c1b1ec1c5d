// Package browser tests the live page in a real browser, on real servers whose agents run on this machine.
package browser

import (
	"context"
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

// TestMain lets the test binary also act as the fleet program, because a server under test starts that program for its
// runs.
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

	mu       sync.Mutex
	errors   []string
	expected []string // parts of expected errors
}

func open(t *testing.T, home string) *tab {
	t.Helper()
	browser, err := chromium()
	if err != nil {
		t.Skip("no Chromium was found: install Debian's package chromium-headless-shell, or name one in FLEET_TEST_CHROMIUM")
	}
	return newTab(t, home, browser, chromedp.WithNewBrowserContext())
}

// newTab opens another tab that shares the login of t.
func (t *tab) newTab() *tab {
	t.t.Helper()
	return newTab(t.t, t.home, t.ctx)
}

func newTab(t *testing.T, home string, parent context.Context, options ...chromedp.ContextOption) *tab { //nolint:revive // the context belongs to the tab, not to this call
	t.Helper()
	ctx, cancel := chromedp.NewContext(parent, options...)
	b := &tab{t: t, ctx: ctx, home: home, expected: []string{"/output?"}} // the request fails for a task whose run has not begun, because the task has no output yet
	console := chromedp.Console(ctx)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for m, err := range console {
			if err == nil && (m.IsException() || m.Type == chromedp.ConsoleError) {
				b.report(m.Text + " " + m.URL)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-read
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, e := range b.errors {
			require.True(t, slices.ContainsFunc(b.expected, func(part string) bool { return strings.Contains(e, part) }), "the page reported: %s", e)
		}
	})
	b.run(chromedp.EmulateViewport(1280, 900))
	return b
}

// expect allows errors of the page that contain the given part.
func (t *tab) expect(part string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expected = append(t.expected, part)
}

func (t *tab) report(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errors = append(t.errors, text)
}

func (t *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, waittest.Limit)
	defer cancel()
	require.NoError(t.t, chromedp.Do(ctx, actions...))
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

// until waits until the function returns true in the page.
func (t *tab) until(function string, args ...any) error {
	ctx, cancel := context.WithTimeout(t.ctx, waittest.Limit)
	defer cancel()
	for {
		_, err := chromedp.Run(ctx, chromedp.PollFunction[bool](function, chromedp.WithPollingArgs(args...),
			chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(0)))
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "-32000") { // the page was reloaded meanwhile
			return err
		}
	}
}

func (t *tab) goTo(path string) {
	t.t.Helper()
	t.run(chromedp.Navigate(t.home + path))
}

// waitForText waits until the page shows the text.
func (t *tab) waitForText(text string) {
	t.t.Helper()
	if err := t.until(`text => document.body?.innerText.includes(text)`, text); err != nil {
		require.Fail(t.t, "the page does not show the text", "%q: %v, but\n%s", text, err, t.text())
	}
}

// waitUntilGone waits until the page no longer shows the text.
func (t *tab) waitUntilGone(text string) {
	t.t.Helper()
	err := t.until(`text => !document.body?.innerText.includes(text)`, text)
	require.NoError(t.t, err, "the page still shows %q", text)
}

func (t *tab) text() string {
	return eval[string](t, `document.body?.innerText ?? ''`)
}

// eval evaluates the expression in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	return result(b, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// press clicks the button or link with this name.
func (t *tab) press(name string) {
	t.t.Helper()
	require.NoError(t.t, t.until(`name => {
		const found = [...document.querySelectorAll('dialog[open] button, dialog[open] a')].concat([...document.querySelectorAll('main button, main a, main summary, header button, header a')])
			.find(e => (e.textContent.trim() === name || e.getAttribute('aria-label') === name) && !e.disabled && e.ariaDisabled !== 'true')
		found?.click()
		return !!found
	}`, name), "there is no button or link %q", name)
}

// pressKeys types the text, or presses a key of package kb, where the focus is.
func (t *tab) pressKeys(keys string, modifiers ...chromedp.KeyOption) {
	t.t.Helper()
	t.run(chromedp.KeyEvent(keys, modifiers...))
}

// fill writes the text into the field with this label or placeholder.
func (t *tab) fill(label, text string) {
	t.t.Helper()
	require.NoError(t.t, t.until(`(label, text = '') => {
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
func (t *tab) setColorScheme(name string) {
	t.t.Helper()
	call(t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// picture saves screenshots in .build/page, which git ignores: one light and one dark for each width.
func (t *tab) picture(name string, widths ...int64) {
	t.t.Helper()
	if os.Getenv("FLEET_TEST_PICTURES") == "" { // `make page-pictures` sets it
		return
	}
	dir := filepath.Join("..", "..", "..", ".build", "page")
	require.NoError(t.t, os.MkdirAll(dir, 0o755))
	for _, scheme := range []string{"light", "dark"} {
		t.setColorScheme(scheme)
		for _, width := range widths {
			t.run(chromedp.EmulateViewport(width, 900))
			data := result(t, chromedp.CaptureScreenshot())
			file := filepath.Join(dir, name+"-"+strconv.FormatInt(width, 10)+"-"+scheme+".png")
			require.NoError(t.t, os.WriteFile(file, data, 0o644))
		}
	}
	t.run(chromedp.EmulateViewport(1280, 900))
}
