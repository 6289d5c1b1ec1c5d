package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var identityCases = []testCase{
	{"an identity is found by its subject and by its principal", func(t *testing.T, s fleet.Store) {
		alice := newIdentity("coder:alice", "coder", "1")
		other := newIdentity("oidc:alice", "oidc", "1")
		insertRows(t, s, alice, other)
		bySubject := func(source, id string) *fleet.Identity {
			return read(t, s, func(tx fleet.ReadTx) (*fleet.Identity, error) {
				return tx.Identity(fleet.IdentityKey{Source: source, SubjectID: id})
			})
		}
		byPrincipal := func(name string) *fleet.Identity {
			return read(t, s, func(tx fleet.ReadTx) (*fleet.Identity, error) { return tx.Identity(fleet.IdentityKey{Principal: name}) })
		}
		require.Equal(t, alice, bySubject("coder", "1"))
		require.Equal(t, other, bySubject("oidc", "1"))
		require.Equal(t, other, byPrincipal("oidc:alice"))
		require.Nil(t, bySubject("coder", "2"))
		require.Nil(t, byPrincipal("alice"))
	}},

	{"a subject has one principal, and a principal has one subject", func(t *testing.T, s fleet.Store) {
		insert := func(i *fleet.Identity) error {
			return tryInsert(t, s, i)
		}
		require.NoError(t, insert(newIdentity("coder:alice", "coder", "1")))
		requireInternal(t, insert(newIdentity("coder:bob", "coder", "1")))
		requireInternal(t, insert(newIdentity("coder:alice", "coder", "2")))
	}},

	{"the groups of a subject", func(t *testing.T, s fleet.Store) {
		alice := newIdentity("coder:alice", "coder", "1")
		bob := newIdentity("coder:bob", "coder", "2")
		bob.Groups = []string{"coder:web"}
		insertRows(t, s, alice, bob)
		for _, groups := range [][]string{{"coder:web", "coder:on\ncall", "coder:\"é\x00"}, nil, {"coder:web"}} {
			alice.Groups = groups
			updateRows(t, s, alice)
			for _, i := range []*fleet.Identity{alice, bob} {
				require.Equal(t, i, read(t, s, func(tx fleet.ReadTx) (*fleet.Identity, error) {
					return tx.Identity(fleet.IdentityKey{Principal: i.Principal})
				}))
			}
		}
	}},

	{"one of many concurrent subjects gets a name", func(t *testing.T, s fleet.Store) {
		errs := runConcurrently(10, func(i int) error {
			return s.Update(t.Context(), func(tx fleet.Tx) error {
				other, err := tx.Identity(fleet.IdentityKey{Principal: "coder:alice"})
				if err != nil || other != nil {
					return errTest
				}
				return tx.Insert(newIdentity("coder:alice", "coder", id("u", i)))
			})
		})
		requireTestErrors(t, errs, 9)
	}},
}

func newIdentity(principal, source, id string) *fleet.Identity {
	return &fleet.Identity{Principal: principal, Source: source, SubjectID: id, CreatedAt: noon}
}
