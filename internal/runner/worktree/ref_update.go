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

// collectRefs stores the agent's changed refs, given by their names with their objects, and updates refs and record. The repository
// must have the objects already. leftOut describes the refs that could not be stored.
func (g *Git) collectRefs(ctx context.Context, t Tree, refs refSet, record *refRecord, changed map[string]string) (leftOut string, err error) {
	var all []agentRefChange
	names, folders := refs.names(), refs.folders()
	put := func(u refChange) {
		refs[u.name] = ref{oid: u.oid}
		names.add(u.name) // the next branch must not get the same name
		addFolders(folders, u.name)
	}
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		oid := changed[name]
		if branch, ok := strings.CutPrefix(name, "refs/heads/"); ok {
			last, hadBranch := record.Published[branch]
			if updates, done := record.publish(t, refs, names, branch, oid); done {
				for _, u := range updates {
					put(u)
					all = append(all, agentRefChange{name, u, last, hadBranch})
				}
				continue
			}
		}
		if stored := agentRefName(t, refs, folders, name); refs[stored].oid != oid {
			put(refChange{name: stored, oid: oid})
			all = append(all, agentRefChange{name: name, refChange: refChange{name: stored, oid: oid}})
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
	if _, isGitError := errors.AsType[*Error](err); isGitError && ctx.Err() == nil { // for example, a killed git has left the lock of one
		leftOut, err = g.updateEach(ctx, t, refs, record, folders, all)
	}
	if err != nil {
		return "", err
	}
	return leftOut, t.writeRecord(record)
}

// updateEach makes each change separately. If the repository refuses a branch, updateEach stores it as a ref of the agent. It
// corrects refs and record. leftOut describes the refs that could not be stored.
func (g *Git) updateEach(ctx context.Context, t Tree, refs refSet, record *refRecord, folders map[string]bool, all []agentRefChange) (leftOut string, err error) {
	refused, why := 0, ""
	for _, p := range all {
		err := g.updateRefs(ctx, t.Repository, p.refChange)
		branch, ok := strings.CutPrefix(p.name, "refs/heads/")
		if err != nil {
			if delete(refs, p.refChange.name); strings.Trim(p.old, "0") != "" {
				refs[p.refChange.name] = ref{oid: p.old}
			}
		}
		if ok && err != nil && p.old != "" { // the ref is a branch of the repository, see publish
			if record.Published[branch] = p.last; !p.hadBranch {
				delete(record.Published, branch)
			}
			u := refChange{name: agentRefName(t, refs, folders, p.name), oid: p.oid}
			if err = g.updateRefs(ctx, t.Repository, u); err == nil {
				refs[u.name] = ref{oid: u.oid}
			}
		}
		if _, isGitError := errors.AsType[*Error](err); err != nil && (!isGitError || ctx.Err() != nil) {
			return "", err
		}
		if err != nil {
			refused, why = refused+1, err.Error()
		}
	}
	if refused > 0 {
		leftOut = describeLeftOut(plural(refused, "branch or tag", "branches and tags"), why)
	}
	return leftOut, nil
}

// publish returns the changes that publish a branch of the agent as a branch of the repository, and records that branch. There are no
// changes if the agent has not changed the branch since it was published, or if the repository has it already. The second result is
// false if no name is free. Then the caller must store the branch as a ref of the agent.
func (r *refRecord) publish(t Tree, refs refSet, names refNames, branch, oid string) ([]refChange, bool) {
	last, hadBranch := r.Published[branch]
	if hadBranch && last.OID == oid {
		return nil, true // the agent has not changed the branch; people may have changed it
	}
	for _, name := range r.candidateNames(t, branch) {
		current, exists := refs["refs/heads/"+name]
		switch {
		case exists && current.oid == oid && hadBranch:
			r.Published[branch] = publishedBranch{name, oid}
			return nil, true
		case exists && (!hadBranch || name != last.Name || current.oid != last.OID || current.checkedOut):
			continue // somebody else has changed the branch, or has checked it out
		case !exists && !names.isFree(refs, name):
			continue
		}
		r.Published[branch] = publishedBranch{name, oid}
		return []refChange{{name: "refs/heads/" + name, oid: oid, old: expectedOID(current.oid, len(oid))}}, true
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
