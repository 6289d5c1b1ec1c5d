package definition_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/model/definition"
)

// TestPulledArtifactsHaveOwners checks that only the principal who pulled an artifact, and admins, can see, use and remove it.
func TestPulledArtifactsHaveOwners(t *testing.T) {
	t.Parallel()
	host := serve(t, newRegistry())
	c := definition.NewCatalog(definition.CatalogConfig{StoreDir: filepath.Join(t.TempDir(), "store"), Registries: []string{host}})
	ref := host + "/fleet/hello:v1"
	digest := push(t, ref, layer(plainDocument)).String()
	as := func(name string) context.Context {
		return fleet.WithPrincipal(t.Context(), fleet.Principal{Name: name})
	}
	for _, name := range []string{"alice", "bob"} {
		_, err := c.Pull(as(name), ref)
		require.NoError(t, err)
	}
	for ctx, want := range map[context.Context]int{as("alice"): 1, as("bob"): 1, as("carol"): 0, asAdmin(t.Context()): 2} {
		all, err := c.Stored(ctx)
		require.NoError(t, err)
		require.Len(t, all, want)
	}
	_, err := c.Artifact(as("carol"), ref)
	require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(err))
	_, err = c.Remove(as("carol"), ref)
	require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(err))

	removed, err := c.Remove(as("alice"), "hello:v1")
	require.NoError(t, err)
	require.Equal(t, fleet.PulledArtifact{Digest: digest, Reference: ref}, removed)
	_, err = c.Remove(as("alice"), ref)
	require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(err))
	_, err = c.Artifact(as("bob"), ref)
	require.NoError(t, err, "the artifact of another principal must remain")
	_, err = c.Artifact(asAdmin(t.Context()), "hello:v1")
	require.NoError(t, err)
	_, err = c.Remove(asAdmin(t.Context()), ref)
	require.NoError(t, err)
	_, err = c.Artifact(as("bob"), ref)
	require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(err))
	for _, err := range []error{func() error { _, err := c.Stored(t.Context()); return err }(), func() error { _, err := c.Pull(t.Context(), ref); return err }()} {
		require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err))
	}
}

// TestPullWithLogin checks that a registry gets credentials only if the configuration allows it.
func TestPullWithLogin(t *testing.T) {
	files := newRegistry()
	open := true // allows a push without a login
	host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if !open && (user != "robot" || password != "s3cret") {
			w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		files.ServeHTTP(w, r)
	}))
	ref := host + "/fleet/hello:v1"
	push(t, ref, layer(plainDocument))
	open = false

	dir := t.TempDir()
	helper := "#!/bin/sh\necho '{\"ServerURL\":\"x\",\"Username\":\"robot\",\"Secret\":\"s3cret\"}'\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "docker-credential-robot"), []byte(helper), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"credHelpers":{"`+host+`":"robot"}}`), 0o600))
	t.Setenv("DOCKER_CONFIG", dir)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))

	config := definition.CatalogConfig{StoreDir: filepath.Join(dir, "store"), Registries: []string{host}}
	_, err := definition.NewCatalog(config).Pull(asAdmin(t.Context()), ref)
	require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "set sessions.pulled.login to docker")

	config.Login = definition.LoginDocker
	_, err = definition.NewCatalog(config).Pull(asAdmin(t.Context()), ref)
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "docker-credential-robot"), []byte("#!/bin/sh\nexit 1\n"), 0o700))
	_, err = definition.NewCatalog(config).Pull(asAdmin(t.Context()), ref)
	require.Error(t, err)
	require.NotContains(t, fleet.PublicMessage(err), "s3cret")
}
