package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/place/local"
)

const (
	pageChanges = 100             // events a second while the page is used
	pageUse     = 8 * time.Second // how long it is used in each way
	pageDelays  = 60              // events whose delay is measured
	pageLines   = 1_000_000       // lines of the long output
	pageWindows = 10              // measurements of the heap during a day
)

// inPage runs in the page before its own code.
const inPage = `
window.bench = {tasks: [], shown: 0, end: 0}
new PerformanceObserver(list => bench.tasks.push(...list.getEntries().map(e => ({at: e.startTime, ms: e.duration})))).observe({type: 'longtask', buffered: true})
bench.when = (selector, text) => new Promise(done => {
  const look = () => {
    const found = [...document.querySelectorAll(selector)].some(e => e.textContent.includes(text))
    if (found) requestAnimationFrame(() => done(performance.now()))
    return found
  }
  if (look()) return
  const watch = new MutationObserver(() => look() && watch.disconnect())
  watch.observe(document, {childList: true, subtree: true, characterData: true})
})
bench.longest = (from) => Math.max(0, ...bench.tasks.filter(t => t.at + t.ms >= from).map(t => t.ms))
// use calls step for each frame during ms milliseconds. It resolves to the frames per second and the longest task.
bench.use = (ms, step) => new Promise(done => {
  const begun = performance.now()
  let frames = 0
  const frame = () => {
    const now = performance.now()
    if (now - begun > ms) return setTimeout(() => done({fps: frames / (now - begun) * 1000, longest: bench.longest(begun)}), 100)
    step(frames++)
    requestAnimationFrame(frame)
  }
  requestAnimationFrame(frame)
})
bench.scroller = (selector) => [...document.querySelectorAll(selector + ' *')].find(e => e.scrollHeight > e.clientHeight + 10 && getComputedStyle(e).overflowY === 'auto')
bench.fill = (label, text) => {
  const field = document.querySelector('input[aria-label="' + label + '"]')
  field.value = text
  field.dispatchEvent(new Event('input', {bubbles: true}))
  return field
}
`

// usage is the result of bench.use: frames per second, and the longest task in milliseconds.
type usage struct{ FPS, Longest float64 }

// onPage measures the live page in Chromium. It measures the first load, a large fleet that changes, the events of a
// day, and a long output that grows.
func (r *report) onPage(ctx context.Context) {
	path := os.Getenv("FLEET_TEST_CHROMIUM")
	if path == "" {
		var err error
		if path, err = exec.LookPath("chromium"); err != nil {
			check(errors.New("no Chromium was found: install Debian's package chromium, or name one in FLEET_TEST_CHROMIUM"))
		}
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("enable-precise-memory-info", true))
	allocator, end := chromedp.NewExecAllocator(ctx, options...)
	defer end()
	browser, closeBrowser := chromedp.NewContext(allocator)
	defer closeBrowser()
	check(chromedp.Do(browser))
	fmt.Fprintf(r.out, "\nThe page in Chromium, %d agents, %d events a second\n", r.agents, pageChanges)
	r.largePage(ctx, browser)
	r.longPage(ctx, browser)
	r.printGoals()
}

// newTab opens a tab in a new browser context, which has no cache and no cookies. done closes it.
func newTab(browser context.Context) (tab context.Context, done func()) {
	tab, done = chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	must(chromedp.Call(tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: inPage}))
	check(chromedp.Do(tab, chromedp.EmulateViewport(1280, 900)))
	return tab, done
}

func inTab[T any](tab context.Context, expression string) (T, error) {
	return chromedp.Run(tab, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// heap returns the size of the live objects of the page, in MB.
func heap(tab context.Context) float64 {
	must(chromedp.Call(tab, heapprofiler.CollectGarbage, cdp.Empty{}))
	return must(chromedp.Call(tab, runtime.GetHeapUsage, cdp.Empty{})).UsedSize / 1e6
}

// largePage measures the page with a fleet of many agents.
func (r *report) largePage(ctx context.Context, browser context.Context) {
	t := newTestbed(ctx, "", r.agents)
	defer t.close()
	check(t.serve(nil))
	t.listed(ctx, min(r.agents, 5000))
	home := "http://" + t.server.HTTPAddr()
	r.firstLoad(browser, home)
	tab, done := newTab(browser)
	defer done()
	check(chromedp.Do(tab, chromedp.Navigate(home+"/")))
	must(inTab[float64](tab, `bench.when('.table .cells a', 'agent-')`))
	r.delays(ctx, tab, t)
	r.busyPage(ctx, tab, t)
	r.wholeDay(ctx, tab, t)
}

// firstLoad measures a first visit, with an empty cache.
func (r *report) firstLoad(browser context.Context, home string) {
	var ready []float64
	var size float64
	visit := func() {
		tab, done := newTab(browser)
		defer done()
		must(chromedp.Call(tab, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true}))
		check(chromedp.Do(tab, chromedp.Navigate(home+"/")))
		ready = append(ready, must(inTab[float64](tab, `bench.when('.table .cells a', 'agent-').then(at => Math.max(at, ...bench.tasks.filter(t => t.at < at).map(t => t.at + t.ms)))`)))
		size = must(inTab[float64](tab, `[...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')]
			.filter(e => !new URL(e.name).pathname.startsWith('/v1/')).reduce((sum, e) => sum + e.encodedBodySize, 0) / 1000`))
	}
	for range 5 {
		visit()
	}
	r.goal("first load, kB compressed, without the diff viewer", "at most", 200, size)
	r.goal(fmt.Sprintf("first load until %d agents are shown and the page is interactive, ms", r.agents), "at most", 500, median(ready))
}

// delays measures the time from the call that makes an event until the page has drawn it.
func (r *report) delays(ctx context.Context, tab context.Context, t *testbed) {
	var took []time.Duration
	for i := range pageDelays {
		text := "event " + strconv.Itoa(i)
		must(inTab[bool](tab, `bench.drawn = bench.when('.table .cells', `+strconv.Quote(text)+`).then(at => performance.timeOrigin + at), true`))
		begun := time.Now()
		t.begin(ctx, 0, "echo "+text+"\nwait never")
		drawn := must(inTab[float64](tab, `bench.drawn`))
		took = append(took, time.UnixMicro(int64(drawn*1000)).Sub(begun))
		t.interrupt(ctx, 0)
	}
	r.goal("event to pixel, p95 ms from the call", "at most", 150, quantile(took, 0.95))
}

// begin starts a task on the agent. interrupt stops it.
func (t *testbed) begin(ctx context.Context, agent int, task string) {
	must(t.fleet.StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{AgentName: agentName(agent), TaskDescription: task}))
}

func (t *testbed) interrupt(ctx context.Context, agent int) {
	must(t.fleet.StopAgentTask(ctx, &fleetv1.StopAgentTaskRequest{AgentName: agentName(agent)}))
}

// busyPage measures the page while the fleet changes and somebody scrolls and filters.
func (r *report) busyPage(ctx context.Context, tab context.Context, t *testbed) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun, made, changed := time.Now(), 0, make(chan error, 1)
	go func() { changed <- caught(func() { made = t.changing(ctx, pageChanges) }) }()
	for _, way := range []struct{ name, step string }{
		{"scrolling", `n => { const e = bench.scroller('.table'); e.scrollTop += n % 200 < 100 ? 120 : -120 }`},
		{"filtering", `n => n % 12 === 0 && bench.fill('Filter the agents', ['', 'a', 'ag', 'agent-01', 'agent-0123', 'coder', 'nothing', 'agent-9'][n / 12 % 8])`},
	} {
		u := must(inTab[usage](tab, fmt.Sprintf(`bench.use(%d, %s).then(u => ({FPS: u.fps, Longest: u.longest}))`, pageUse.Milliseconds(), way.step)))
		r.goal(way.name+", frames a second", "at least", 50, u.FPS)
		r.goal(way.name+", longest task of the page, ms", "at most", 100, u.Longest)
	}
	r.goal("heap of the page, MB", "at most", 150, heap(tab))
	cancel()
	check(<-changed)
	fmt.Fprintf(r.out, "%.0f events a second while it was used\n", float64(made)/time.Since(begun).Seconds())
}

// changing makes that many events a second until ctx is done, by tasks that are created, start and end. It returns the
// number of events.
func (t *testbed) changing(ctx context.Context, events int) (made int) {
	const perTask = 3
	tick := time.NewTicker(time.Second * perTask / time.Duration(events))
	defer tick.Stop()
	for i := 1; ; i++ {
		select {
		case <-ctx.Done():
			return made
		case <-tick.C:
		}
		t.begin(context.WithoutCancel(ctx), 1+i%100, fmt.Sprintf("done %d", i))
		made += perTask
	}
}

// wholeDay makes the events of a day, as fast as the server can, and measures the heap of the page meanwhile.
func (r *report) wholeDay(ctx context.Context, tab context.Context, t *testbed) {
	must(inTab[bool](tab, `bench.fill('Filter the agents', ''), true`))
	var sizes []float64
	for w := range pageWindows {
		for i := range r.day / 3 / pageWindows {
			t.begin(ctx, 200+i%(r.agents-200), fmt.Sprintf("done %d of window %d", i, w))
		}
		last := fmt.Sprintf("wait %d", w) // when the page shows it, the page has read every event before it
		t.begin(ctx, 0, last)
		must(inTab[float64](tab, `bench.when('.table .cells', '`+last+`')`))
		t.interrupt(ctx, 0)
		sizes = append(sizes, heap(tab))
	}
	fmt.Fprintf(r.out, "heap during a day of %d events, MB: %.1f\n", r.day, sizes)
	half := len(sizes) / 2
	r.goal("heap at the end of a day, of what it was at noon", "at most", 1.1, sizes[len(sizes)-1]/median(slices.Clone(sizes[half-1:half+2])))
}

// longPage measures the page with a task that has a million lines of output and continues to write.
func (r *report) longPage(ctx context.Context, browser context.Context) {
	t := newTestbed(ctx, "", 0)
	defer t.close()
	check(t.serve(func(cfg *app.Config) {
		cfg.Places = []string{"local"}
		cfg.Local.Projects = []local.Project{{Name: "shell"}}
		cfg.StopGrace = time.Second
	}))
	must(t.fleet.CreateAgent(ctx, &fleetv1.CreateAgentRequest{Name: "papi", Project: "shell", Spec: "Write"}))
	defer func() {
		must(t.fleet.DeleteAgent(context.WithoutCancel(ctx), &fleetv1.DeleteAgentRequest{AgentName: "papi"}))
	}()
	script := fmt.Sprintf(`seq -f 'line %%.0f of the output' %d; i=0; while sleep 0.02; do echo "growing $((i++)) $(date +%%s%%3N)"; done`, pageLines)
	id := must(t.fleet.StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{AgentName: "papi", TaskDescription: script})).GetTask().GetId()
	for { // until the lines are written
		o, err := t.fleet.ShowTaskOutput(ctx, &fleetv1.ShowTaskOutputRequest{TaskId: id, Tail: new(int32(1000))})
		if err == nil && o.GetSize() > pageLines*20 {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			check(ctx.Err())
		}
	}
	tab, done := newTab(browser)
	defer done()
	home := "http://" + t.server.HTTPAddr()
	check(chromedp.Do(tab, chromedp.Navigate(home+"/attention"), chromedp.Sleep(time.Second), chromedp.Navigate(home+"/tasks/"+id))) // the first page puts the files into the cache, where a usual visitor has them
	r.goal(fmt.Sprintf("opening %d lines that grow, ms", pageLines), "at most", 500, must(inTab[float64](tab, `bench.when('.line', 'growing')`)))
	u := must(inTab[struct{ FPS, Longest, Behind float64 }](tab, fmt.Sprintf(`bench.use(%d, () => {}).then(u => {
		const last = [...document.querySelectorAll('.line')].map(e => e.textContent).filter(t => t.startsWith('growing')).at(-1)
		return {FPS: u.fps, Longest: u.longest, Behind: Date.now() - Number(last.trim().split(' ')[2])}})`, pageUse.Milliseconds())))
	r.goal("following it, frames a second", "at least", 50, u.FPS)
	r.goal("following it, longest task of the page, ms", "at most", 100, u.Longest)
	r.goal("following it, ms behind the program", "at most", 1000, u.Behind)
	found := must(inTab[usage](tab, fmt.Sprintf(`(() => {
		const begun = performance.now()
		bench.fill('Search the output', 'line %d of').form.requestSubmit()
		return bench.when('.found', 'line %d of').then(at => ({FPS: at - begun, Longest: bench.longest(begun)}))})()`, pageLines-1000, pageLines-1000)))
	r.goal("searching it for a line near the end, ms", "at most", 3000, found.FPS)
	r.goal("searching it, longest task of the page, ms", "at most", 100, found.Longest)
}
