package npm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	fleetv1 "fleet/gen/fleet/v1"
)

const (
	maxDelay      = 400 * time.Millisecond // how much longer a task may take than `claude -p`
	maxMemory     = 12 << 20               // bytes that a run may need in addition to Claude Code
	maxAnswerTime = 100 * time.Millisecond // how long 95 % of the server's answers may take at most
)

// quantile returns the value below which the fraction q of the values is.
func quantile[T int64 | time.Duration](values []T, q float64) T {
	values = slices.Sorted(slices.Values(values))
	return values[int(q*float64(len(values)-1))]
}

// machineLoad returns the load of the machine as text, and whether the machine is busy. On a busy machine, tests only log durations.
func machineLoad(t *testing.T) (text string, busy bool) {
	t.Helper()
	fs, err := procfs.NewDefaultFS()
	require.NoError(t, err)
	avg, err := fs.LoadAvg()
	require.NoError(t, err)
	return fmt.Sprintf("load %.1f", avg.Load1), avg.Load1 > 1.5
}

// TestClaudeSpeed compares the duration of a task with the duration of `claude -p`. Both make one request to the model.
func TestClaudeSpeed(t *testing.T) {
	c := newClaudeFleet(t, role{"name": "coder", "model": pricedModel})
	text, busy := machineLoad(t)
	c.create(t, "papi", "coder")
	bare := newHome(t)
	require.NoError(t, os.Mkdir(bare.path("work"), 0o700))
	env := bare.env(c.environ()...)
	var alone, fleet, before, after, delay []time.Duration
	for i := range 21 {
		prompt := fmt.Sprintf("--Round %d\nmodel: say done", i)
		start := time.Now()
		cmd := exec.CommandContext(t.Context(), installClaude(t), "-p", "--verbose", "--output-format", "stream-json", "--model", pricedModel)
		cmd.Dir, cmd.Env, cmd.Stdin = bare.path("work"), env, strings.NewReader(prompt+" alone")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		aloneTime, aloneBefore := time.Since(start), c.requestsWith(prompt + " alone")[0].at.Sub(start)
		start = time.Now()
		id := c.start(t, "papi", prompt+" in a task")
		task := c.wait(t, id)
		require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
		fleetTime, fleetBefore := time.Since(start), c.requestsWith(prompt + " in a task")[0].at.Sub(start)
		if i > 0 { // the first round fills caches
			alone, fleet, delay = append(alone, aloneTime), append(fleet, fleetTime), append(delay, fleetTime-aloneTime)
			before, after = append(before, fleetBefore-aloneBefore), append(after, (fleetTime-fleetBefore)-(aloneTime-aloneBefore))
		}
	}
	t.Logf("%s; claude -p %v, task %v, median of the differences %v: %v before the request, %v after it", text,
		quantile(alone, 0.5), quantile(fleet, 0.5), quantile(delay, 0.5), quantile(before, 0.5), quantile(after, 0.5))
	if !busy {
		require.LessOrEqual(t, quantile(delay, 0.5), maxDelay)
	}
}

// TestClaudeManyAgents lets 30 agents work at once, and measures the memory of their runs and the response times of the server.
func TestClaudeManyAgents(t *testing.T) {
	const agents = 30
	c := newClaudeFleet(t, role{"name": "coder", "model": pricedModel, "allowed_tools": []string{"Bash(echo *)"}})
	text, busy := machineLoad(t)
	var g errgroup.Group
	for i := range agents {
		c.create(t, fmt.Sprint("a", i), "coder")
	}
	start := time.Now()
	ids := make([]string, agents)
	for i := range agents {
		ids[i] = c.start(t, fmt.Sprint("a", i), `model: tool Bash {"command":"echo crowd"}`, fmt.Sprintf("model: hang crowd%d", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	answers := c.pollFaces(ctx, t)
	for i := range agents {
		g.Go(func() error {
			select {
			case <-c.gate(fmt.Sprint("crowd", i)).arrived:
				return nil
			case <-time.After(5 * defaultTimeout):
				return fmt.Errorf("the agent a%d did not reach its second request", i)
			}
		})
	}
	require.NoError(t, g.Wait())
	var memory []int64
	for i := range agents {
		memory = append(memory, c.privateMemory(t, fmt.Sprint("a", i)))
		close(c.gate(fmt.Sprint("crowd", i)).open)
	}
	for _, id := range ids {
		task := c.wait(t, id)
		require.Equal(t, fleetv1.Task_completed, task.GetStatus(), task.GetReason())
	}
	elapsed := time.Since(start)
	cancel()
	t.Logf("%s; %d tasks took %v; private memory beside the program: median %.1f MB, most %.1f MB", text, agents, elapsed.Round(time.Second),
		float64(quantile(memory, 0.5))/(1<<20), float64(quantile(memory, 1))/(1<<20))
	for face, elapsed := range answers() {
		t.Logf("%s: %d answers, median %v, p95 %v", face, len(elapsed), quantile(elapsed, 0.5), quantile(elapsed, 0.95))
		if !busy {
			require.LessOrEqual(t, quantile(elapsed, 0.95), maxAnswerTime, face)
		}
	}
	require.LessOrEqual(t, quantile(memory, 1), int64(maxMemory))
}

// pollFaces repeatedly lists the agents on gRPC, REST and MCP until the context ends. The returned function waits for that, and
// returns the response times by face.
func (c *claudeFleet) pollFaces(ctx context.Context, t *testing.T) func() map[string][]time.Duration {
	t.Helper()
	post := func(body string) func() error {
		return func() error {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.mcp(), strings.NewReader(body))
			if err != nil {
				return err
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			return sendOK(r)
		}
	}
	faces := map[string]func() error{
		"gRPC": func() error { _, err := c.api.ListAgents(ctx, &fleetv1.ListAgentsRequest{}); return err },
		"REST": func() error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.http+"/v1/agents", nil)
			if err != nil {
				return err
			}
			return sendOK(r)
		},
		"MCP": post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_agents","arguments":{}}}`),
	}
	var mu sync.Mutex
	var g sync.WaitGroup
	elapsed := map[string][]time.Duration{}
	for face, call := range faces {
		g.Go(func() {
			for tick := time.NewTicker(100 * time.Millisecond); ; {
				start := time.Now()
				err := call()
				if ctx.Err() != nil {
					tick.Stop()
					return
				}
				if err != nil {
					t.Errorf("%s: %v", face, err)
					return
				}
				mu.Lock()
				elapsed[face] = append(elapsed[face], time.Since(start))
				mu.Unlock()
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	return func() map[string][]time.Duration { g.Wait(); return elapsed }
}

// sendOK sends the request. It returns an error unless the status of the answer is 200.
func sendOK(r *http.Request) error {
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = a.Body.Close() }()
	body, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", a.StatusCode, body)
	}
	return err
}

// privateMemory returns the private memory, in bytes, of the processes between the server and the agent's Claude Code.
func (c *claudeFleet) privateMemory(t *testing.T, agent string) (sum int64) {
	t.Helper()
	for pid := parentPID(t, c.claudePID(t, agent)); pid > 1 && pid != c.cmd.Process.Pid; pid = parentPID(t, pid) {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
		require.NoError(t, err)
		for line := range bytes.Lines(text) {
			f := strings.Fields(string(line))
			if len(f) == 3 && strings.HasPrefix(f[0], "Private_") {
				kb, err := strconv.ParseInt(f[1], 10, 64)
				require.NoError(t, err)
				sum += kb << 10
			}
		}
	}
	require.Positive(t, sum)
	return sum
}

func parentPID(t *testing.T, pid int) int {
	t.Helper()
	p, err := procfs.NewProc(pid)
	require.NoError(t, err)
	stat, err := p.Stat()
	require.NoError(t, err)
	return stat.PPID
}
