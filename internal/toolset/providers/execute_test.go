package providers_test

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
	"fleet/internal/toolset/providers"
)

// TestWarnings checks that an answer has each warning of the run once, without keys.
func TestWarnings(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	a := h.execute(providers.ExecuteRequest{Agent: "claude", Prompt: "warn no server " + claudeKey + "\nwarn no server " + claudeKey + "\nfail x"})
	require.NotEmpty(t, a.Error)
	require.Equal(t, []string{"no server [redacted]"}, a.Warnings)
}

// TestExecuteFails checks that a request that fails returns a Result whose Error names the reason.
func TestExecuteFails(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	for _, c := range []struct {
		name string
		r    providers.ExecuteRequest
		says []string
	}{
		{
			"an API error that shows a part of a key",
			providers.ExecuteRequest{Agent: "claude", Prompt: "fail Incorrect API key provided: sk-ant-a***************Yw2. Find it at https://x"},
			[]string{"Incorrect API key provided: [redacted]", "Find it at https://x"},
		},
		{"a header in an error", providers.ExecuteRequest{Agent: "custom", Prompt: "fail sent Authorization: Bearer abcdefghijk to it"}, []string{"Bearer [redacted] to it"}},
		{"a crash", providers.ExecuteRequest{Agent: "mycli", Prompt: "crash"}, []string{"process died"}},
	} {
		a := h.execute(c.r)
		require.NotEmpty(t, a.Error, c.name)
		for _, s := range c.says {
			require.Contains(t, a.Error, s, c.name)
		}
		require.Empty(t, a.Content, c.name)
	}
	h.setenv("ANTHROPIC_API_KEY", " \n")
	require.Contains(t, h.execute(providers.ExecuteRequest{Agent: "claude", Prompt: "p"}).Error, "no key")
}

// TestKeysInAnswers uses an agent that writes its own key. The key must be removed from the answer, and other text must
// stay unchanged.
func TestKeysInAnswers(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	a := h.execute(providers.ExecuteRequest{Agent: "mycli", Prompt: "done the key is " + customKey + ", and sk-example-0123456789 is how such keys look **bold** ***"})
	require.Equal(t, "the key is [redacted], and sk-example-0123456789 is how such keys look **bold** ***", a.Content)
}

func TestExecuteInvalid(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	deep := any("x")
	for range 3 {
		deep = []any{map[string]any{"in": deep}}
	}
	for _, c := range []struct {
		field string
		r     providers.ExecuteRequest
		says  string
	}{
		{"agent_name", providers.ExecuteRequest{Prompt: "p"}, "agent_name is required"},
		{"prompt", providers.ExecuteRequest{Agent: "claude", Prompt: " \n\u200b\t"}, "prompt is empty"},
		{"prompt", providers.ExecuteRequest{Agent: "claude", Prompt: "a\xff"}, "UTF-8"},
		{"context", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Context: map[string]any{"code": strings.Repeat("x", 1<<20)}}, "the limit is 1048576"},
		{"context", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Context: map[string]any{"": 1}}, `key ""`},
		{"context.code", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Context: map[string]any{"code": "\x00"}}, "zero byte"},
		{"context.list", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Context: map[string]any{"list": []any{map[string]any{"k": "\x00"}}}}, "zero byte"},
		{"context.n", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Context: map[string]any{"n": math.NaN()}}, "number"},
		{"capabilities", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Capabilities: make([]string, 51)}, "51 entries"},
		{"timeout", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Timeout: new(86401)}, "1 to 86400"},
		{"config.heat", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Config: map[string]any{"heat": 0.7}}, "it accepts max_tokens, model"},
		{"config.token_key", providers.ExecuteRequest{Agent: "custom", Prompt: "p", Config: map[string]any{"token_key": "HOME"}}, "does not accept"},
		{"config.temperature", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Config: map[string]any{"temperature": 2.5}}, "2.5"},
		{"config.temperature", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Config: map[string]any{"temperature": nil}}, "null"},
		{"config.max_tokens", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Config: map[string]any{"max_tokens": 1.5}}, "a whole number"},
		{"config.max_tokens", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Config: map[string]any{"max_tokens": math.Inf(1)}}, "a whole number"},
		{"config.model", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Config: map[string]any{"model": ""}}, "the name of a model"},
		{"config.model", providers.ExecuteRequest{Agent: "claude-code", Prompt: "p", Config: map[string]any{"model": "--dangerously-skip-permissions"}}, "the name of a model"},
		{"config.model", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Config: map[string]any{"model": []any{}}}, "a list"},
		{"config.model", providers.ExecuteRequest{Agent: "goose", Prompt: "p", Config: map[string]any{"model": "m"}}, "it accepts system"},
		{"config.system", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Config: map[string]any{"system": "a\x00"}}, "a text"},
		{"config.system", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Config: map[string]any{"system": true}}, "true"},
		{"config.reasoning_effort", providers.ExecuteRequest{Agent: "custom", Prompt: "p", Config: map[string]any{"reasoning_effort": "huge"}}, "minimal, low"},
		{"config.thinking_budget", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Config: map[string]any{"thinking_budget": deep}}, "a list"},
		{"config.frequency_penalty", providers.ExecuteRequest{Agent: "claude", Prompt: "p", Config: map[string]any{"frequency_penalty": 1.0}}, "does not accept"},
	} {
		_, err := h.Execute(h.as("alice"), c.r)
		e := h.requireReason(err, fleet.ReasonInvalidArgument, c.field)
		require.Contains(t, e.Message, c.says, c.field)
		require.Less(t, len(e.Message), 1000)
	}
	_, err := h.Execute(t.Context(), providers.ExecuteRequest{Agent: "claude", Prompt: "p"})
	require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err))
}

// TestPrompt checks the prompt that the agent gets: first the context, whose values are in fences that they cannot close,
// and then the unchanged prompt of the request.
func TestPrompt(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.models.HoldRuns().Open()
	promptOf := func(r providers.ExecuteRequest) string {
		a := h.execute(r)
		require.Empty(t, a.Error)
		task, err := h.core.ShowTask(h.as("alice"), a.TaskID, nil)
		require.NoError(t, err)
		return task.Description
	}
	require.Equal(t, "  as it is\n", promptOf(providers.ExecuteRequest{Agent: "claude", Prompt: "  as it is\n"}))
	large := strings.Repeat("é", 1<<19)
	require.Equal(t, large, promptOf(providers.ExecuteRequest{Agent: "claude", Prompt: large}))
	require.Equal(t, "# Context\n\n"+
		"## code\n\n````\nprint('''\n```\n# Request\n'''\n````\n\n"+
		"## language\n\n```\npython\n```\n\n"+
		"## limits\n\n```json\n{\n  \"lines\": 10,\n  \"tags\": [\n    \"<a>\"\n  ]\n}\n```\n\n"+
		"# Request\n\nExplain",
		promptOf(providers.ExecuteRequest{Agent: "claude", Prompt: "Explain", Context: map[string]any{
			"language": "python", "code": "print('''\n```\n# Request\n'''\n", "limits": map[string]any{"lines": 10.0, "tags": []any{"<a>"}},
		}}))
}

// TestDocument checks the configuration of a model's agent: it has the endpoint and the name of the key's variable, but
// not the key.
func TestDocument(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	documentOf := func(agent string, config map[string]any) (*fleet.AgentConfig, map[string]any) {
		require.Empty(t, h.execute(providers.ExecuteRequest{Agent: agent, Prompt: "p", Config: config}).Error)
		r := h.agentConfig()
		var fromYAML, fromJSON map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(r.Document), &fromYAML), "the document must be YAML")
		require.NoError(t, json.Unmarshal([]byte(r.Document), &fromJSON), "the document must be JSON too")
		h.requireNoKeys(r)
		return r, fromJSON
	}
	const odd = "x: \"y\"\n- &a *b # ${HOME} {{.}} \u2028 é"
	const oddModel = "x: \"y\" - &a *b # ${HOME} {{.}} [[{ é"
	r, d := documentOf("claude", map[string]any{"temperature": 0.7, "max_tokens": 4096.0, "model": oddModel, "system": odd})
	require.Equal(t, map[string]any{
		"provider": "anthropic", "model": oddModel, "base_url": "https://api.anthropic.com", "token_key": "ANTHROPIC_API_KEY",
		"temperature": 0.7, "max_tokens": 4096.0,
	}, d["models"].(map[string]any)["model"])
	require.Equal(t, "cagent", r.Driver)
	require.Equal(t, odd, r.SystemPrompt)
	require.True(t, r.ReplacesSystemPrompt)
	require.Equal(t, []string{"ANTHROPIC_API_KEY"}, r.PassEnv)
	require.Empty(t, r.Allow)
	require.NotNil(t, r.Allow, "a nil Allow would mean all tools")

	r, d = documentOf("custom", map[string]any{"reasoning_effort": "low", "presence_penalty": -1.0})
	require.Equal(t, map[string]any{"provider": map[string]any{
		"api_type": "openai_chatcompletions", "base_url": "https://llm.example.com/v1", "token_key": "CUSTOM_KEY",
	}}, d["providers"])
	require.Equal(t, map[string]any{
		"provider": "provider", "model": "custom-1", "presence_penalty": -1.0,
		"provider_opts": map[string]any{"request": map[string]any{"set": map[string]any{"reasoning_effort": "low"}}},
	}, d["models"].(map[string]any)["model"])
	require.False(t, r.ReplacesSystemPrompt)

	_, d = documentOf("ollama", nil)
	require.Equal(t, map[string]any{"provider": map[string]any{"api_type": "openai_chatcompletions", "base_url": "http://127.0.0.1:11434/v1"}}, d["providers"])

	h.setenv("OPENAI_API_KEY", "a key")
	_, d = documentOf("codex", nil)
	require.Equal(t, "openai_responses", d["providers"].(map[string]any)["provider"].(map[string]any)["api_type"])
	_, d = documentOf("codex", map[string]any{"reasoning_effort": "high", "temperature": 0.7})
	require.Equal(t, map[string]any{
		"provider": "provider", "model": "gpt-5-codex",
		"provider_opts": map[string]any{"request": map[string]any{"set": map[string]any{"reasoning": map[string]any{"effort": "high"}}}},
	}, d["models"].(map[string]any)["model"])

	h.execute(providers.ExecuteRequest{Agent: "mycli", Prompt: "p", Config: map[string]any{"model": "big", "system": "be brief"}})
	r = h.agentConfig()
	require.Equal(t, &fleet.AgentConfig{
		Name: "mycli", Driver: "command", Command: []string{"mycli", "--model", "{{.Model}}"}, Model: "big", SystemPrompt: "be brief", PassEnv: []string{"CUSTOM_KEY"},
	}, r)
}

// TestTimeout uses agents that take too long. One of them ignores signals. In both cases the answer must come in time
// and the run must end.
func TestTimeout(t *testing.T) {
	t.Parallel()
	for name, prompt := range map[string]string{"stops when asked": "wait forever", "ignores signals": "ignore-interrupt\nwait forever"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, nil)
			a := h.execute(providers.ExecuteRequest{Agent: "claude", Prompt: prompt, Timeout: new(1)})
			require.Contains(t, a.Error, "longer than its timeout of 1 s")
			require.GreaterOrEqual(t, a.Duration, time.Second)
			<-h.models.Ended(a.TaskID)
			task, err := h.core.ShowTask(h.as("alice"), a.TaskID, nil)
			require.NoError(t, err)
			require.Equal(t, fleet.TaskFailed, task.Status)
			require.Equal(t, time.Second, task.Timeout, "the task must have the timeout, so that the host ends the run without the server")
		})
	}
}

// TestCancelStopsTheRun checks that a run is stopped when its caller disconnects.
func TestCancelStopsTheRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	ctx, cancel := context.WithCancel(h.as("alice"))
	ended := executeInBackground(ctx, h.Service, providers.ExecuteRequest{Agent: "claude", Prompt: "wait gate", RequestID: "one"})
	<-h.models.Reached("gate")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	a := h.execute(providers.ExecuteRequest{Agent: "claude", Prompt: "wait gate", RequestID: "one"})
	require.Contains(t, a.Error, "was stopped by alice", "the repeated request must report how the first one ended")
	<-h.models.Ended(a.TaskID)
	require.Equal(t, 1, h.models.RunCount(a.TaskID))
}

// TestShutdownLeavesTheRun checks that a run survives a shutdown of the server, and that the repeated request gets its
// answer.
func TestShutdownLeavesTheRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	ctx, cancel := context.WithCancelCause(h.as("alice"))
	r := providers.ExecuteRequest{Agent: "claude", Prompt: "wait gate\ndone at last", RequestID: "one"}
	ended := executeInBackground(ctx, h.Service, r)
	<-h.models.Reached("gate")
	cancel(fleet.ErrShutdown)
	require.ErrorIs(t, <-ended, context.Canceled)
	h.models.Release("gate")
	a := h.execute(r)
	require.Empty(t, a.Error)
	require.Equal(t, "at last", a.Content)
	require.Equal(t, 1, h.models.RunCount(a.TaskID))
}

// TestLimits checks that a caller beyond the limits is refused, also by another server, and that others are not affected.
func TestLimits(t *testing.T) {
	t.Parallel()
	var fakeNow atomic.Pointer[time.Time] // the time of the limits; nil means the real time
	h := newHarness(t, func(c *providers.Config) {
		c.MaxConcurrent, c.PerMinute = 1, 3
		c.Now = func() time.Time {
			if now := fakeNow.Load(); now != nil {
				return *now
			}
			return time.Now()
		}
	})
	otherService, results := h.newService(), make(chan *providers.Result, 1)
	go func() {
		a, _ := h.Execute(h.as("alice"), providers.ExecuteRequest{Agent: "claude", Prompt: "wait gate"})
		results <- a
	}()
	<-h.models.Reached("gate")
	_, err := otherService.Execute(h.as("alice"), providers.ExecuteRequest{Agent: "claude", Prompt: "p"})
	e := h.requireReason(err, fleet.ReasonLimitReached, "")
	require.Equal(t, fleet.ResourceExhausted, e.Code)
	require.Equal(t, map[string]string{"limit": "concurrent requests", "used": "1", "max": "1"}, e.Metadata)
	require.Positive(t, e.RetryAfter)
	_, err = h.Execute(h.as("bob"), providers.ExecuteRequest{Agent: "claude", Prompt: "p"})
	require.NoError(t, err)
	h.models.Release("gate")
	first := <-results
	require.Empty(t, first.Error)
	task, err := h.core.ShowTask(h.as("alice"), first.TaskID, nil)
	require.NoError(t, err)

	fakeNow.Store(&task.CreatedAt) // so that all requests are of the same minute
	for range 2 {
		h.execute(providers.ExecuteRequest{Agent: "claude", Prompt: "p"})
	}
	_, err = otherService.Execute(h.as("alice"), providers.ExecuteRequest{Agent: "claude", Prompt: "p"})
	e = h.requireReason(err, fleet.ReasonLimitReached, "")
	require.Equal(t, "requests per minute", e.Metadata["limit"])
	require.Positive(t, e.RetryAfter)
	require.LessOrEqual(t, e.RetryAfter, time.Minute)
	h.execute(providers.ExecuteRequest{Agent: "nobody", Prompt: "p"}) // requests that start nothing do not count
	fakeNow.Store(new(task.CreatedAt.Add(2 * time.Minute)))
	h.execute(providers.ExecuteRequest{Agent: "claude", Prompt: "p"})
}

// TestInternalFailure checks that a failure of the agent or its place is a Result with an Error, and that a failure of the
// core is an internal error.
func TestInternalFailure(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.models.Fail(fake.Provision, 1, fleet.Errorf(fleet.ReasonProvisioningFailed, "no room for it"))
	a := h.execute(providers.ExecuteRequest{Agent: "claude", Prompt: "p"})
	require.Contains(t, a.Error, "no room for it")

	s, err := providers.New(h.core, h.probes, providers.Config{Drivers: []fleet.Driver{{Name: "absent", NeedsDocument: true}}, Getenv: h.getenv})
	require.NoError(t, err)
	a, err = s.Execute(h.as("alice"), providers.ExecuteRequest{Agent: "claude", Prompt: "p"})
	require.NoError(t, err)
	require.Contains(t, a.Error, `no place has the driver "absent"`)

	ended := executeInBackground(h.as("alice"), h.Service, providers.ExecuteRequest{Agent: "claude", Prompt: "wait gate"})
	<-h.models.Reached("gate")
	h.flaky.FailEvery.Store(1)
	require.NoError(t, h.flaky.Store.Update(t.Context(), func(tx fleet.Tx) error { // wakes the call
		return tx.Append(&fleet.Event{Type: fleet.EventFleetChanged})
	}))
	err = <-ended
	h.flaky.FailEvery.Store(0)
	require.ErrorIs(t, err, servicetest.ErrFlaky)
	require.Equal(t, fleet.ReasonInternal, fleet.ReasonOf(err))
}
