package definition_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/model/definition"
)

// TestPulledArtifactsHaveOwners checks that only the principal who pulled an artifact, and admins, can see, use and remove it.
// A call without a principal fails.
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
		all, err := c.Artifacts(ctx)
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
	for _, err := range []error{func() error { _, err := c.Artifacts(t.Context()); return err }(), func() error { _, err := c.Pull(t.Context(), ref); return err }()} {
		require.Equal(t, fleet.ReasonUnauthenticated, fleet.ReasonOf(err))
	}
}
