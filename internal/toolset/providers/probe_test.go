package providers_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/toolset/providers"
)

// TestProbe checks the result of a probe for every kind of answer and error, and for names that no provider has.
func TestProbe(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	for _, c := range []struct {
		name, agent string
		code        int
		body        string
		err         error
		path        string // path of a program
		output      string
		status      providers.Status
		says        []string
	}{
		{name: "a key, and a server that answers", agent: "claude", code: 200, body: `{"data":[]}`, status: "operative", says: []string{"ANTHROPIC_API_KEY", "https://api.anthropic.com answers"}},
		{name: "a name in capitals", agent: "Claude", code: 200, body: `{}`, status: "operative", says: []string{"answers"}},
		{name: "the second variable has the key", agent: "custom", code: 404, status: "operative", says: []string{"CUSTOM_KEY", "https://llm.example.com/v1 answers"}},
		{name: "no key", agent: "openai", status: "key_missing", says: []string{"OPENAI_API_KEY"}},
		{name: "no key of two", agent: "gemini", status: "key_missing", says: []string{"one of GEMINI_API_KEY, GOOGLE_API_KEY"}},
		{name: "a key that is refused", agent: "claude", code: 401, body: claudeKey, status: "unavailable", says: []string{"refuses the key in ANTHROPIC_API_KEY (HTTP 401)"}},
		{name: "a limit", agent: "claude", code: 429, status: "unavailable", says: []string{"HTTP 429"}},
		{name: "garbage", agent: "claude", code: 200, body: "<html>log in", status: "unreachable", says: []string{"base_url"}},
		{name: "a redirect", agent: "claude", code: 302, status: "unreachable", says: []string{"HTTP 302"}},
		{name: "a server error", agent: "claude", code: 503, status: "unreachable", says: []string{"HTTP 503"}},
		{name: "another refusal", agent: "claude", code: 400, status: "unavailable", says: []string{"HTTP 400"}},
		{name: "no connection, and a key in the error", agent: "claude", err: errors.New("dial with " + claudeKey + "\x1b[31m\nrefused"), status: "unreachable", says: []string{"cannot be reached: dial with [redacted]", "refused"}},
		{name: "ollama with the model", agent: "ollama", code: 200, body: `{"models":[{"name":"llama3.2:latest"},{"name":"b"}]}`, status: "operative", says: []string{"2 models: llama3.2:latest, b"}},
		{name: "ollama without the model", agent: "ollama", code: 200, body: `{"models":[{"name":"b"}]}`, status: "unavailable", says: []string{"no model llama3.2", "ollama pull llama3.2", "it has 1 model: b"}},
		{name: "ollama without models", agent: "ollama", code: 200, body: `{"models":[]}`, status: "unavailable", says: []string{"has no models"}},
		{name: "another server instead of ollama", agent: "ollama", code: 200, body: `{"hello":1}`, status: "unreachable", says: []string{"base_url"}},
		{name: "ollama that is not there", agent: "ollama", err: errors.New("connection refused"), status: "unreachable", says: []string{"http://127.0.0.1:11434 cannot be reached: connection refused"}},
		{name: "a program", agent: "claude-code", path: "/usr/bin/claude", output: "\n\x1b[1m2.1.0\x1b[0m (Claude Code)\nmore", status: "operative", says: []string{"/usr/bin/claude runs, version", "2.1.0", "(Claude Code)"}},
		{name: "a program that says nothing", agent: "codex-cli", path: "/usr/bin/codex", status: "operative", says: []string{"does not say its version"}},
		{name: "a program that is not there", agent: "gemini-cli", err: exec.ErrNotFound, status: "unavailable", says: []string{"no program gemini", "install it"}},
		{name: "a program that fails", agent: "mycli", path: "/x/mycli", err: errors.New("mycli --version ended with exit code 3"), status: "unavailable", says: []string{"/x/mycli does not run", "exit code 3"}},
		{name: "nobody", agent: "nobody", status: "unavailable", says: []string{`no agent "nobody"`, "claude-code"}},
		{name: "a name of a megabyte", agent: strings.Repeat("n", 1<<20), status: "unavailable", says: []string{`no agent "nnn`}},
	} {
		requests := 0
		h.probes.get = func(_ context.Context, url string, header map[string]string) (int, []byte, error) {
			requests++
			if c.agent != "ollama" {
				require.NotEmpty(t, header, "the key must be sent")
			}
			require.NotContains(t, url, "key")
			return c.code, []byte(c.body), c.err
		}
		h.probes.version = func(context.Context, string) (string, string, error) { return c.path, c.output, c.err }
		result, err := h.Probe(h.as("alice"), c.agent)
		require.NoError(t, err, c.name)
		require.Equal(t, c.status, result.Status, "%s: %s", c.name, result.Detail)
		for _, s := range c.says {
			require.Contains(t, result.Detail, s, c.name)
		}
		require.Less(t, len(result.Detail), 1000, c.name)
		require.NotContains(t, result.Detail, "\x1b", c.name)
		h.requireNoKeys(result)
		if c.status == "key_missing" {
			require.Zero(t, requests, "no server may be asked without a key")
		}
	}
	_, err := h.Probe(h.as("alice"), "")
	h.requireReason(err, fleet.ReasonInvalidArgument, "agent_name")
	_, err = h.Probe(t.Context(), "claude")
	require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err))
}

// TestKeysAreSentAsTheProtocolWants checks the URL and the headers of a probe in each protocol.
func TestKeysAreSentAsTheProtocolWants(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *providers.Config) {
		c.Agents = append(c.Agents, providers.Provider{
			Name: "native", Kind: providers.KindAPI, Protocol: providers.ProtocolGoogle, BaseURL: "https://g.example.com", KeyVariables: []string{"GOOGLE_API_KEY"}, Model: "g",
		})
	})
	h.setenv("GOOGLE_API_KEY", customKey)
	for agent, want := range map[string]string{
		"claude": "https://api.anthropic.com/v1/models map[Anthropic-Version:2023-06-01 X-Api-Key:" + claudeKey + "]",
		"custom": "https://llm.example.com/v1/models map[Authorization:Bearer " + customKey + "]",
		"native": "https://g.example.com/v1beta/models map[X-Goog-Api-Key:" + customKey + "]",
		"ollama": "http://127.0.0.1:11434/api/tags map[]",
	} {
		got := ""
		h.probes.get = func(_ context.Context, url string, header map[string]string) (int, []byte, error) {
			got = fmt.Sprint(url, " ", header)
			return 200, []byte(`{}`), nil
		}
		_, err := h.Probe(h.as("alice"), agent)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// TestListWithStatus probes all providers at once. A probe that hangs, panics or fails must not affect the other
// probes, and no probe may exceed its time limit.
func TestListWithStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		probes := &fakeProbes{}
		s, err := providers.New(nil, probes, providers.Config{Drivers: drivers, Getenv: func(string) string { return claudeKey }})
		require.NoError(t, err)
		probes.get = func(ctx context.Context, url string, _ map[string]string) (int, []byte, error) {
			switch {
			case strings.Contains(url, "deepseek"):
				<-ctx.Done()
				return 0, nil, ctx.Err()
			case strings.Contains(url, "mistral"):
				panic("a bug, with " + claudeKey)
			case strings.Contains(url, "x.ai"):
				return 0, nil, errors.New("no connection")
			}
			return 200, []byte(`{"models":[{"name":"llama3.2"}]}`), nil
		}
		probes.version = func(ctx context.Context, program string) (string, string, error) {
			if program == "goose" {
				<-ctx.Done()
				return "/bin/goose", "", ctx.Err()
			}
			return "/bin/" + program, "1.0", nil
		}
		begun := time.Now()
		ctx := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "alice"})
		list, err := s.List(ctx, "", true)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(begun), 4*time.Second)
		for _, l := range list {
			want := providers.StatusOperative
			switch l.Name {
			case "deepseek", "grok":
				want = providers.StatusUnreachable
			case "mistral", "goose":
				want = providers.StatusUnavailable
			}
			require.NotNil(t, l.ProbeResult, l.Name)
			require.Equal(t, want, l.ProbeResult.Status, "%s: %s", l.Name, l.ProbeResult.Detail)
			require.NotContains(t, l.ProbeResult.Detail, claudeKey)
			if l.Name == "deepseek" || l.Name == "goose" {
				require.Equal(t, 2*time.Second, l.ProbeResult.Latency)
				require.Contains(t, l.ProbeResult.Detail, "within 2s")
			}
		}
	})
}

// TestProbesAreShared checks that concurrent callers share one probe, and that a caller who disconnects does not end it
// for the others.
func TestProbesAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		probes := &fakeProbes{}
		s, err := providers.New(nil, probes, providers.Config{Drivers: drivers, Getenv: func(string) string { return claudeKey }})
		require.NoError(t, err)
		requests, open := 0, make(chan struct{})
		probes.get = func(ctx context.Context, _ string, _ map[string]string) (int, []byte, error) {
			requests++
			select {
			case <-open:
				return 200, []byte(`{}`), nil
			case <-ctx.Done():
				return 0, nil, ctx.Err()
			}
		}
		alice := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "alice"})
		first, leave := context.WithCancel(alice)
		firstErr := make(chan error, 1)
		go func() { _, err := s.Probe(first, "claude"); firstErr <- err }()
		synctest.Wait()
		var waiting sync.WaitGroup
		found := make([]providers.ProbeResult, 20)
		for i := range found {
			waiting.Go(func() { found[i], _ = s.Probe(alice, "claude") })
		}
		synctest.Wait()
		leave()
		close(open)
		require.ErrorIs(t, <-firstErr, context.Canceled)
		waiting.Wait()
		for _, result := range found {
			require.Equal(t, providers.StatusOperative, result.Status)
		}
		require.Equal(t, 1, requests)
		_, err = s.Probe(alice, "claude")
		require.NoError(t, err)
		require.Equal(t, 2, requests, "a later probe must not reuse the earlier result")
	})
}
