package providers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/model/definition"
	"fleet/internal/place/fake"
	"fleet/internal/place/local"
	"fleet/internal/place/placetest/model"
	"fleet/internal/place/probe"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
	"fleet/internal/toolset/providers"
	"fleet/internal/waittest"
)

// realHarness is the toolset over the real local places, with a stub of the models' APIs, and test programs on the PATH.
type realHarness struct {
	*providers.Service
	t     *testing.T
	model *model.Server
	bin   string // first directory on the PATH
	data  string // directory of the agents
	fleet *servicetest.Harness
	log   *lockedBuffer
}

// newRealHarness starts a fleet with providers that use the stub, and with the given agents. A probe may take a minute, because the
// machine may be slow. At the end of the test, no log and no file may contain a key.
func newRealHarness(t *testing.T, agents ...providers.Provider) *realHarness {
	t.Helper()
	r := &realHarness{t: t, model: model.New(t), bin: t.TempDir(), data: t.TempDir(), log: &lockedBuffer{}}
	logger := slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	env := map[string]string{
		"PATH": r.bin + ":" + os.Getenv("PATH"), "HOME": t.TempDir(), "GORACE": os.Getenv("GORACE"),
		"ANTHROPIC_API_KEY": claudeKey, "CUSTOM_KEY": customKey, "WEATHER_TOKEN": toolToken,
	}
	var environ []string
	for k, v := range env {
		environ = append(environ, k+"="+v)
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	supervisor, err := sandbox.Executable()
	require.NoError(t, err)
	localPlace, err := local.New(local.Config{
		Dir: filepath.Join(r.data, "local"), Program: supervisor, Environ: environ, PassEnv: []string{"GORACE"},
		StopGrace: 200 * time.Millisecond, Logger: logger,
		Models: local.ModelsConfig{Command: []string{exe, "model-run"}, Needs: definition.Needs, Settings: driver.ModelSettings{ToolEnv: []string{"WEATHER_TOKEN"}}},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, localPlace.Close())
		r.requireNoKeys(r.log.String())
		for _, dir := range []string{r.data, filepath.Dir(r.fleet.Path)} {
			require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
				if err != nil || !e.Type().IsRegular() {
					return err
				}
				b, err := os.ReadFile(path)
				for _, key := range []string{claudeKey, customKey, toolToken} {
					require.False(t, bytes.Contains(b, []byte(key)), "%s has a key", path)
				}
				return err
			}))
		}
	})
	r.fleet = servicetest.New(t, fake.Config{}, func(c *state.Config) {
		c.StopGrace, c.Logger, c.OtherPlaces = 200*time.Millisecond, logger, []fleet.Place{localPlace, localPlace.ModelPlace()}
	})
	c := providers.Config{Settings: providers.Settings{ToolEnv: []string{"WEATHER_TOKEN"}}, Drivers: drivers, ProbeTimeout: time.Minute, Getenv: func(n string) string { return env[n] }, Logger: logger}
	c.Agents = append([]providers.Provider{
		{Name: "claude", BaseURL: r.model.URL, Model: "stub-large"},
		{Name: "custom", Kind: providers.KindAPI, BaseURL: r.model.URL + "/v1", KeyVariables: []string{"CUSTOM_KEY"}, Model: "stub-small"},
		{Name: "vllm", Kind: providers.KindLocal, BaseURL: r.model.URL + "/v1", Model: "stub-small"},
		{Name: "ollama", BaseURL: r.model.URL, Model: "stub-small"},
		{Name: "o1", BaseURL: r.model.URL + "/v1", KeyVariables: []string{"CUSTOM_KEY"}},
		{Name: "mistral", BaseURL: r.model.URL + "/v1", KeyVariables: []string{"CUSTOM_KEY"}},
		{Name: "grok", BaseURL: r.model.URL + "/v1", KeyVariables: []string{"CUSTOM_KEY"}},
	}, agents...)
	r.Service, err = providers.New(r.fleet.Service, probe.New(probe.Config{Environ: environ}), c)
	require.NoError(t, err)
	return r
}

func (r *realHarness) requireNoKeys(text string) {
	r.t.Helper()
	for _, key := range []string{claudeKey, customKey, toolToken} {
		require.NotContains(r.t, text, key)
	}
}

// writeProgram writes a bash script as a program on the PATH.
func (r *realHarness) writeProgram(name, script string) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(filepath.Join(r.bin, name), []byte("#!/usr/bin/env bash\n"+script), 0o755))
}

func (r *realHarness) ctx() context.Context {
	return fleet.WithPrincipal(r.t.Context(), fleet.Principal{Name: "root", Kind: fleet.KindHuman, Scope: fleet.ScopeAdmin})
}

// execute runs a request of root and requires a Result, which may have an Error.
func (r *realHarness) execute(q providers.ExecuteRequest) *providers.Result {
	r.t.Helper()
	a, err := r.Execute(r.ctx(), q)
	require.NoError(r.t, err)
	b, err := json.Marshal(a)
	require.NoError(r.t, err)
	r.requireNoKeys(string(b))
	return a
}

// TestModels sends requests to models over each protocol of the stub, and checks what the models received.
func TestModels(t *testing.T) {
	t.Parallel()
	r := newRealHarness(t)
	for agent, want := range map[string]struct{ api, path, key, model string }{
		"claude": {model.Anthropic, "/v1/messages", claudeKey, "stub-large"},
		"custom": {model.OpenAI, "/v1/chat/completions", customKey, "stub-small"},
		"vllm":   {model.OpenAI, "/v1/chat/completions", "", "stub-small"},
		"ollama": {model.OpenAI, "/v1/chat/completions", "", "stub-small"},
	} {
		a := r.execute(providers.ExecuteRequest{
			Agent: agent, Prompt: "model: say " + agent + " is here", Context: map[string]any{"language": "python"},
			Config: map[string]any{"temperature": 0.7, "max_tokens": 1234.0},
		})
		require.Empty(t, a.Error, agent)
		require.Equal(t, agent+" is here", a.Content)
		require.Equal(t, model.InputTokens+model.OutputTokens, a.Tokens(), agent)
		require.Contains(t, a.Model, want.model)
		requests := r.model.RequestsWith(agent + " is here")
		require.Len(t, requests, 1, "%s must get one request, without another one for a title", agent)
		require.Equal(t, []string{want.api, want.path, want.key, want.model}, []string{requests[0].API, requests[0].Path, strings.TrimPrefix(requests[0].Key(), "Bearer"), requests[0].Model}, agent)
		require.InDelta(t, 0.7, *requests[0].Temperature, 1e-9)
		require.Contains(t, string(requests[0].Body), "1234")
		require.Contains(t, requests[0].System, "assistant that programs call")
		require.Contains(t, requests[0].Transcript(), "## language\n\n```\npython\n```")
		require.Empty(t, requests[0].Tools, "an agent must have only registered tools")
	}
}

// TestUnsupportedParameters checks that parameters that the model does not accept are left out, with a warning.
func TestUnsupportedParameters(t *testing.T) {
	t.Parallel()
	r := newRealHarness(t)
	for name, c := range map[string]struct {
		config   map[string]any
		sent     []string
		notSent  []string
		warnings []string
	}{
		"o1": {
			map[string]any{"temperature": 0.7, "top_p": 0.5, "max_tokens": 1234.0, "reasoning_effort": "high"},
			[]string{`"max_completion_tokens":1234`, `"reasoning_effort":"high"`},
			[]string{"temperature", "top_p"},
			[]string{`The model "o1" does not accept temperature, so it was left out`, `The model "o1" does not accept top_p, so it was left out`},
		},
		"mistral": {
			map[string]any{"temperature": 0.7, "reasoning_effort": "low"},
			[]string{`"temperature":0.7`},
			[]string{"stream_options", "reasoning_effort"},
			[]string{`The model "mistral-large-latest" does not accept reasoning_effort, so it was left out`},
		},
		"grok":    {map[string]any{"presence_penalty": 1.0}, nil, []string{"presence_penalty"}, []string{`The model "grok-4" does not accept presence_penalty, so it was left out`}},
		"claude":  {map[string]any{"temperature": 0.7, "thinking_budget": 2048.0}, []string{`"budget_tokens":2048`}, []string{"temperature"}, []string{`The model "stub-large" does not accept temperature together with thinking_budget, so temperature was left out`}},
		"vllm":    {map[string]any{"temperature": 0.7, "reasoning_effort": "low"}, []string{`"temperature":0.7`, `"reasoning_effort":"low"`, "stream_options"}, nil, nil},
		"ollama":  {map[string]any{"top_p": 0.5}, []string{`"top_p":0.5`}, nil, nil},
		"gpt-5.1": {map[string]any{"model": "gpt-5.1-mini", "temperature": 0.7}, nil, []string{"temperature"}, []string{`The model "gpt-5.1-mini" does not accept temperature, so it was left out`}},
	} {
		agent := name
		if name == "gpt-5.1" {
			agent = "custom"
		}
		a := r.execute(providers.ExecuteRequest{Agent: agent, Prompt: "parameters of " + name, Config: c.config})
		require.Empty(t, a.Error, name)
		require.Equal(t, c.warnings, a.Warnings, name)
		body := string(r.model.RequestsWith("parameters of " + name)[0].Body)
		for _, s := range c.sent {
			require.Contains(t, body, s, name)
		}
		for _, s := range c.notSent {
			require.NotContains(t, body, s, name)
		}
	}
}

// TestSystemAndModel checks that a request's config can replace the system prompt and the model.
func TestSystemAndModel(t *testing.T) {
	t.Parallel()
	r := newRealHarness(t)
	a := r.execute(providers.ExecuteRequest{Agent: "claude", Prompt: "plain words", Config: map[string]any{"system": "You are a parrot.", "model": "stub-other"}})
	require.Equal(t, "You said: plain words", a.Content)
	requests := r.model.RequestsWith("plain words")
	require.Contains(t, requests[0].System, "You are a parrot.")
	require.NotContains(t, requests[0].System, "assistant that programs call")
	require.Equal(t, "stub-other", requests[0].Model)
}

// TestModelFailure checks requests to models that refuse, hang or never stop answering, and a caller who disconnects.
func TestModelFailure(t *testing.T) {
	t.Parallel()
	r := newRealHarness(t)
	r.model.SetAnswer(func(model.Request) model.Answer {
		return model.Answer{Status: 400, Text: "the key " + claudeKey + " has no credit"}
	})
	a := r.execute(providers.ExecuteRequest{Agent: "claude", Prompt: "p"})
	require.Contains(t, a.Error, "has no credit")
	r.model.SetAnswer(model.ScriptedAnswer)
	a = r.execute(providers.ExecuteRequest{Agent: "custom", Prompt: "model: refuse 401 Incorrect API key provided: 9f3c****************b0e5"})
	require.Contains(t, a.Error, "Incorrect API key provided: [redacted]")
	a = r.execute(providers.ExecuteRequest{Agent: "claude", Prompt: "model: hang gate", Timeout: new(1)})
	require.Contains(t, a.Error, "longer than its timeout of 1 s")
	waittest.WithGrowingLimit(t, time.Second, func(limit time.Duration) (begun bool) {
		seconds := int(limit.Seconds())
		a = r.execute(providers.ExecuteRequest{Agent: "claude", Prompt: "model: forever and ever", Timeout: &seconds})
		require.Contains(t, a.Error, fmt.Sprintf("longer than its timeout of %d s", seconds))
		return a.Usage.OutputTokens > 0
	})
	require.Equal(t, int64(model.InputTokens), a.Usage.InputTokens, "the usage that the model reported must count")
	require.Equal(t, 1, a.Turns)
	ctx, cancel := context.WithCancel(r.ctx())
	ended := executeInBackground(ctx, r.Service, providers.ExecuteRequest{Agent: "custom", Prompt: "model: hang cancelled"})
	<-r.model.Gate("cancelled").Arrived()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	<-r.model.Gate("cancelled").Left() // the request to the model has ended too
}

// TestUsageOfStopped checks that a stopped request reports the tokens that the model had reported so far.
func TestUsageOfStopped(t *testing.T) {
	t.Parallel()
	r := newRealHarness(t)
	ctx, cancel := context.WithCancel(r.ctx())
	ended := executeInBackground(ctx, r.Service, providers.ExecuteRequest{Agent: "claude", Prompt: "model: forever and on"})
	r.taskWithEvent(fleet.EventTaskOutput) // the model has reported its input tokens, which come before the first output
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	<-r.model.Gate("forever").Left()
	task := r.taskWithEvent(fleet.EventTaskEnded)
	require.Equal(t, fleet.TaskStopped, task.Status)
	require.Equal(t, int64(model.InputTokens), task.Usage.InputTokens)
	require.Positive(t, task.Usage.OutputTokens)
}

// taskWithEvent waits for an event of the type, and returns the task of the newest such event.
func (r *realHarness) taskWithEvent(event fleet.EventType) (task *fleet.Task) {
	r.t.Helper()
	r.fleet.WaitStored(func() bool {
		require.NoError(r.t, r.fleet.Store.View(r.t.Context(), func(tx fleet.ReadTx) error {
			last, err := tx.Events(fleet.EventFilter{Types: []fleet.EventType{event}}, fleet.EventWindow{Newest: true, Limit: 1})
			if err == nil && len(last) > 0 {
				task, err = tx.Task(last[0].TaskID)
			}
			return err
		}))
		return task != nil
	})
	return task
}

// TestLargeTexts uses a prompt of 1 MiB and an answer that is too long for a summary.
func TestLargeTexts(t *testing.T) {
	t.Parallel()
	r := newRealHarness(t)
	answer := strings.Repeat("long ", 20_000)
	a := r.execute(providers.ExecuteRequest{Agent: "custom", Prompt: "model: say " + answer})
	require.Equal(t, strings.TrimSpace(answer), a.Content)
	large := "model: say done\n"
	large += strings.Repeat("x", 1<<20-len(large))
	require.Equal(t, "done", r.execute(providers.ExecuteRequest{Agent: "claude", Prompt: large}).Content)
	require.Len(t, r.model.RequestsWith("xxx")[0].Transcript(), len("user: ")+1<<20)
}

// TestTools registers an HTTP tool and a program, and lets models call them.
func TestTools(t *testing.T) {
	t.Parallel()
	r := newRealHarness(t)
	type call struct{ method, token, body string }
	calls := make(chan call, 10)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		calls <- call{q.Method, q.Header.Get("Authorization"), string(b)}
		fmt.Fprint(w, `{"sum": "seven"}`)
	}))
	t.Cleanup(endpoint.Close)
	register := func(name, spec string) {
		_, err := r.Register(r.ctx(), providers.RegisterRequest{Name: name, Spec: json.RawMessage(spec)})
		require.NoError(t, err)
	}
	register("add", `{"description": "Adds", "parameters": {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]},
		"http": {"url": "`+endpoint.URL+`", "headers": {"Authorization": "Bearer ${WEATHER_TOKEN}"}}}`)
	register("count", `{"description": "Counts", "command": ["wc", "-c"]}`)
	for _, agent := range []string{"claude", "custom"} {
		a := r.execute(providers.ExecuteRequest{
			Agent: agent, Prompt: "model: tool add {\"a\": 3}\nmodel: tool count {\"x\": \"${sum}\"}\nmodel: say for " + agent,
		})
		require.Empty(t, a.Error)
		require.Equal(t, "for "+agent, a.Content)
		require.Equal(t, 2, a.Usage.ToolCalls)
		received := <-calls
		require.Equal(t, call{"POST", "Bearer " + toolToken, received.body}, received)
		require.JSONEq(t, `{"a": 3}`, received.body)
		requests := r.model.RequestsWith("for " + agent)
		require.Equal(t, []string{"add", "count"}, requests[0].ToolNames())
		results := requests[len(requests)-1].Results()
		require.Len(t, results, 2)
		require.Contains(t, results[0].Text, "seven")
		require.Contains(t, results[1].Text, "14", "the program must get its arguments")
	}
	bob := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "bob"})
	_, err := r.Execute(bob, providers.ExecuteRequest{Agent: "claude", Prompt: "model: say for bob"})
	require.NoError(t, err)
	require.Empty(t, r.model.RequestsWith("for bob")[0].Tools, "tools of another principal must not be used")
}

// TestPrograms gives requests to scripts on the PATH that record how they were called.
func TestPrograms(t *testing.T) {
	t.Parallel()
	r := newRealHarness(t, providers.Provider{
		Name: "mine", Kind: providers.KindCLI, Command: []string{"mine", "--model", "{{.Model}}", "--file", "{{.PromptFile}}"}, KeyVariables: []string{"CUSTOM_KEY"}, Model: "m-1",
	})
	r.writeProgram("claude", `if [ "$1" = --version ]; then echo "2.1.0 (Claude Code)"; exit; fi
read -r _
read -r message
last=$(sed 's/.*"text":"\([^"]*\)".*/\1/' <<<"$message")
echo '{"type":"system","subtype":"init","session_id":"s1","model":"opus"}'
printf '{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"%s key:%s","total_cost_usd":0.5,"session_id":"s1"}\n' "$last" "${#ANTHROPIC_API_KEY}"
`)
	r.writeProgram("mine", `if [ "$1" = --version ]; then exit; fi
echo "$2 $(cat "$4") [${#CUSTOM_KEY}] [$ANTHROPIC_API_KEY]"
`)
	r.writeProgram("goose", `echo "broken" >&2; exit 7`)
	a := r.execute(providers.ExecuteRequest{Agent: "claude-code", Prompt: "--help me"})
	require.Empty(t, a.Error)
	require.Equal(t, fmt.Sprint("--help me key:", len(claudeKey)), a.Content)
	require.InDelta(t, 0.5, a.CostUSD, 1e-9)
	require.Equal(t, 2, a.Turns)

	a = r.execute(providers.ExecuteRequest{Agent: "mine", Prompt: "do it"})
	require.Empty(t, a.Error)
	require.Equal(t, fmt.Sprintf("m-1 do it [%d] []", len(customKey)), a.Content, "the program must get only its own key")
	large := strings.Repeat("y", 1<<20)
	require.Contains(t, r.execute(providers.ExecuteRequest{Agent: "mine", Prompt: large}).Content, large)

	a = r.execute(providers.ExecuteRequest{Agent: "goose", Prompt: "p"})
	require.Contains(t, a.Error, "exit code 7")
	require.Contains(t, a.Error, "broken")
	a = r.execute(providers.ExecuteRequest{Agent: "qwen-code", Prompt: "p"})
	require.Contains(t, a.Error, "qwen")

	for agent, want := range map[string]struct {
		status providers.Status
		says   string
	}{
		"claude-code": {providers.StatusOperative, filepath.Join(r.bin, "claude") + " runs, version 2.1.0 (Claude Code)"},
		"custom":      {providers.StatusOperative, r.model.URL + "/v1 answers"},
		"goose":       {providers.StatusUnavailable, "goose --version ended with exit code 7"},
	} {
		f, err := r.Probe(r.ctx(), agent)
		require.NoError(t, err)
		require.Equal(t, want.status, f.Status, f.Detail)
		require.Contains(t, f.Detail, want.says)
	}
}
