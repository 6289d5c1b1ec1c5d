package app

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet/sessions"
)

// testSessions are with the agents of testdata/sessions, which run in the fake world.
func testSessions(c *sessions.Config) {
	c.Backend, c.MaxSessions, c.MaxMessages = "fake", 3, 4
}

// testRegistry is the address of a registry that has the agent fleet/echo:v1, and fleet/image:v1, which is none.
var testRegistry = sync.OnceValues(func() (string, error) {
	document, err := os.ReadFile(filepath.Join("..", "..", "testdata", "sessions", "echo.yaml"))
	if err != nil {
		return "", err
	}
	host := strings.TrimPrefix(httptest.NewServer(registry.New()).URL, "http://") // as long as the tests run
	image, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), static.NewLayer(document, types.OCIUncompressedLayer))
	if err != nil {
		return "", err
	}
	agent, _ := mutate.Annotations(image, map[string]string{"io.docker.cagent.version": "v1.19.0"}).(v1.Image)
	for ref, img := range map[string]v1.Image{"/fleet/echo:v1": agent, "/fleet/image:v1": image} {
		r, err := name.ParseReference(host + ref)
		if err == nil {
			err = remote.Write(r, img)
		}
		if err != nil {
			return "", err
		}
	}
	return host, nil
})

func TestSessionsOfAFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"sessions: {max_sesions: 1}":              `fleet.yaml:1: unknown key "max_sesions": did you mean "max_sessions"?`,
		"sessions: {max_sessions: -1}":            "sessions.max_sessions is -1",
		"sessions: {turn_timeout: -1s}":           "sessions.turn_timeout is -1s",
		"sessions: {pulled: {timeout: -1s}}":      "sessions.pulled.timeout is -1s",
		"cagent: {approval: [shell]}":             `unknown key "approval"`,
		"cagent: {prices: {a/b: {inputs: 1}}}":    `unknown key "inputs"`,
		"sessions: {pulled: {toolset: [shell]}}":  `unknown key "toolset"`,
		"sessions: {idle_timeout: tomorrow}":      "fleet.yaml",
		"sessions: {pulled: {registries: a.b.c}}": "fleet.yaml",
	} {
		_, err := Load(writeConfig(t, text), nil, nil)
		require.ErrorContains(t, err, want, text)
	}
	c, err := Load(writeConfig(t, `
sessions: {agents_dir: d, max_sessions: 5, evict: true, idle_timeout: 1h, pulled: {registries: [ghcr.io], toolsets: [fetch], model_hosts: ["llm:8080"]}}
cagent: {model: anthropic/x, approve: [shell], prices: {anthropic/x: {input: 1, output: 2, cache_read: 0.1, context: 1000}}}
`), nil, nil)
	require.NoError(t, err)
	require.Equal(t, sessions.Settings{
		AgentsDir: "d", MaxSessions: 5, Evict: true, IdleTimeout: time.Hour,
		Pulled: sessions.Pulling{Registries: []string{"ghcr.io"}, Toolsets: []string{"fetch"}, ModelHosts: []string{"llm:8080"}},
	}, c.Sessions)
	require.Equal(t, 1000, c.Cagent.Prices["anthropic/x"].Context)
}
