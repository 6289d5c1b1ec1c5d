package coder

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"

	"fleet/internal/fleet"
)

// These are limits for one List, in addition to the list request, so that many agents do not overload Coder. Each List
// refreshes the oldest facts and leaves the rest to later Lists.
const (
	maxListProbes     = 16 // running workspaces whose app is probed; these requests do not count against Coder's rate limit
	maxListMetadata   = 4  // workspaces whose metadata and ports are read
	maxListParameters = 40 // builds whose parameters are read
	maxListParallel   = 8  // concurrent requests
)

// metadataAge is the age at which metadata are read again.
const metadataAge = 10 * time.Second

// List implements fleet.Place. It lists all workspaces with one request, and makes a limited number of other requests.
func (p *Place) List(ctx context.Context) ([]fleet.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	hosted, err := p.workspaces(ctx)
	if err != nil {
		return nil, err
	}
	p.readDeployment(ctx)
	if err := p.refreshFacts(ctx, hosted); err != nil {
		return nil, err
	}
	out := make([]fleet.Workspace, 0, len(hosted))
	for _, h := range hosted {
		out = append(out, p.listedWorkspace(ctx, h))
	}
	return out, ctx.Err()
}

// hostedWorkspace is a workspace that hosts an agent.
type hostedWorkspace struct {
	*workspace
	project     *templateProject
	name, owner string // the agent's name and owner
	state       fleet.State
	reason      string
	facts       workspaceFacts
}

// workspaces lists the workspaces that host agents. It drops the cached facts about all other workspaces.
func (p *Place) workspaces(ctx context.Context) ([]*hostedWorkspace, error) {
	me, err := p.whoami(ctx)
	if err != nil {
		return nil, err
	}
	filter := codersdk.WorkspaceFilter{}
	if p.config.Owner == OwnerSelf {
		filter.Owner = codersdk.Me
	}
	started := p.config.Now()
	all, err := callCoder(ctx, "listing Coder's workspaces", func(ctx context.Context) (codersdk.WorkspacesResponse, error) {
		return p.self.sdk.Workspaces(ctx, filter)
	})
	if err != nil {
		return nil, err
	}
	projects, err := p.projects(ctx, catalogAge)
	if err != nil {
		return nil, err
	}
	byTemplate := map[uuid.UUID]*templateProject{}
	for _, proj := range projects {
		byTemplate[proj.template.ID] = proj
	}
	var hosted []*hostedWorkspace
	inUse, builds := map[uuid.UUID]bool{}, map[uuid.UUID]bool{}
	for _, ws := range all.Workspaces {
		proj := byTemplate[ws.TemplateID]
		if proj == nil || ws.IsPrebuild || p.config.Owner == OwnerSelf && ws.OwnerID != me.ID {
			continue
		}
		name, ok := cutPrefixFold(ws.Name, proj.prefix())
		if !ok || fleet.ValidateAgentName(name) != nil {
			continue
		}
		acc, err := p.accountOf(ws.OwnerID.String(), me)
		if err != nil {
			p.config.Logger.WarnContext(ctx, "workspace without an owner, ignoring it", "workspace", ws.Name, "error", err)
			continue
		}
		owner, err := p.principalOf(ctx, ws)
		if err != nil {
			return nil, err
		}
		h := &hostedWorkspace{workspace: &workspace{ws: ws, account: acc, Settings: proj.Settings}, project: proj, name: name, owner: owner}
		h.state, h.reason = p.state(h.workspace)
		h.facts = p.factCache.get(ws)
		p.recent.record(ws, started)
		hosted = append(hosted, h)
		inUse[ws.ID], builds[ws.LatestBuild.ID] = true, true
	}
	p.factCache.retain(inUse, builds)
	p.recent.retain(inUse)
	return hosted, nil
}

// cutPrefixFold is like strings.CutPrefix, but ignores case.
func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// workspacesToRefresh returns the workspaces whose facts can be refreshed, those with the oldest facts first. The apps of the running
// workspaces can be probed. The stale workspaces run and have old metadata; at most one of them is idle. The build parameters of the
// missing workspaces are unknown and may be requested again.
func (p *Place) workspacesToRefresh(hosted []*hostedWorkspace, now time.Time) (running, stale, missing []*hostedWorkspace) {
	var idle []*hostedWorkspace
	failedAt := map[*hostedWorkspace]time.Time{} // by workspace in missing; copied, because other goroutines change the cache meanwhile
	for _, h := range hosted {
		if h.state == fleet.StateRunning {
			running = append(running, h)
			switch {
			case now.Sub(h.facts.metadataReadAt) < metadataAge:
			case h.hasRunner() && !h.facts.metadataReadAt.IsZero() && p.activity.isIdle(h.ws.ID, now):
				idle = append(idle, h)
			default:
				stale = append(stale, h)
			}
		}
		if failure, lacks := p.factCache.lacksParameters(h.ws.LatestBuild.ID); lacks && now.Sub(failure.failedAt) >= readRetryPause {
			missing = append(missing, h)
			failedAt[h] = failure.failedAt
		}
	}
	sortByAge(running, func(h *hostedWorkspace) time.Time { return h.facts.probedAt })
	sortByAge(idle, func(h *hostedWorkspace) time.Time { return h.facts.metadataReadAt })
	if len(idle) > 0 && p.activity.claimRefresh(now) {
		stale = append(stale, idle[0])
	}
	sortByAge(stale, func(h *hostedWorkspace) time.Time { return h.facts.metadataReadAt })
	sortByAge(missing, func(h *hostedWorkspace) time.Time { return failedAt[h] })
	return running, stale, missing
}

// refreshFacts requests facts that the list of workspaces does not contain, within the limits for one List. It returns an error only if
// ctx is done or Coder's rate limit is reached. It records other errors in the cache.
func (p *Place) refreshFacts(ctx context.Context, hosted []*hostedWorkspace) error {
	now := p.config.Now()
	running, stale, missing := p.workspacesToRefresh(hosted, now)
	var mu sync.Mutex
	var failure error
	setFailure := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if failure == nil {
			failure = err
		}
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, maxListParallel)
	runParallel := func(list []*hostedWorkspace, n int, do func(*hostedWorkspace)) {
		for _, h := range list[:min(n, len(list))] {
			group.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				if ctx.Err() == nil {
					do(h)
				}
			})
		}
	}
	runParallel(running, maxListProbes, func(h *hostedWorkspace) {
		if _, _, err := p.probe(ctx, h.workspace); err != nil && ctx.Err() == nil {
			if isThrottled(err) {
				setFailure(err)
				return
			}
			p.factCache.update(h.ws, func(v *workspaceFacts) {
				v.probedAt, v.state, v.reason = now, fleet.StateUnhealthy, fleet.PublicMessage(err)
			})
		}
	})
	runParallel(stale, maxListMetadata, func(h *hostedWorkspace) {
		p.readMetadata(ctx, h.workspace)
		p.readPorts(ctx, h.workspace)
	})
	runParallel(missing, maxListParameters, func(h *hostedWorkspace) {
		_, err := p.readBuildParameters(ctx, h.account, h.ws.LatestBuild.ID)
		switch {
		case err == nil || ctx.Err() != nil:
		case isThrottled(err):
			setFailure(err)
		default:
			p.factCache.addReadFailure(h.ws.LatestBuild.ID, err, now)
		}
	})
	group.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return failure
}

// sortByAge sorts the workspaces by the time, the oldest first.
func sortByAge(list []*hostedWorkspace, timeOf func(*hostedWorkspace) time.Time) {
	slices.SortStableFunc(list, func(a, b *hostedWorkspace) int { return timeOf(a).Compare(timeOf(b)) })
}

// listedWorkspace returns the workspace for List. The workspace has no name until its parameters have been read, so that it is not
// adopted too early. If the parameters cannot be read, the workspace has a name but no role, and its reason says why.
func (p *Place) listedWorkspace(ctx context.Context, h *hostedWorkspace) fleet.Workspace {
	w := fleet.Workspace{
		ID: h.ws.ID.String(), AgentUID: p.index.agent(h.ws.ID), Owner: h.owner, Project: h.project.Name,
		State: h.state, Reason: h.reason, Location: p.location(h.ws), CreatedAt: h.ws.CreatedAt,
		Host: p.hostFacts(h.workspace, h.project.Name),
	}
	if v := p.factCache.get(h.ws); w.State == fleet.StateRunning && !v.probedAt.IsZero() {
		w.State, w.Reason = v.state, v.reason
	}
	failure, lacks := p.factCache.lacksParameters(h.ws.LatestBuild.ID)
	w.ForeignOwnerUnknown = lacks
	if lacks && failure.err == nil {
		return w
	}
	w.Name = h.name
	var err error
	if lacks {
		err = failure.err
	} else {
		w.ForeignOwnerUnknown = p.readForeignOwner(ctx, h.workspace, &w) != nil
		w.Role, w.Spec, err = p.roleAndSpec(ctx, h.workspace)
		if p.config.Owner == OwnerSelf {
			values, _ := p.readBuildParameters(ctx, h.account, h.ws.LatestBuild.ID) // the values are cached
			w.Owner = cmp.Or(valueOf(values, ownerParameter), w.Owner)
		}
	}
	if err != nil {
		w.Reason = strings.TrimPrefix(w.Reason+"; ", "; ") + "its role or specification cannot be read: " + fleet.PublicMessage(err)
	} else if w.Role == "" {
		w.Role, w.RoleUnknown = defaultRole, true
	}
	if w.State == fleet.StateRunning {
		w.Metadata = p.metadata(ctx, h.workspace)
	}
	return w
}
