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
		require.Nil(t, tokenByHash(t, s, ""))
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
		tokensOf := func(uid string) []*fleet.Token {
			return read(t, s, func(tx fleet.ReadTx) ([]*fleet.Token, error) { return tx.Tokens(fleet.TokenFilter{AgentUID: uid}) })
		}
		require.Equal(t, []*fleet.Token{first, second}, tokensOf("u1"))
		require.Empty(t, tokensOf("u2"))
		require.Empty(t, tokensOf(""))
	}},

	{"a name is taken until it is revoked", func(t *testing.T, s fleet.Store) {
		first, second := newToken("alice", "h1"), newToken("alice", "h2")
		insertRows(t, s, first)
		requireReason(t, tryInsert(t, s, second), fleet.ReasonTokenExists, "alice")
		first.RevokedAt = noon
		updateRows(t, s, first)
		require.Equal(t, first, getToken(t, s, "alice"))
		insertRows(t, s, second)
		require.Equal(t, second, getToken(t, s, "alice"), "the token that is not revoked must be returned")
		require.Equal(t, first, tokenByHash(t, s, "h1"))
		require.Equal(t, second, tokenByHash(t, s, "h2"))
		ofAgent, other := newToken("alice", "h3"), newToken("alicia", "h4")
		ofAgent.AgentUID, ofAgent.RevokedAt = "u1", noon
		insertRows(t, s, ofAgent, other)
		require.Equal(t, []*fleet.Token{first, second, other}, read(t, s, tokens))
		require.Equal(t, []*fleet.Token{first, second}, read(t, s, func(tx fleet.ReadTx) ([]*fleet.Token, error) { return tx.Tokens(fleet.TokenFilter{Name: "alice"}) }))
		first.RevokedAt = time.Time{}
		requireReason(t, tryUpdate(t, s, first), fleet.ReasonTokenExists, "alice")
	}},

	{"one of many concurrent tokens with a name succeeds", func(t *testing.T, s fleet.Store) {
		errs := runConcurrently(20, func(i int) error {
			return tryInsert(t, s, newToken("alice", id("h", i)))
		})
		requireReasons(t, errs, 19, fleet.ReasonTokenExists, "alice")
	}},

	{"an update writes every field of an existing token", func(t *testing.T, s fleet.Store) {
		k := newToken("alice", "h1")
		requireInternal(t, tryUpdate(t, s, k))
		insertRows(t, s, k)
		other := &fleet.Token{
			Name: "bob", Kind: fleet.KindAgent, Scope: fleet.ScopeAdmin, Hash: "h1", CreatedAt: noon.Add(time.Hour),
			ExpiresAt: noon.Add(2 * time.Hour), RevokedAt: noon.Add(3 * time.Hour),
		}
		updateRows(t, s, other)
		require.Equal(t, []*fleet.Token{other}, read(t, s, tokens))
	}},

	{"a secret belongs to one token, and no error contains its hash", func(t *testing.T, s fleet.Store) {
		insertRows(t, s, newToken("alice", "5ec4e7"))
		err := tryInsert(t, s, newToken("bob", "5ec4e7"))
		requireInternal(t, err)
		require.NotContains(t, err.Error(), "5ec4e7")
		err = tryInsert(t, s, newToken("alice", "5ec4e8"))
		require.NotContains(t, err.Error(), "5ec4e")
		dog := newToken("dog", "5ec4e9")
		dog.Kind = "dog"
		err = tryInsert(t, s, dog)
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
