package worktree

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
)

// agentRefChange is a change of the repository for a ref of the agent.
type agentRefChange struct {
	name      string          // the agent's name of the ref
	refChange                 // of the ref in the repository
	last      publishedBranch // the published branch before the change, if hadBranch is set
	hadBranch bool            // the branch was published before
}

// collectRefs stores the agent's changed refs, given by their names with their objects, and updates have and record. The repository
// must have the objects already. left describes the refs that could not be stored.
func (g *Git) collectRefs(ctx context.Context, t Tree, have refSet, record *refRecord, changed map[string]string) (left string, err error) {
	var all []agentRefChange
	names, folders := have.names(), have.folders()
	put := func(u refChange) {
		have[u.name] = ref{oid: u.oid}
		names.add(u.name) // the next branch must not get the same name
		addFolders(folders, u.name)
	}
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		oid := changed[name]
		if branch, ok := strings.CutPrefix(name, "refs/heads/"); ok {
			last, before := record.Published[branch]
			if u, done := record.publish(t, have, names, branch, oid); done {
				for _, u := range u {
					put(u)
					all = append(all, agentRefChange{name, u, last, before})
				}
				continue
			}
		}
		if own := ownRef(t, have, folders, name); have[own].oid != oid {
			put(refChange{name: own, oid: oid})
			all = append(all, agentRefChange{name: name, refChange: refChange{name: own, oid: oid}})
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	updates := make([]refChange, 0, len(all))
	for _, p := range all {
		updates = append(updates, p.refChange)
	}
	err = g.updateRefs(ctx, t.Repository, updates...)
	if _, ours := errors.AsType[*Error](err); ours && ctx.Err() == nil { // for example, a killed git has left the lock of one
		left, err = g.updateEach(ctx, t, have, record, folders, all)
	}
	if err != nil {
		return "", err
	}
	return left, t.writeRecord(record)
}

// updateEach makes each change separately. If the repository refuses a branch, updateEach stores it as a ref of the agent. It
// corrects have and record. left describes the refs that could not be stored.
func (g *Git) updateEach(ctx context.Context, t Tree, have refSet, record *refRecord, folders map[string]bool, all []agentRefChange) (left string, err error) {
	refused, why := 0, ""
	for _, p := range all {
		err := g.updateRefs(ctx, t.Repository, p.refChange)
		branch, ok := strings.CutPrefix(p.name, "refs/heads/")
		if err != nil {
			if delete(have, p.refChange.name); strings.Trim(p.old, "0") != "" {
				have[p.refChange.name] = ref{oid: p.old}
			}
		}
		if ok && err != nil && p.old != "" { // the ref is a branch of the repository, see publish
			if record.Published[branch] = p.last; !p.hadBranch {
				delete(record.Published, branch)
			}
			u := refChange{name: ownRef(t, have, folders, p.name), oid: p.oid}
			if err = g.updateRefs(ctx, t.Repository, u); err == nil {
				have[u.name] = ref{oid: u.oid}
			}
		}
		if _, ours := errors.AsType[*Error](err); err != nil && (!ours || ctx.Err() != nil) {
			return "", err
		}
		if err != nil {
			refused, why = refused+1, err.Error()
		}
	}
	if refused > 0 {
		left = describeLeftOut(plural(refused, "branch or tag", "branches and tags"), why)
	}
	return left, nil
}

// publish returns the changes that publish a branch of the agent as a branch of the repository, and records that branch. There are no
// changes if the agent has not changed the branch since it was published, or if the repository has it already. The second result is
// false if no name is free. Then the caller must store the branch as a ref of the agent.
func (r *refRecord) publish(t Tree, have refSet, names refNames, branch, oid string) ([]refChange, bool) {
	last, before := r.Published[branch]
	if before && last.OID == oid {
		return nil, true // the agent has not changed the branch; people may have changed it
	}
	for _, name := range r.candidateNames(t, branch) {
		now, there := have["refs/heads/"+name]
		switch {
		case there && now.oid == oid && before:
			r.Published[branch] = publishedBranch{name, oid}
			return nil, true
		case there && (!before || name != last.Name || now.oid != last.OID || now.checkedOut):
			continue // somebody else has changed the branch, or has checked it out
		case !there && !names.isFree(have, name):
			continue
		}
		r.Published[branch] = publishedBranch{name, oid}
		return []refChange{{name: "refs/heads/" + name, oid: oid, old: expectedOID(now.oid, len(oid))}}, true
	}
	return nil, false
}

// expectedOID returns the expected value of a ref in the form of refChange.old, or size zeros if the ref must not exist.
func expectedOID(oid string, size int) string {
	if oid == "" {
		return strings.Repeat("0", size)
	}
	return oid
}
