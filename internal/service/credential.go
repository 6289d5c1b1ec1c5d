package service

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// SetCredentials replaces the configuration of all credentials, and lets the queue decide again.
func (s *Service) SetCredentials(all []fleet.CredentialSetting) {
	free := map[string]float64{}
	for _, c := range all {
		free[c.Name] = float64(c.KeepFree) / 100
	}
	s.keepFree.Store(&free)
	s.forceDispatch()
}

// checkCredential returns CREDENTIAL_USED_UP if a usage window of the agent's credential is used up, because a task would only fail then.
func checkCredential(tx fleet.ReadTx, a *fleet.Agent, now time.Time) error {
	c, err := fleet.ReadResource[fleet.Credential](tx, fleet.CredentialKind, a.Host.Credential)
	if err != nil || c == nil {
		return err
	}
	if w := c.UsedUpWindow(now); w != nil {
		return c.Refusal(w, now)
	}
	return nil
}

// credentialWaits returns a function that returns the reasons why a pending task must wait for the credential of its agent; nil if there
// are none.
func (s *Service) credentialWaits() func(*fleet.QueuedTask) []fleet.Wait {
	waits := map[string][]fleet.Wait{}
	for name, c := range s.queue.Credentials() {
		if w := c.Waits(s.now(), (*s.keepFree.Load())[name]); len(w) > 0 {
			waits[name] = w
		}
	}
	if len(waits) == 0 {
		return func(*fleet.QueuedTask) []fleet.Wait { return nil }
	}
	type project struct{ place, name string }
	byProject := map[project]string{} // for projects of other servers, whose configuration this server does not know
	for _, v := range s.snap.All() {
		if v.Host.Credential != "" {
			byProject[project{v.Place, v.Project}] = v.Host.Credential
		}
	}
	return func(q *fleet.QueuedTask) []fleet.Wait {
		a := s.agentFor(q)
		return waits[cmp.Or(a.Host.Credential, byProject[project{a.Place, a.Project}])]
	}
}

// CredentialView is a credential with its configuration and the number of agents that use it.
type CredentialView struct {
	fleet.Credential
	KeepFree float64 // share of each usage window, from 0 to 1, that the queue leaves to people
	Agents   int     // number of agents that use it, of those that the caller sees
	Running  int     // number of these agents that have a task
}

// ListCredentials returns the credentials that are configured or in the store, sorted by name. An admin gets all of them. Others get
// the credentials of the agents that they see.
func (s *Service) ListCredentials(ctx context.Context) ([]CredentialView, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.queue.Refresh(ctx); err != nil {
		return nil, err
	}
	if err := s.snap.Refresh(ctx); err != nil {
		return nil, err
	}
	byName := map[string]*CredentialView{}
	for name, keep := range *s.keepFree.Load() {
		byName[name] = &CredentialView{Credential: fleet.Credential{Name: name}, KeepFree: keep}
	}
	for name, c := range s.queue.Credentials() {
		byName[name] = &CredentialView{Credential: *c, KeepFree: (*s.keepFree.Load())[name]}
	}
	for _, v := range s.snap.All() {
		if c := byName[v.Host.Credential]; c != nil && p.Sees(&v.Agent) {
			c.Agents++
			if v.Task != nil {
				c.Running++
			}
		}
	}
	all := []CredentialView{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if byName[name].Agents > 0 || p.SeesAll() {
			all = append(all, *byName[name])
		}
	}
	return all, s.redactInvisibleHolds(ctx, p, all)
}

// redactInvisibleHolds removes the details of holds because of tasks that the principal may not see.
func (s *Service) redactInvisibleHolds(ctx context.Context, p fleet.Principal, all []CredentialView) error {
	return s.store.View(ctx, func(tx fleet.ReadTx) error {
		for i, c := range all {
			if c.Hold == nil {
				continue
			}
			visible, err := taskVisible(tx, p, c.Hold.TaskID)
			if err != nil {
				return err
			}
			if !visible {
				all[i].Hold = &fleet.CredentialHold{Code: c.Hold.Code, At: c.Hold.At}
			}
		}
		return nil
	})
}

// ReleaseCredential lets tasks start with the credential again. It forgets the failure because of which the credential is held, and
// that usage windows are used up. The error is CREDENTIAL_NOT_FOUND if the credential is neither configured nor in the store. Package
// admission lets only admins call ReleaseCredential.
func (s *Service) ReleaseCredential(ctx context.Context, name string) error {
	if name == "" {
		return fleet.InvalidField("name", "name is required: name a credential").Next("{list_credentials} lists them")
	}
	return s.updateAs(ctx, func(tx fleet.Tx, p fleet.Principal) error {
		_, known := (*s.keepFree.Load())[name]
		err := state.ChangeCredential(tx, name, s.now(), func(c *fleet.Credential, stored bool) string {
			known = known || stored
			if !c.Release() {
				return ""
			}
			return fmt.Sprintf("the credential %s was released by %s", name, p.Name)
		})
		if err == nil && !known {
			err = fleet.Errorf(fleet.ReasonCredentialNotFound, "nothing is known of a credential %q", fleet.Shorten(name, 80)).With("credential", fleet.Shorten(name, 80)).Next("{list_credentials} lists them")
		}
		return err
	})
}

// credentialStats returns the figures of the credentials in the store.
func (s *Service) credentialStats() (all []fleet.CredentialStats) {
	for _, c := range s.queue.Credentials() {
		stats := fleet.CredentialStats{Name: c.Name, Held: c.Hold != nil, Used: map[string]float64{}}
		for _, w := range c.Windows {
			stats.Used[w.Window] = w.UsedAt(s.now())
		}
		all = append(all, stats)
	}
	return all
}
