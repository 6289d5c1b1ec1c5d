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

// stranger is a person at a browser who can only click on what is in sight, and type.
type stranger struct {
	t               *testing.T
	ctx             context.Context
	clicks          int
	typedCharacters int
	pictures        int
}

func newStranger(t *testing.T, url string) *stranger {
	t.Helper()
	path, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		t.Skip("no Chromium was found: install Debian's package chromium-headless-shell")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(patience))
	allocator, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, leave := chromedp.NewContext(allocator)
	t.Cleanup(leave)
	require.NoError(t, chromedp.Do(ctx)) // starts the browser with ctx; a browser that is started with a shorter context ends with that context
	p := &stranger{t: t, ctx: ctx}
	p.run(chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url))
	return p
}

func (s *stranger) run(actions ...chromedp.Action[chromedp.Void]) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	require.NoError(s.t, chromedp.Do(ctx, actions...))
}

// until waits until the function returns a true value in the page, and returns it.
func until[T any](p *stranger, function string, args ...any) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.PollFunction[T](function, chromedp.WithPollingArgs(args...),
		chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(0)))
	if err != nil {
		p.picture("lost")
		text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		require.Fail(p.t, "the stranger does not find it", "%v: %v\n%s", args, err, text)
	}
	return v
}

// waitForText waits until the text is in sight or can be scrolled to.
func (s *stranger) waitForText(text string) {
	s.t.Helper()
	until[bool](s, `text => document.body?.innerText.includes(text)`, text)
}

// click clicks on the first element that has the name and is not covered.
func (s *stranger) click(name string) {
	s.t.Helper()
	at := until[[]float64](s, `name => {
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

// picture saves what the stranger sees in .build/stranger, if FLEET_TEST_PICTURES is set.
func (s *stranger) picture(name string) {
	s.t.Helper()
	if os.Getenv("FLEET_TEST_PICTURES") == "" {
		return
	}
	s.pictures++
	data, err := chromedp.Run(s.ctx, chromedp.CaptureScreenshot())
	require.NoError(s.t, err)
	dir := filepath.Join(root, ".build", "stranger")
	require.NoError(s.t, os.MkdirAll(dir, 0o755))
	require.NoError(s.t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d-%s.png", s.pictures, name)), data, 0o644)) //nolint:gosec // for people
}

// TestClaudeStranger lets a person who has never seen Fleet give a prompt to Claude Code, read what it does, comment on a line, read the
// change and land it, with the page alone. The configuration is that of the README.
func TestClaudeStranger(t *testing.T) {
	claude(t) // may skip the test
	repo, git := newRepository(t, map[string]string{"basket.go": "package basket\n\n// Total adds the prices.\nfunc Total(prices []int) (total int) {\n\tfor _, p := range prices {\n\t\ttotal += p\n\t}\n\treturn total\n}\n"})
	c := newClaudeFleetOn(t, newModel(t), repo, role{
		"name": "coder", "model": pricedModel, "permission_mode": "acceptEdits", "allowed_tools": []string{"Bash(git add:*)", "Bash(git commit:*)"},
	})
	edit := func(from, to string) string {
		return "model: tool Read {\"file_path\":\"basket.go\"}\nmodel: tool Edit {\"file_path\":\"basket.go\",\"old_string\":\"" + from + "\",\"new_string\":\"" + to + "\"}\n"
	}
	commit := `model: tool Bash {"command":"git commit -qam 'Add the tax'"}` + "\n"

	start := time.Now()
	p := newStranger(t, "http://"+c.http)
	p.waitForText("What is to be done")
	p.picture("home")
	p.click("What is to be done")
	p.typeText("Add the tax to the total\n" + edit("total += p", "total += p + p/5") + commit + "model: say The total has the **tax** now.")
	p.picture("prompt")
	p.click("Start task")
	p.picture("started")
	p.click("Open it")
	p.waitForText("The total has the tax now.")
	p.waitForText("completed")
	p.picture("transcript")
	p.click("changes")
	p.waitForText("total += p + p/5")
	p.picture("changes")
	p.click("6")
	p.typeText("The tax is 19 percent.\n" + edit("p/5", "p*19/100") + commit + "model: say It is 19 percent now.")
	p.picture("comment")
	p.click("Add the comment")
	p.picture("commented")
	p.click("Request changes (1 comment)")
	p.waitForText("Changes requested on") // otherwise the next click could be on the earlier task
	p.waitForText("completed")
	p.picture("mended")
	p.click("changes")
	p.waitForText("p*19/100")
	p.picture("since-review")
	p.click("Land …")
	p.waitForText("Git can combine it")
	p.picture("land")
	p.click("Land it")
	p.waitForText("landed")
	p.picture("landed")
	elapsed := time.Since(start)

	require.Contains(t, git("show", "main:basket.go"), "total += p + p*19/100")
	t.Logf("from the first look to the landed work: %d clicks, %d characters, %s", p.clicks, p.typedCharacters, elapsed.Round(100*time.Millisecond))
	require.LessOrEqual(t, p.clicks, 10)
	require.Less(t, elapsed, 5*time.Minute)
}
