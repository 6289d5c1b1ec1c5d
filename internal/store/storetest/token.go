package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var tokenCases = []testCase{
	{"every field comes back", func(t *testing.T, s fleet.Store) {
		full := &fleet.Token{
			Name: "Jörg", Kind: fleet.KindController, Scope: fleet.ScopeRun, Projects: []string{"Setup", "local/a, b"}, Hash: "h1", CreatedAt: noon, ExpiresAt: noon.Add(time.Hour),
			RevokedAt: noon.Add(time.Minute), AgentUID: "u1", TaskID: "t1",
		}
		human, agent := newToken("alice", "h2"), newToken("worker", "h3")
		agent.Kind, agent.CreatedAt = fleet.KindAgent, time.Time{}
		for _, k := range []*fleet.Token{full, human, agent} {
			insertRows(t, s, k)
			require.Equal(t, k, tokenByHash(t, s, k.Hash))
		}
		require.Equal(t, human, getToken(t, s, human.Name))
		require.Nil(t, getToken(t, s, full.Name), "a token of an agent must not be found by its name")
		require.Equal(t, []*fleet.Token{human, agent}, read(t, s, tokens))
	}},

	{"a filter by agent leaves out revoked tokens", func(t *testing.T, s fleet.Store) {
		first, second, revoked, other := newToken("agent/a", "h1"), newToken("agent/b", "h2"), newToken("agent/c", "h3"), newToken("d", "h4")
		for _, k := range []*fleet.Token{first, second, revoked} {
			k.AgentUID = "u1"
		}
		revoked.RevokedAt = noon
		insertRows(t, s, first, second, revoked, other)
		of := func(uid string) []*fleet.Token {
			return read(t, s, func(tx fleet.ReadTx) ([]*fleet.Token, error) { return tx.Tokens(fleet.TokenFilter{AgentUID: uid}) })
		}
		require.Equal(t, []*fleet.Token{first, second}, of("u1"))
		require.Empty(t, of("u2"))
		require.Empty(t, of(""))
	}},

	{"a missing row is nil", func(t *testing.T, s fleet.Store) {
		require.Nil(t, getToken(t, s, "alice"))
		require.Nil(t, tokenByHash(t, s, ""))
		require.Empty(t, read(t, s, tokens))
	}},

	{"a name is taken until it is revoked", func(t *testing.T, s fleet.Store) {
		first, second := newToken("alice", "h1"), newToken("alice", "h2")
		insert := func(tx fleet.Tx) error { return tx.Insert(second) }
		insertRows(t, s, first)
		requireReason(t, s.Update(t.Context(), insert), fleet.ReasonTokenExists, "alice")
		update(t, s, func(tx fleet.Tx) error {
			first.RevokedAt = noon
			return tx.Update(first)
		})
		require.Equal(t, first, getToken(t, s, "alice"))
		update(t, s, insert)
		require.Equal(t, second, getToken(t, s, "alice"), "the token that is not revoked must be returned")
		require.Equal(t, first, tokenByHash(t, s, "h1"))
		require.Equal(t, second, tokenByHash(t, s, "h2"))
		ofAgent, other := newToken("alice", "h3"), newToken("alicia", "h4")
		ofAgent.AgentUID, ofAgent.RevokedAt = "u1", noon
		insertRows(t, s, ofAgent, other)
		require.Equal(t, []*fleet.Token{first, second, other}, read(t, s, tokens))
		require.Equal(t, []*fleet.Token{first, second}, read(t, s, func(tx fleet.ReadTx) ([]*fleet.Token, error) { return tx.Tokens(fleet.TokenFilter{Name: "alice"}) }))
		err := s.Update(t.Context(), func(tx fleet.Tx) error {
			first.RevokedAt = time.Time{}
			return tx.Update(first)
		})
		requireReason(t, err, fleet.ReasonTokenExists, "alice")
	}},

	{"one of many concurrent tokens with a name succeeds", func(t *testing.T, s fleet.Store) {
		errs := runConcurrently(20, func(i int) error {
			return s.Update(t.Context(), func(tx fleet.Tx) error { return tx.Insert(newToken("alice", id("h", i))) })
		})
		require.Len(t, errs, 19)
		for _, err := range errs {
			requireReason(t, err, fleet.ReasonTokenExists, "alice")
		}
	}},

	{"an update writes every field of an existing token", func(t *testing.T, s fleet.Store) {
		k := newToken("alice", "h1")
		requireInternal(t, s.Update(t.Context(), func(tx fleet.Tx) error { return tx.Update(k) }))
		insertRows(t, s, k)
		other := &fleet.Token{
			Name: "bob", Kind: fleet.KindAgent, Scope: fleet.ScopeAdmin, Hash: "h1", CreatedAt: noon.Add(time.Hour),
			ExpiresAt: noon.Add(2 * time.Hour), RevokedAt: noon.Add(3 * time.Hour),
		}
		update(t, s, func(tx fleet.Tx) error { return tx.Update(other) })
		require.Equal(t, []*fleet.Token{other}, read(t, s, tokens))
	}},

	{"a secret belongs to one token, and no error contains its hash", func(t *testing.T, s fleet.Store) {
		insertRows(t, s, newToken("alice", "5ec4e7"))
		err := s.Update(t.Context(), func(tx fleet.Tx) error { return tx.Insert(newToken("bob", "5ec4e7")) })
		requireInternal(t, err)
		require.NotContains(t, err.Error(), "5ec4e7")
		err = s.Update(t.Context(), func(tx fleet.Tx) error { return tx.Insert(newToken("alice", "5ec4e8")) })
		require.NotContains(t, err.Error(), "5ec4e")
		dog := newToken("dog", "5ec4e9")
		dog.Kind = "dog"
		err = s.Update(t.Context(), func(tx fleet.Tx) error { return tx.Insert(dog) })
		requireInternal(t, err)
		require.NotContains(t, err.Error(), "5ec4e")
	}},
}

func newToken(name, hash string) *fleet.Token {
	return &fleet.Token{Name: name, Kind: fleet.KindHuman, Scope: fleet.ScopeRead, Hash: hash, CreatedAt: noon}
}

func getToken(t tb, s fleet.Store, name string) *fleet.Token {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) (*fleet.Token, error) {
		return fleet.CurrentToken(tx.Tokens(fleet.TokenFilter{Name: name}))
	})
}

func tokenByHash(t tb, s fleet.Store, hash string) *fleet.Token {
	t.Helper()
	found, err := s.TokensByHash(t.Context(), []string{"none", hash})
	require.NoError(t, err)
	if len(found) == 0 {
		return nil
	}
	require.Len(t, found, 1)
	return found[hash]
}

func tokens(tx fleet.ReadTx) ([]*fleet.Token, error) { return tx.Tokens(fleet.TokenFilter{All: true}) }
