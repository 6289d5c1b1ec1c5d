package service_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestRecordSubject checks that a subject keeps its name, that no two subjects have the same name, and that no name looks like
// the name of a token, of a subject of another source, or of an agent.
func TestRecordSubject(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	name := func(source, id, displayName string) string {
		n, err := h.RecordSubject(t.Context(), fleet.Subject{Source: source, ID: id, Name: displayName})
		require.NoError(t, err)
		return n
	}
	require.Equal(t, "coder:alice", name("coder", "1", "Alice"))
	require.Equal(t, "coder:alice", name("coder", "1", "bob"), "a renamed subject keeps its first name")
	require.Equal(t, "coder:bob", name("coder", "2", "bob"))
	require.Equal(t, "coder:alice~2", name("coder", "3", "alice"), "the name is taken")
	require.Equal(t, "coder:alice~3", name("coder", "4", "alice"))
	require.Equal(t, "oidc:alice", name("oidc", "1", "alice"), "another source")
	require.Equal(t, "oidc:alice@example.com", name("oidc", "2", "Alice@Example.com"))
	require.Equal(t, "oidc:coder_alice_2", name("oidc", "3", "coder:alice~2"), "separators that Fleet uses are replaced")
	require.Equal(t, "oidc:_", name("oidc", "4", ""))
	require.Equal(t, "oidc:_gp.exe", name("oidc", "5", "\u202egp.exe"), "characters that reorder text are replaced")
	require.Equal(t, "oidc:jörg", name("oidc", "6", "Jörg"))
	require.Len(t, []rune(name("oidc", "7", string(make([]rune, 500)))), len("oidc:")+80)

	id, err := h.SubjectOf(t.Context(), "coder", "coder:alice~2")
	require.NoError(t, err)
	require.Equal(t, "3", id)
	for _, principal := range []string{"oidc:alice", "alice", ""} {
		id, err = h.SubjectOf(t.Context(), "coder", principal)
		require.NoError(t, err)
		require.Empty(t, id)
	}
}

// TestLimitsOfGroups checks that an owner has the limits of the groups in which Fleet last saw the owner, even if a
// call does not name these groups.
func TestLimitsOfGroups(t *testing.T) {
	t.Parallel()
	var clockAhead atomic.Int64 // nanoseconds by which the clock is ahead
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(clockAhead.Load())) }
		c.Limits = fleet.Limits{Agents: 1, Groups: map[string]fleet.PrincipalLimits{"oidc:builders": {Agents: new(2)}}}
	})
	signIn := func(groups ...string) {
		_, err := h.RecordSubject(t.Context(), fleet.Subject{Source: "oidc", ID: "1", Name: "alice", Groups: groups})
		require.NoError(t, err)
	}
	storedGroups := func() (groups []string) {
		require.NoError(t, h.Store.View(t.Context(), func(tx fleet.ReadTx) error {
			i, err := tx.Identity(fleet.IdentityKey{Principal: "oidc:alice"})
			groups = i.Groups
			return err
		}))
		return groups
	}
	ctx := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "oidc:alice", Kind: fleet.KindHuman, Scope: fleet.ScopeRun})
	limit := func() int64 {
		o, err := h.Overview(ctx)
		require.NoError(t, err)
		return o.Limits[0].Max
	}
	require.EqualValues(t, 1, limit())
	signIn("oidc:builders")
	require.EqualValues(t, 2, limit())
	signIn()
	require.Equal(t, []string{"oidc:builders"}, storedGroups(), "changed groups are stored after a minute, not at once")
	clockAhead.Store(int64(2 * time.Minute))
	signIn()
	require.Empty(t, storedGroups())
	require.EqualValues(t, 1, limit())

	signIn("oidc:builders")
	clockAhead.Store(int64(4 * time.Minute))
	signIn("oidc:builders")
	require.Equal(t, []string{"oidc:builders"}, storedGroups())
	clockAhead.Store(int64(6 * time.Minute))
	name, err := h.FindOrAddPrincipal(t.Context(), fleet.Subject{Source: "oidc", ID: "1", Name: "alice"})
	require.NoError(t, err)
	require.Equal(t, "oidc:alice", name)
	require.Equal(t, []string{"oidc:builders"}, storedGroups(), "a place that names the owner of a workspace does not know the owner's groups")
}
