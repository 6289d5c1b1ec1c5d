package bench

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/waittest"
)

// pageScript runs in each page before the page's own code.
//
//go:embed page.js
var pageScript string

// BenchmarkPage measures the live page in Chromium: a large fleet that changes, the events of a day, a long output that grows, and a
// long conversation.
func BenchmarkPage(b *testing.B) {
	path := os.Getenv("FLEET_TEST_CHROMIUM")
	if path == "" {
		var err error
		if path, err = exec.LookPath("chromium"); err != nil {
			b.Skip("no Chromium was found: install Debian's package chromium, or name one in FLEET_TEST_CHROMIUM")
		}
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(waittest.Limit),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("enable-precise-memory-info", true))
	allocator, end := chromedp.NewExecAllocator(b.Context(), options...)
	b.Cleanup(end)
	browser, closeBrowser := chromedp.NewContext(allocator)
	b.Cleanup(closeBrowser)
	require.NoError(b, chromedp.Do(browser))
	b.Run("fleet", func(b *testing.B) { benchmarkFleetPage(browser, b) })
	b.Run("output", func(b *testing.B) { benchmarkOutputPage(browser, b) })
	b.Run("transcript", func(b *testing.B) { benchmarkTranscriptPage(browser, b) })
}

// newTab opens a tab in a new browser context, so without a cache and cookies. done closes the tab.
func newTab(browser context.Context, b *testing.B) (tab context.Context, done func()) {
	tab, done = chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	_, err := chromedp.Call(tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: pageScript})
	require.NoError(b, err)
	require.NoError(b, chromedp.Do(tab, chromedp.EmulateViewport(1280, 900)))
	return tab, done
}

// eval evaluates a JavaScript expression in the tab, and waits if it is a promise.
func eval[T any](tab context.Context, b *testing.B, expression string) T {
	v, err := chromedp.Run(tab, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b, err)
	return v
}

// heap returns the size of the live objects of the page, in MB.
func heap(tab context.Context, b *testing.B) float64 {
	_, err := chromedp.Call(tab, heapprofiler.CollectGarbage, cdp.Empty{})
	require.NoError(b, err)
	used, err := chromedp.Call(tab, runtime.GetHeapUsage, cdp.Empty{})
	require.NoError(b, err)
	return used.UsedSize / 1e6
}

// measurePage uses the page for a second in each iteration, and reports the frames per second and the longest task. step is a
// JavaScript function that is called with the number of each frame.
func measurePage(tab context.Context, b *testing.B, step string) {
	longest := 0.0
	fps := eachIteration(b, func(int) float64 {
		u := eval[struct{ FPS, Longest float64 }](tab, b, fmt.Sprintf(`bench.use(%d, %s).then(u => ({FPS: u.fps, Longest: u.longest}))`, fullOrSmall(1000, 50), step))
		longest = max(longest, u.Longest)
		return u.FPS
	})
	report(b, mean(fps), "frames/s", "at least", 50)
	report(b, longest, "longest-task-ms", "at most", 100)
}

// benchmarkFleetPage measures the page with a fleet of many agents.
func benchmarkFleetPage(browser context.Context, b *testing.B) {
	agents := fullOrSmall(10_000, 400)
	t := newFleet(b, "", agents, fleet.LocalPrincipal)
	s := t.serve(b, nil)
	s.waitForAgents(b, min(agents, 5000))
	home := "http://" + s.HTTPAddr() + "/"
	b.Run("load", func(b *testing.B) { // first visits, with an empty cache
		var bytes float64
		ready := eachIteration(b, func(int) float64 {
			tab, done := newTab(browser, b)
			defer done()
			_, err := chromedp.Call(tab, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
			require.NoError(b, err)
			require.NoError(b, chromedp.Do(tab, chromedp.Navigate(home)))
			ready := eval[float64](tab, b, `bench.when('.table .cells a', 'agent-').then(at => Math.max(at, ...bench.tasks.filter(t => t.at < at).map(t => t.at + t.ms)))`)
			bytes = eval[float64](tab, b, `[...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')]
				.filter(e => !new URL(e.name).pathname.startsWith('/v1/')).reduce((sum, e) => sum + e.encodedBodySize, 0)`)
			return ready
		})
		report(b, bytes/1000, "compressed-kB", "at most", 200) // the diff viewer is not loaded here
		report(b, quantile(ready, 0.5), "interactive-ms", "at most", 500)
	})
	tab, done := newTab(browser, b)
	b.Cleanup(done)
	require.NoError(b, chromedp.Do(tab, chromedp.Navigate(home)))
	eval[float64](tab, b, `bench.when('.table .cells a', 'agent-')`)
	b.Run("event-to-pixel", func(b *testing.B) { // from the call that makes the event
		durations := eachIteration(b, func(i int) float64 {
			text := fmt.Sprintf("event %d", i)
			eval[bool](tab, b, fmt.Sprintf(`bench.drawn = bench.when('.table .cells', '%s').then(at => performance.timeOrigin + at), true`, text))
			start := time.Now()
			s.mustStartTask(b, 0, "echo "+text+"\nwait never")
			defer s.stopTask(b, 0)
			return eval[float64](tab, b, `bench.drawn`) - float64(start.UnixMicro())/1000
		})
		report(b, quantile(durations, 0.95), "p95-ms", "at most", 150)
	})
	for _, use := range []struct{ name, step string }{
		{"scroll", `n => { const e = bench.scroller('.table'); e.scrollTop += n % 200 < 100 ? 120 : -120 }`},
		{"filter", `n => n % 12 === 0 && bench.fill('Filter the agents', ['', 'a', 'ag', 'agent-01', 'agent-0123', 'coder', 'nothing', 'agent-9'][n / 12 % 8])`},
	} {
		b.Run(use.name, func(b *testing.B) {
			stop := s.produceEvents(b)
			measurePage(tab, b, use.step)
			report(b, stop(), "events/s", "", 0)
			report(b, heap(tab, b), "heap-MB", "at most", 150)
		})
	}
	b.Run("day", func(b *testing.B) { // the events of a day, as fast as the server can make them
		const windows, perTask = 10, 3
		eval[bool](tab, b, `bench.fill('Filter the agents', ''), true`)
		heaps := slices.Concat(eachIteration(b, func(int) (heaps []float64) {
			for w := range windows {
				for i := range fullOrSmall(86_400, 900) / perTask / windows {
					s.mustStartTask(b, 200+i%(agents-200), fmt.Sprintf("done %d of window %d", i, w))
				}
				last := fmt.Sprintf("wait %d", w) // when the page shows it, the page has read every event before it
				s.mustStartTask(b, 0, last)
				eval[float64](tab, b, `bench.when('.table .cells', '`+last+`')`)
				s.stopTask(b, 0)
				heaps = append(heaps, heap(tab, b))
			}
			return heaps
		})...)
		b.Logf("heap during the day, MB: %.1f", heaps)
		noon := len(heaps) / 2
		report(b, heaps[len(heaps)-1]/quantile(heaps[noon-1:noon+2], 0.5), "x-of-heap-at-noon", "at most", 1.1)
	})
}

// mustStartTask starts a task on the agent, and fails the benchmark on an error.
func (s *server) mustStartTask(b *testing.B, agent int, task string) {
	_, err := s.startTask(b.Context(), agent, task)
	require.NoError(b, err)
}

func (s *server) stopTask(b *testing.B, agent int) {
	_, err := s.StopAgentTask(b.Context(), &fleetv1.StopAgentTaskRequest{AgentName: agentName(agent)})
	require.NoError(b, err)
}

// produceEvents makes 100 events a second: tasks are created, start and end. stop ends this, and returns how many events were made per
// second.
func (s *server) produceEvents(b *testing.B) (stop func() float64) {
	const rate, perTask = 100, 3
	ctx, cancel := context.WithCancel(b.Context())
	start, tasks := time.Now(), 0
	var g errgroup.Group
	g.Go(func() error {
		tick := time.NewTicker(time.Second * perTask / rate)
		defer tick.Stop()
		for ; ctx.Err() == nil; tasks++ {
			<-tick.C
			if _, err := s.startTask(b.Context(), 1+tasks%100, fmt.Sprintf("done %d", tasks)); err != nil {
				return err
			}
		}
		return nil
	})
	return func() float64 {
		cancel()
		require.NoError(b, g.Wait())
		return float64(perTask*tasks) * 1000 / msSince(start)
	}
}

// measureOpen measures how long a tab needs to open the path, until an element that matches the selector shows the text "growing".
// Before, the tab shows another page. measureOpen returns the tab.
func measureOpen(browser context.Context, b *testing.B, s *server, path, selector string) context.Context {
	tab, done := newTab(browser, b)
	b.Cleanup(done)
	home := "http://" + s.HTTPAddr()
	open := func(int) (ms float64) { // the first page puts the files into the cache, where a usual visitor has them
		require.NoError(b, chromedp.Do(tab, chromedp.Navigate(home+"/attention"), chromedp.Sleep(time.Second), chromedp.Navigate(home+path)))
		return eval[float64](tab, b, `bench.when('`+selector+`', 'growing')`)
	}
	open(0)
	b.Run("open", func(b *testing.B) { report(b, quantile(eachIteration(b, open), 0.5), "ms", "at most", 500) })
	return tab
}

// benchmarkOutputPage measures the page with a task that has a million lines of output and continues to write.
func benchmarkOutputPage(browser context.Context, b *testing.B) {
	lines := fullOrSmall(1_000_000, 10_000)
	s := (&testbed{data: b.TempDir()}).serve(b, func(c *app.Config) {
		c.Local.Projects, c.StopGrace = []local.Project{{Name: "shell"}}, time.Second
	})
	s.createAgent(b, 0)
	id, err := s.startTask(b.Context(), 0, fmt.Sprintf(`seq -f 'line %%.0f of the output' %d; i=0; while sleep 0.02; do echo "growing $((i++)) $(date +%%s%%3N)"; done`, lines))
	require.NoError(b, err)
	for range time.Tick(100 * time.Millisecond) { // until the lines are written
		o, err := s.ShowTaskOutput(b.Context(), &fleetv1.ShowTaskOutputRequest{TaskId: id, Tail: new(int32(1000))})
		if err == nil && o.GetSize() > float64(lines)*20 {
			break
		}
	}
	tab := measureOpen(browser, b, s, "/tasks/"+id+"?view=output", ".line")
	b.Run("follow", func(b *testing.B) {
		measurePage(tab, b, `() => {}`)
		behind := eval[float64](tab, b, `Date.now() - [...document.querySelectorAll('.line')].map(e => e.textContent).filter(t => t.startsWith('growing')).at(-1).trim().split(' ')[2]`)
		report(b, behind, "ms-behind", "at most", 1000)
	})
	b.Run("search", func(b *testing.B) {
		longest := 0.0
		durations := eachIteration(b, func(i int) float64 {
			found := eval[struct{ MS, Longest float64 }](tab, b, fmt.Sprintf(`(() => {
				const begun = performance.now()
				bench.fill('Search the output', '%[1]s').form.requestSubmit()
				return bench.when('.found', '%[1]s').then(at => ({MS: at - begun, Longest: bench.longest(begun)}))})()`, fmt.Sprintf("line %d of", lines-1000-i)))
			longest = max(longest, found.Longest)
			return found.MS
		})
		report(b, quantile(durations, 0.5), "ms", "at most", 3000)
		report(b, longest, "longest-task-ms", "at most", 100)
	})
}

// benchmarkTranscriptPage measures the page with a task that has 5,000 steps and continues with 50 steps a second. The steps are texts
// in Markdown, and tool calls with results of 2 kB.
func benchmarkTranscriptPage(browser context.Context, b *testing.B) {
	steps := fullOrSmall(5000, 200)
	dir := b.TempDir()
	script := filepath.Join(dir, "talk.sh")
	require.NoError(b, os.WriteFile(script, fmt.Appendf(nil, transcriptScript, strings.Repeat(`a line of the result\n`, 100), steps/4), 0o600))
	s := (&testbed{data: b.TempDir()}).serve(b, func(c *app.Config) {
		c.Local.Projects, c.StopGrace = []local.Project{{Name: "shell", Driver: "claude", Command: []string{"sh", script}, Read: []string{dir}}}, time.Second
	})
	s.createAgent(b, 0)
	id, err := s.startTask(b.Context(), 0, "talk")
	require.NoError(b, err)
	for range time.Tick(100 * time.Millisecond) { // until the steps are taken
		r, err := s.ListTaskSteps(b.Context(), &fleetv1.ListTaskStepsRequest{TaskId: id, Before: "end", Limit: new(int32(20))})
		require.NoError(b, err)
		if strings.Contains(r.String(), "growing") {
			break
		}
	}
	tab := measureOpen(browser, b, s, "/tasks/"+id, ".entry .markdown")
	b.Run("follow", func(b *testing.B) {
		measurePage(tab, b, `() => {}`)
		behind := eval[float64](tab, b, `Date.now() - [...document.querySelectorAll('.entry .markdown')].map(e => e.textContent).filter(t => t.includes('growing')).at(-1).trim().split(' ')[2]`)
		report(b, behind, "ms-behind", "at most", 1000)
		report(b, heap(tab, b), "heap-MB", "at most", 60)
	})
	b.Run("scroll", func(b *testing.B) { // to the beginning, so that all steps are read
		eval[bool](tab, b, `(async () => {
			const list = document.querySelector('[aria-label="Conversation"]')
			while (!list.textContent.includes('the beginning')) { list.scrollTop = 0; await new Promise(done => setTimeout(done, 20)) }
			return true
		})()`)
		measurePage(tab, b, `n => { document.querySelector('[aria-label="Conversation"]').scrollTop += n % 400 < 200 ? 120 : -120 }`)
		report(b, heap(tab, b), "heap-MB", "at most", 60)
	})
}

// transcriptScript is a program that speaks like Claude Code. It is a format for two arguments: the text of a result, and the number
// of rounds before the agent slows down.
const transcriptScript = `line() { printf '%%s\n' "$1"; }
say() { line "{\"type\":\"assistant\",\"message\":{\"id\":\"m$i\",\"model\":\"opus\",\"role\":\"assistant\",\"content\":[$1],\"usage\":{\"input_tokens\":1000,\"output_tokens\":50}}}"; }
round() {
	say "{\"type\":\"text\",\"text\":\"$1\n\n- the **first** thing\n- the second\"}"
	say "{\"type\":\"tool_use\",\"id\":\"c$i\",\"name\":\"Bash\",\"input\":{\"command\":\"echo $i\"}}"
	line "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"c$i\",\"content\":\"%s\"}]}}"
}
line '{"type":"system","subtype":"init","session_id":"s1","model":"opus"}'
i=0; round 'the beginning'
while [ $i -lt %d ]; do i=$((i + 1)); round "Step $i of **many**."; done
while sleep 0.08; do i=$((i + 1)); round "growing $i $(date +%%s%%3N) "; done
`
