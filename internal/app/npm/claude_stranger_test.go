package npm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// stranger simulates a person at a browser, who can only click on visible elements, and type.
type stranger struct {
	t               *testing.T
	ctx             context.Context
	clicks          int
	typedCharacters int
	screenshots     int
}

// newStranger opens the page at the URL. It skips the test if no Chromium is installed.
func newStranger(t *testing.T, url string) *stranger {
	t.Helper()
	path, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		t.Skip("no Chromium was found: install Debian's package chromium-headless-shell")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(defaultTimeout))
	allocator, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, leave := chromedp.NewContext(allocator)
	t.Cleanup(leave)
	require.NoError(t, chromedp.Do(ctx)) // starts the browser with ctx; a browser that is started with a shorter context ends with that context
	s := &stranger{t: t, ctx: ctx}
	s.run(chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url))
	return s
}

// run runs the actions in the browser, and requires success.
func (s *stranger) run(actions ...chromedp.Action[chromedp.Void]) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, defaultTimeout)
	defer cancel()
	require.NoError(s.t, chromedp.Do(ctx, actions...))
}

// waitForValue waits until the JavaScript function returns a true value in the page, and returns the value.
func waitForValue[T any](s *stranger, function string, args ...any) T {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.PollFunction[T](function, chromedp.WithPollingArgs(args...),
		chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(0)))
	if err != nil {
		s.screenshot("lost")
		text, _ := chromedp.Run(s.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		require.Fail(s.t, "the stranger must find it on the page", "%v: %v\n%s", args, err, text)
	}
	return v
}

// waitForText waits until the text is in sight or can be scrolled to.
func (s *stranger) waitForText(text string) {
	s.t.Helper()
	waitForValue[bool](s, `text => document.body?.innerText.includes(text)`, text)
}

// click clicks on the first element that has the name and is not covered.
func (s *stranger) click(name string) {
	s.t.Helper()
	at := waitForValue[[]float64](s, `name => {
		for (const e of document.querySelectorAll('button, a, summary, textarea, input, select, .insert .n')) {
			const names = [e.textContent.trim(), e.ariaLabel, e.placeholder, e.closest('label')?.innerText.trim()]
			if (!names.includes(name) || e.disabled || !e.checkVisibility()) continue
			e.scrollIntoView({block: 'nearest'})
			const r = e.getBoundingClientRect(), x = r.left + r.width / 2, y = r.top + r.height / 2
			if (e.contains(document.elementFromPoint(x, y))) return [x, y]
		}
	}`, name)
	s.clicks++
	s.run(chromedp.MouseClickXY(at[0], at[1]))
}

// typeText types the text where the focus is.
func (s *stranger) typeText(text string) {
	s.t.Helper()
	s.typedCharacters += len(text)
	s.run(chromedp.KeyEvent(text))
}

// screenshot saves a screenshot in .build/stranger, if FLEET_TEST_PICTURES is set.
func (s *stranger) screenshot(name string) {
	s.t.Helper()
	if os.Getenv("FLEET_TEST_PICTURES") == "" {
		return
	}
	s.screenshots++
	data, err := chromedp.Run(s.ctx, chromedp.CaptureScreenshot())
	require.NoError(s.t, err)
	dir := filepath.Join(root, ".build", "stranger")
	require.NoError(s.t, os.MkdirAll(dir, 0o755))
	require.NoError(s.t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d-%s.png", s.screenshots, name)), data, 0o644)) //nolint:gosec // for people
}

// TestClaudeStranger does a whole job with the page alone: it gives a prompt to Claude Code, reads the transcript, comments on a line, reads the
// changed work and lands it. That may take at most ten clicks. The role is configured as in the README, but may not run tests.
func TestClaudeStranger(t *testing.T) {
	installClaude(t) // may skip the test
	repo, git := newRepository(t, map[string]string{"basket.go": "package basket\n\n// Total adds the prices.\nfunc Total(prices []int) (total int) {\n\tfor _, p := range prices {\n\t\ttotal += p\n\t}\n\treturn total\n}\n"})
	c := newClaudeFleetOn(t, newModel(t), repo, role{
		"name": "coder", "model": pricedModel, "permission_mode": "acceptEdits", "allowed_tools": []string{"Bash(git add:*)", "Bash(git commit:*)"},
	})
	edit := func(from, to string) string {
		return "model: tool Read {\"file_path\":\"basket.go\"}\nmodel: tool Edit {\"file_path\":\"basket.go\",\"old_string\":\"" + from + "\",\"new_string\":\"" + to + "\"}\n"
	}
	commit := `model: tool Bash {"command":"git commit -qam 'Add the tax'"}` + "\n"

	start := time.Now()
	s := newStranger(t, "http://"+c.http)
	s.waitForText("What is to be done")
	s.screenshot("home")
	s.click("What is to be done")
	s.typeText("Add the tax to the total\n" + edit("total += p", "total += p + p/5") + commit + "model: say The total has the **tax** now.")
	s.screenshot("prompt")
	s.click("Start task")
	s.screenshot("started")
	s.click("Open it")
	s.waitForText("The total has the tax now.")
	s.waitForText("completed")
	s.screenshot("transcript")
	s.click("changes")
	s.waitForText("total += p + p/5")
	s.screenshot("changes")
	s.click("6") // the number of the line
	s.typeText("The tax is 19 percent.\n" + edit("p/5", "p*19/100") + commit + "model: say It is 19 percent now.")
	s.screenshot("comment")
	s.click("Add the comment")
	s.screenshot("commented")
	s.click("Request changes (1 comment)")
	s.waitForText("Changes requested on") // otherwise the next click could be on the earlier task
	s.waitForText("completed")
	s.screenshot("mended")
	s.click("changes")
	s.waitForText("p*19/100")
	s.screenshot("since-review")
	s.click("Land …")
	s.waitForText("Git can combine it")
	s.screenshot("land")
	s.click("Land it")
	s.waitForText("landed")
	s.screenshot("landed")
	elapsed := time.Since(start)

	require.Contains(t, git("show", "main:basket.go"), "total += p + p*19/100")
	t.Logf("from the first look to the landed work: %d clicks, %d characters, %s", s.clicks, s.typedCharacters, elapsed.Round(100*time.Millisecond))
	require.LessOrEqual(t, s.clicks, 10)
	require.Less(t, elapsed, 5*time.Minute)
}
