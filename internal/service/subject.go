package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// groupsInterval is the minimum time between two comparisons of a subject's groups with the stored ones. Several credentials of a
// person may name different groups; without the interval, each call could write.
const groupsInterval = time.Minute

// cachedPrincipal is the name and the groups of a subject's principal, in Service.cachedPrincipals.
type cachedPrincipal struct {
	name       string
	groups     []string
	comparedAt time.Time // when the groups were compared with those in the store; zero if they were not
}

// RecordSubject stores the subject with its groups, and returns the name of its principal. The first call for a subject chooses the
// name, which never changes. If another subject already has the name, it gets a number: "coder:alice~2". RecordSubject is an
// identity.RecordSubject.
func (s *Service) RecordSubject(ctx context.Context, who fleet.Subject) (principal string, err error) {
	return s.recordSubject(ctx, who, true)
}

// FindOrAddPrincipal works like RecordSubject, for a subject whose groups are not known. Stored groups stay as they are.
func (s *Service) FindOrAddPrincipal(ctx context.Context, who fleet.Subject) (principal string, err error) {
	return s.recordSubject(ctx, who, false)
}

// recordSubject does the work of RecordSubject. It stores the subject's groups only if withGroups is set.
func (s *Service) recordSubject(ctx context.Context, who fleet.Subject, withGroups bool) (string, error) {
	type key struct{ source, id string }
	k := key{who.Source, who.ID}
	if v, ok := s.cachedPrincipals.Load(k); ok {
		c := v.(cachedPrincipal) //nolint:forcetypeassert // only these are stored
		if !withGroups || slices.Equal(c.groups, who.Groups) || s.now().Sub(c.comparedAt) < groupsInterval {
			return c.name, nil
		}
	}
	known, err := view(ctx, s.store, func(tx fleet.ReadTx) (*fleet.Identity, error) {
		return tx.Identity(fleet.IdentityKey{Source: who.Source, SubjectID: who.ID})
	})
	if err == nil && (known == nil || withGroups && !slices.Equal(known.Groups, who.Groups)) {
		err = s.store.Update(ctx, func(tx fleet.Tx) (err error) {
			if known, err = s.findOrAddIdentity(tx, who); err != nil || !withGroups || slices.Equal(known.Groups, who.Groups) {
				return err
			}
			known.Groups = who.Groups
			return tx.Update(known)
		})
	}
	if err != nil {
		return "", err
	}
	c := cachedPrincipal{name: known.Principal, groups: known.Groups}
	if withGroups {
		c.comparedAt = s.now()
	}
	s.cachedPrincipals.Store(k, c)
	return known.Principal, nil
}

// findOrAddIdentity returns the identity of the subject. If there is none, it adds one with a name that no other subject has.
func (s *Service) findOrAddIdentity(tx fleet.Tx, who fleet.Subject) (*fleet.Identity, error) {
	known, err := tx.Identity(fleet.IdentityKey{Source: who.Source, SubjectID: who.ID})
	if err != nil || known != nil {
		return known, err
	}
	name := who.PrincipalName()
	for n := 2; ; n++ {
		other, err := tx.Identity(fleet.IdentityKey{Principal: name})
		if err != nil {
			return nil, err
		}
		if other == nil {
			break
		}
		name = fmt.Sprintf("%s~%d", who.PrincipalName(), n)
	}
	known = &fleet.Identity{Principal: name, Source: who.Source, SubjectID: who.ID, CreatedAt: s.now(), Groups: who.Groups}
	return known, tx.Insert(known)
}

// SubjectOf returns the principal's id in the source; empty if the principal does not come from the source.
func (s *Service) SubjectOf(ctx context.Context, source, principal string) (string, error) {
	known, err := view(ctx, s.store, func(tx fleet.ReadTx) (*fleet.Identity, error) {
		return tx.Identity(fleet.IdentityKey{Principal: principal})
	})
	if err != nil || known == nil || known.Source != source {
		return "", err
	}
	return known.SubjectID, nil
}
