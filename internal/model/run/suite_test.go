//go:build cgo

package run_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/model/definition"
	"fleet/internal/place/local"
	"fleet/internal/place/placetest"
	"fleet/internal/place/placetest/model"
	"fleet/internal/runner/driver"
)

// stubKey is the API key that the models in the tests require.
const stubKey = "sk-stub-0123456789"

// document returns a definition whose model is the stub s with the API.
func document(s *model.Server, api string) string {
	provider, base := "anthropic", s.URL
	if api == model.OpenAI {
		provider, base = "openai", s.URL+"/v1"
	}
	return fmt.Sprintf(`
models:
  stub: {provider: %s, model: stub-large, base_url: %q}
agents:
  root:
    model: stub
    description: Does as it is told.
    instruction: You do as you are told.
    toolsets:
      - type: think
  helper:
    model: stub
    instruction: You help.
`, provider, base)
}

// hangingTool returns a tool whose calls never return.
func hangingTool(t *testing.T, name string) fleet.Tool {
	t.Helper()
	return fleet.Tool{Name: name, Description: "Waits.", Parameters: []byte(`{"type":"object","properties":{}}`), HTTP: &fleet.HTTPTool{URL: model.HangingServer(t)}}
}

// environment returns the environment of the servers in the tests, with the variables in more added.
func environment(more ...string) []string {
	return append([]string{"ANTHROPIC_API_KEY=" + stubKey, "OPENAI_API_KEY=" + stubKey, "GOOGLE_API_KEY=" + stubKey, "PATH=" + os.Getenv("PATH")}, more...)
}

// prompts returns prompts that make the model and its tools behave as the suite of places needs.
func prompts() placetest.Prompts {
	return placetest.Prompts{
		Says:             placetest.Prompt{Text: `model: tools [{"name":"think","input":{"thought":"first"}}]` + "\n" + `model: say "one\ntwo"`, Lines: []string{"one", "two"}, Summary: "one\ntwo"},
		Works:            placetest.Prompt{Text: "model: tool wait {}\nmodel: tool linger {}", Lines: []string{"Now wait"}},
		Fails:            placetest.Prompt{Text: "model: refuse 400 out of ideas", Reason: "out of ideas"},
		IgnoresInterrupt: placetest.Prompt{Text: `model: forever "at work\n"`, Lines: []string{"at work"}},
		Payload:          placetest.Prompt{Text: `model: tool agent_complete {"summary":"ok","payload":"{\"a\": 1}"}`, Summary: "ok", Payload: []byte(`{"a": 1}`)},
	}
}

func TestPlace(t *testing.T) {
	for _, api := range []string{model.Anthropic, model.OpenAI} {
		t.Run(api, func(t *testing.T) {
			s := model.New(t)
			s.RequireKey(stubKey)
			agents := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(agents, "stub.yaml"), []byte(document(s, api)), 0o600))
			config := func(dir string) local.Config {
				c := local.Config{Dir: dir, Environ: environment()}
				withProcesses(t, &c)
				c.Models.Catalog = definition.NewCatalog(definition.CatalogConfig{AgentsDir: agents})
				return c
			}
			agentConfig := &fleet.AgentConfig{Driver: driver.Cagent, Document: document(s, api), Tools: []fleet.Tool{hangingTool(t, "wait"), hangingTool(t, "linger")}, PrivateHosts: []string{"127.0.0.1"}, Reports: true}
			var mu sync.Mutex // guards dirs
			dirs := map[fleet.Place]string{}
			open := func(t *testing.T, dir string) fleet.Place {
				p, err := local.New(config(dir))
				require.NoError(t, err)
				b := p.ModelPlace()
				mu.Lock()
				defer mu.Unlock()
				dirs[b] = dir
				return b
			}
			placetest.Run(t, placetest.Harness{
				New: func(t *testing.T) fleet.Place {
					t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
					return open(t, t.TempDir())
				},
				Reopen: func(t *testing.T, b fleet.Place) fleet.Place {
					mu.Lock()
					dir := dirs[b]
					mu.Unlock()
					return open(t, dir)
				},
				Project:      "stub",
				Role:         "helper",
				SampleConfig: agentConfig,
				AgentConfig:  agentConfig,
				Prompts:      prompts(),
			})
		})
	}
}
